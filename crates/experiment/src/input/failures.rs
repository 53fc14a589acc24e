//! The `[[failure]]` tables: kind, target and times of each failure.

use net::{LinkIx, NodeIx, NodeKind, RandomStream, Tier, Time, Topology, did_you_mean};
use sim::{Failure, FailureKind};

use config::diagnostic::FileError;
use config::section::Section;

/// How a kind of failure is written. Everything else about it is in `sim::failures`.
struct KindInFile {
    name: &'static str,
    /// The key of its required share, from 0 to 1.
    amount: Option<&'static str>,
    /// Keys that this kind has in addition.
    optional: &'static [&'static str],
    /// The failure of a link, of a switch, or without a target.
    link: Option<fn(LinkIx, &Details) -> FailureKind>,
    switch: Option<fn(NodeIx, &Details) -> FailureKind>,
    alone: Option<FailureKind>,
}

/// Values of the keys besides the target.
struct Details {
    amount: f64,
    is_one_way: bool,
    racks: Option<(u32, u32)>,
}

const UNNAMED: KindInFile = KindInFile { name: "", amount: None, optional: &[], link: None, switch: None, alone: None };

const KINDS: [KindInFile; 8] = [
    KindInFile {
        name: "link-down",
        optional: &["direction"],
        link: Some(|link, of| if of.is_one_way { FailureKind::OneWayDown(link) } else { FailureKind::LinkDown(link) }),
        ..UNNAMED
    },
    KindInFile {
        name: "link-rate",
        amount: Some("fraction"),
        optional: &["direction"],
        link: Some(|link, of| {
            let fraction = of.amount;
            if of.is_one_way {
                FailureKind::OneWayRate { link, fraction }
            } else {
                FailureKind::LinkRate { link, fraction }
            }
        }),
        ..UNNAMED
    },
    KindInFile {
        name: "random-drop",
        amount: Some("probability"),
        link: Some(|link, of| FailureKind::RandomDrop { link, probability: of.amount }),
        switch: Some(|node, of| FailureKind::SwitchDrop { node, probability: of.amount }),
        ..UNNAMED
    },
    KindInFile {
        name: "blackhole",
        amount: Some("fraction"),
        optional: &["from_rack", "to_rack"],
        switch: Some(|node, of| FailureKind::Blackhole { node, fraction: of.amount, racks: of.racks }),
        ..UNNAMED
    },
    KindInFile { name: "switch-down", switch: Some(|node, _| FailureKind::SwitchDown(node)), ..UNNAMED },
    KindInFile { name: "channel-stall", switch: Some(|node, _| FailureKind::ChannelStall(node)), ..UNNAMED },
    KindInFile { name: "channel-down", switch: Some(|node, _| FailureKind::ChannelDown(node)), ..UNNAMED },
    KindInFile { name: "controller-down", alone: Some(FailureKind::ControllerDown), ..UNNAMED },
];

/// Names of all kinds, in the order of [`KINDS`].
pub(super) const NAMES: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut at = 0;
    while at < KINDS.len() {
        names[at] = KINDS[at].name;
        at += 1;
    }
    names
};

/// Keys that belong to some kinds only.
const OF_SOME: [&str; 8] =
    ["direction", "link", "switch", "selection_seed", "fraction", "probability", "from_rack", "to_rack"];

impl KindInFile {
    fn targets(&self) -> impl Iterator<Item = &'static str> {
        let keys = [("link", self.link.is_some()), ("switch", self.switch.is_some())];
        keys.into_iter().filter(|(_, is_target)| *is_target).map(|(key, _)| key)
    }

    fn has(&self, key: &str) -> bool {
        let is_drawn = key == "selection_seed" && self.alone.is_none();
        is_drawn
            || self.targets().any(|target| target == key)
            || self.amount == Some(key)
            || self.optional.contains(&key)
    }
}

/// Returns the key of a target that is written without one. A kind with both accepts both.
pub(super) fn target_key(kind: &str, target: &str) -> &'static str {
    let is_link = target.contains("->") || target == "any" || target.ends_with('%');
    match KINDS.iter().find(|known| known.name == kind).map(|known| (known.link.is_some(), known.switch.is_some())) {
        Some((false, true)) => "switch",
        Some((true, true)) if !is_link => "switch",
        _ => "link",
    }
}

pub(crate) fn read(section: &Section<'_>, topology: &Topology, place: usize) -> Result<Vec<Failure>, FileError> {
    let at = section.quantity::<Time>("at")?.unwrap_or(Time::ZERO);
    let until = section.quantity::<Time>("until")?;
    if until.is_some_and(|until| until <= at) {
        return Err(section.error("until", "must be later than `at`"));
    }
    let detection = section.quantity::<Time>("detection_delay")?.unwrap_or(Time::from_ms(10));
    let kinds = kinds(section, topology, place)?;
    Ok(kinds.into_iter().map(|kind| Failure { at, until, detection, kind }).collect())
}

fn kinds(section: &Section<'_>, topology: &Topology, place: usize) -> Result<Vec<FailureKind>, FileError> {
    let name = section.choice("kind")?.ok_or_else(|| section.missing("kind"))?;
    let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| section.missing("kind"))?;
    if let Some(key) = OF_SOME.into_iter().find(|key| section.has(key) && !kind.has(key)) {
        return Err(section.error(key, format!("does not belong to `{name}`")));
    }
    if let Some(alone) = &kind.alone {
        return Ok(vec![alone.clone()]);
    }
    let target = target(section, kind)?;
    if let Some(key) = kind.amount.filter(|key| !section.has(key)) {
        return Err(section.missing(key).with_hint(format!("`{name}` needs it, such as {key}=0.2")));
    }
    let amount = kind.amount.map_or(Ok(None), |key| section.positive(key))?.unwrap_or(1.0);
    let is_one_way = section.choice("direction")? == Some("one-way");
    let of = Details { amount, is_one_way, racks: racks(section, topology)? };
    let text = section.text(target)?.unwrap_or_default().trim();
    let mut choice = Choice::of(section, target, text, topology, place)?;
    Ok(match (target, kind.link, kind.switch) {
        ("link", Some(failure), _) => {
            links(section, text, topology, choice.as_mut())?.into_iter().map(|link| failure(link, &of)).collect()
        }
        (_, _, Some(failure)) => {
            switches(section, text, topology, choice.as_mut())?.into_iter().map(|node| failure(node, &of)).collect()
        }
        _ => Vec::new(),
    })
}

fn racks(section: &Section<'_>, topology: &Topology) -> Result<Option<(u32, u32)>, FileError> {
    let last = topology.nodes().iter().filter_map(|node| node.rack).max();
    let rack = |key: &str| -> Result<Option<u32>, FileError> {
        let Some(rack) = section.count::<u64>(key)? else { return Ok(None) };
        match last {
            Some(last) if rack <= u64::from(last) => Ok(Some(rack as u32)),
            Some(last) => Err(section.error(key, format!("unknown rack {rack}; the topology has racks 0 to {last}"))),
            None => Err(section.error(key, "the topology has no racks")),
        }
    };
    match (rack("from_rack")?, rack("to_rack")?) {
        (Some(from), Some(to)) => Ok(Some((from, to))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(section.missing("to_rack")),
        (None, Some(_)) => Err(section.missing("from_rack")),
    }
}

fn target(section: &Section<'_>, kind: &KindInFile) -> Result<&'static str, FileError> {
    let given: Vec<&'static str> = kind.targets().filter(|key| section.has(key)).collect();
    match given[..] {
        [key] => Ok(key),
        [first, second, ..] => {
            Err(section.error(second, format!("cannot go with `{first}`")).with_hint("keep one of them"))
        }
        [] => {
            let possible: Vec<&str> = kind.targets().collect();
            Err(section.missing(possible[0]).with_hint(format!("`{}` needs {}", kind.name, possible.join(" or "))))
        }
    }
}

/// A target that is drawn at random: `any`, or a share such as `20%`.
struct Choice {
    /// Share of the candidates in per cent; `None` for a single one.
    percent: Option<f64>,
    stream: RandomStream,
}

impl Choice {
    /// Returns `None` if the target names an existing link or switch, even one called `any`.
    fn of(
        section: &Section<'_>,
        target: &str,
        text: &str,
        topology: &Topology,
        place: usize,
    ) -> Result<Option<Choice>, FileError> {
        let is_name = target == "switch" && find(topology, text).is_some();
        let percent = text.strip_suffix('%').filter(|_| !is_name);
        if percent.is_none() && (text != "any" || is_name) {
            if section.has("selection_seed") {
                let error = section.error("selection_seed", format!("belongs to {target} = \"any\" or a share of all"));
                return Err(error.with_hint("leave it out, or replace the name by `any` or a share"));
            }
            return Ok(None);
        }
        let percent = percent
            .map(|number| {
                let number = number.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0);
                number.ok_or_else(|| section.error(target, format!("`{text}` is not a share above 0% and up to 100%")))
            })
            .transpose()?;
        // Each table of a file draws independently, and with the same result in every run.
        let pick = section.count("selection_seed")?.unwrap_or(place as u64 + 1);
        Ok(Some(Choice { percent, stream: RandomStream::new(pick, &format!("failure/{target}")) }))
    }

    /// Draws one candidate, or the given share of them, at least one; in their own order. With the same seed, a larger
    /// share contains the smaller ones.
    fn draw<T: Ord>(&mut self, mut candidates: Vec<T>) -> Vec<T> {
        self.stream.shuffle(&mut candidates);
        let share = self.percent.map_or(1, |percent| (percent / 100.0 * candidates.len() as f64).round() as usize);
        candidates.truncate(share.max(1));
        candidates.sort_unstable();
        candidates
    }
}

fn links(
    section: &Section<'_>,
    text: &str,
    topology: &Topology,
    choice: Option<&mut Choice>,
) -> Result<Vec<LinkIx>, FileError> {
    let Some(choice) = choice else {
        let hint = "write it as \"leaf0 -> spine1\", or any, or a share of all such as 20%";
        return Ok(vec![link_named(section, "link", text, topology, hint)?]);
    };
    let candidates = if choice.percent.is_some() { lowest_fabric(topology) } else { fabric(topology) };
    if candidates.is_empty() {
        let message = format!("topology `{}` has no links between switches to choose from", topology.name());
        return Err(section.error("link", message).with_hint("name a link, such as \"h0 -> s0\""));
    }
    Ok(choice.draw(candidates))
}

/// Returns the cables between switches, each in its upward direction if it has one.
fn fabric(topology: &Topology) -> Vec<LinkIx> {
    let links = (0..topology.links().len() as u32).step_by(2).map(LinkIx);
    let upward = |link: LinkIx| if topology.is_upward(link.reverse()) { link.reverse() } else { link };
    links.filter(|link| !topology.is_host_link(*link)).map(upward).collect()
}

/// Returns the cables between the two lowest tiers of switches; all cables if there is only one
/// tier.
fn lowest_fabric(topology: &Topology) -> Vec<LinkIx> {
    let all = fabric(topology);
    let tiers = |link: &LinkIx| {
        let ends = topology.link(*link);
        let (a, b) = (topology.node(ends.from).tier, topology.node(ends.to).tier);
        (a.min(b), a.max(b))
    };
    let lowest: Option<(Tier, Tier)> = all.iter().map(tiers).filter(|(low, high)| low < high).min();
    all.into_iter().filter(|link| lowest.is_none_or(|lowest| tiers(link) == lowest)).collect()
}

fn switches(
    section: &Section<'_>,
    text: &str,
    topology: &Topology,
    choice: Option<&mut Choice>,
) -> Result<Vec<NodeIx>, FileError> {
    let Some(choice) = choice else { return Ok(vec![switch(section, text, topology)?]) };
    let has_host = |node: NodeIx| topology.out_links(node).iter().any(|link| topology.is_host_link(*link));
    // A switch with hosts would disconnect them, and no balancer can route around that.
    let transit = (0..topology.nodes().len() as u32)
        .map(NodeIx)
        .filter(|node| topology.node(*node).kind == NodeKind::Switch && !has_host(*node));
    let top = transit.clone().map(|node| topology.node(node).tier).max();
    let candidates: Vec<NodeIx> = transit.filter(|node| Some(topology.node(*node).tier) == top).collect();
    if candidates.is_empty() {
        let message = format!("every switch of topology `{}` has hosts, so none can be drawn", topology.name());
        return Err(section.error("switch", message).with_hint("name a switch"));
    }
    Ok(choice.draw(candidates))
}

/// Finds a link by name: `a -> b`, or `a -> b #2` for the second of parallel links.
pub(crate) fn link_named(
    section: &Section<'_>,
    key: &str,
    text: &str,
    topology: &Topology,
    form_hint: &str,
) -> Result<LinkIx, FileError> {
    let (ends, number) = text.rsplit_once('#').unwrap_or((text, "1"));
    let form = || section.error(key, format!("`{text}` is not a valid link")).with_hint(form_hint);
    let (from, to) = ends.split_once("->").ok_or_else(form)?;
    let number: usize = number.trim().parse().ok().filter(|number| *number > 0).ok_or_else(form)?;
    let from = node(section, key, topology, from.trim())?;
    let to = node(section, key, topology, to.trim())?;
    let mut parallel = topology.out_links(from).iter().filter(|link| topology.link(**link).to == to);
    parallel.nth(number - 1).copied().ok_or_else(|| {
        let neighbours: Vec<&str> =
            topology.out_links(from).iter().map(|link| topology.node(topology.link(*link).to).name.as_str()).collect();
        let name = &topology.node(from).name;
        let nearest = did_you_mean::nearest(&topology.node(to).name, neighbours.iter().copied())
            .map_or(String::new(), |near| format!("did you mean `{name} -> {near}`? "));
        let hint = format!("{nearest}`{name}` has links to {}", few(&neighbours));
        section.error(key, format!("unknown link `{text}`")).with_hint(hint)
    })
}

fn switch(section: &Section<'_>, name: &str, topology: &Topology) -> Result<NodeIx, FileError> {
    let node = node(section, "switch", topology, name)?;
    match topology.node(node).kind {
        NodeKind::Switch => Ok(node),
        NodeKind::Host => Err(section.error("switch", format!("`{name}` is a host"))),
    }
}

fn find(topology: &Topology, name: &str) -> Option<NodeIx> {
    topology.nodes().iter().position(|node| node.name == name).map(|ix| NodeIx(ix as u32))
}

fn node(section: &Section<'_>, key: &str, topology: &Topology, name: &str) -> Result<NodeIx, FileError> {
    find(topology, name).ok_or_else(|| {
        let switches = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
        let names: Vec<&str> = switches.map(|node| node.name.as_str()).collect();
        let hint = match did_you_mean::nearest(name, names.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("its switches are {}", few(&names)),
        };
        section.error(key, format!("topology `{}` has no node `{name}`", topology.name())).with_hint(hint)
    })
}

pub(crate) fn few(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}
