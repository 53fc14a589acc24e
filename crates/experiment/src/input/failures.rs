//! The `[[failure]]` tables: kind, target and times of each failure.

use net::{LinkIx, NodeIx, NodeKind, RandomStream, Tier, Time, Topology, did_you_mean};
use sim::{Failure, FailureKind};

use config::diagnostic::FileError;
use config::section::Section;

use super::keys::FAILURE_KINDS as KINDS;

/// Position in [`KINDS`] of the kind without a target.
const CONTROLLER_DOWN: usize = 7;

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
    let kind = section.chosen("kind", &[0, 1, 2, 3, 4, 5, 6, 7])?.ok_or_else(|| section.missing("kind"))?;
    let is_one_way = direction(section, kind)?;
    if kind == CONTROLLER_DOWN {
        let keys = ["link", "switch", "selection_seed", "fraction", "probability", "from_rack", "to_rack"];
        return match keys.into_iter().find(|key| section.has(key)) {
            Some(key) => Err(section.error(key, format!("does not belong to `{}`", KINDS[kind]))),
            None => Ok(vec![FailureKind::ControllerDown]),
        };
    }
    let target = target(section, kind)?;
    let amount = ["fraction", "fraction", "probability", "fraction", "", "", ""][kind];
    let is_needed = matches!(kind, 1..=3);
    for key in ["fraction", "probability"] {
        match (is_needed && key == amount, section.has(key)) {
            (true, false) => {
                return Err(section.missing(key).with_hint(format!("`{}` needs it, such as {key}=0.2", KINDS[kind])));
            }
            (false, true) => return Err(section.error(key, format!("does not belong to `{}`", KINDS[kind]))),
            _ => {}
        }
    }
    let amount = if is_needed { section.positive(amount)?.unwrap_or(1.0) } else { 1.0 };
    let racks = racks(section, kind, topology)?;
    let text = section.text(target)?.unwrap_or_default().trim();
    let mut choice = Choice::of(section, target, text, topology, place)?;
    if target == "switch" {
        let of = |node| match kind {
            2 => FailureKind::SwitchDrop { node, probability: amount },
            3 => FailureKind::Blackhole { node, fraction: amount, racks },
            5 => FailureKind::ChannelStall(node),
            6 => FailureKind::ChannelDown(node),
            _ => FailureKind::SwitchDown(node),
        };
        return Ok(switches(section, text, topology, choice.as_mut())?.into_iter().map(of).collect());
    }
    let of = |link| match kind {
        0 if is_one_way => FailureKind::OneWayDown(link),
        0 => FailureKind::LinkDown(link),
        1 => FailureKind::LinkRate { link, fraction: amount },
        _ => FailureKind::RandomDrop { link, probability: amount },
    };
    Ok(links(section, text, topology, choice.as_mut())?.into_iter().map(of).collect())
}

fn direction(section: &Section<'_>, kind: usize) -> Result<bool, FileError> {
    let choice = section.choice("direction")?;
    match choice {
        Some(_) if kind != 0 => Err(section.error("direction", format!("does not belong to `{}`", KINDS[kind]))),
        choice => Ok(choice == Some("one-way")),
    }
}

fn racks(section: &Section<'_>, kind: usize, topology: &Topology) -> Result<Option<(u32, u32)>, FileError> {
    let last = topology.nodes().iter().filter_map(|node| node.rack).max();
    let rack = |key: &str| -> Result<Option<u32>, FileError> {
        let Some(rack) = section.count::<u64>(key)? else { return Ok(None) };
        if kind != 3 {
            return Err(section.error(key, format!("does not belong to `{}`", KINDS[kind])));
        }
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

fn target(section: &Section<'_>, kind: usize) -> Result<&'static str, FileError> {
    let possible: &[&'static str] = match kind {
        0 | 1 => &["link"],
        2 => &["link", "switch"],
        _ => &["switch"],
    };
    if let Some(key) = ["link", "switch"].into_iter().find(|key| section.has(key) && !possible.contains(key)) {
        return Err(section.error(key, format!("does not belong to `{}`", KINDS[kind])));
    }
    let mut given = possible.iter().filter(|key| section.has(key));
    match (given.next(), given.next()) {
        (Some(key), None) => Ok(key),
        (Some(_), Some(key)) => Err(section.error(key, "cannot go with `link`").with_hint("keep one of them")),
        (None, _) => {
            let needs = format!("`{}` needs {}", KINDS[kind], possible.join(" or "));
            Err(section.missing(possible[0]).with_hint(needs))
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
    let Some(choice) = choice else { return Ok(vec![link(section, text, topology)?]) };
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
fn link(section: &Section<'_>, text: &str, topology: &Topology) -> Result<LinkIx, FileError> {
    let (ends, number) = text.rsplit_once('#').unwrap_or((text, "1"));
    let form = || {
        let error = section.error("link", format!("`{text}` is not a valid link"));
        error.with_hint("write it as \"leaf0 -> spine1\", or any, or a share of all such as 20%")
    };
    let (from, to) = ends.split_once("->").ok_or_else(form)?;
    let number: usize = number.trim().parse().ok().filter(|number| *number > 0).ok_or_else(form)?;
    let from = node(section, "link", topology, from.trim())?;
    let to = node(section, "link", topology, to.trim())?;
    let mut parallel = topology.out_links(from).iter().filter(|link| topology.link(**link).to == to);
    parallel.nth(number - 1).copied().ok_or_else(|| {
        let neighbours: Vec<&str> =
            topology.out_links(from).iter().map(|link| topology.node(topology.link(*link).to).name.as_str()).collect();
        let name = &topology.node(from).name;
        let nearest = did_you_mean::nearest(&topology.node(to).name, neighbours.iter().copied())
            .map_or(String::new(), |near| format!("did you mean `{name} -> {near}`? "));
        let hint = format!("{nearest}`{name}` has links to {}", few(&neighbours));
        section.error("link", format!("unknown link `{text}`")).with_hint(hint)
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
