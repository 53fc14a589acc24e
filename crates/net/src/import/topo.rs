//! Leaf-spine and fat-tree descriptions of the htsim simulator (`.topo`).
//!
//! Lines are `key value`, `#` starts a comment, keys ignore case. First come `Nodes` (hosts),
//! `Tiers` (2 or 3) and `Podsize` (hosts per pod). Then, for each `Tier n` (0 is next to the
//! hosts): `Radix_Down`, `Radix_Up` (ports; the top tier has no `Radix_Up`), `Downlink_speed_Gbps`,
//! `Downlink_Latency_ns`, and optionally `Switch_Latency_ns`, `Bundle` (parallel links to each
//! neighbour below) and `Oversubscribed`, which must agree with the radices and speeds.
//!
//! As in htsim, aggregation `a` of every pod links to the cores `a`, `a + aggregations per pod`,
//! and so on. The latency of a switch is added to the delay of every link that enters it.

use std::collections::BTreeMap;

use super::{ImportError, Imported, check_size, stem, unusable};
use crate::families::{MAX_DELAY, Size, product};
use crate::topology::{NodeIx, NodeKind, Topology, TopologyBuilder};
use crate::units::{Bandwidth, Time};

const GLOBAL_KEYS: [&str; 3] = ["nodes", "tiers", "podsize"];
const TIER_KEYS: [&str; 7] = [
    "radix_down",
    "radix_up",
    "downlink_speed_gbps",
    "downlink_latency_ns",
    "switch_latency_ns",
    "bundle",
    "oversubscribed",
];
/// Keys of htsim that do not concern the topology.
const IGNORED_KEYS: [&str; 2] = ["queue_up", "queue_down"];

/// Reads a `.topo` text; `file` is for messages and the topology's name.
///
/// # Errors
/// Lines that are not a known key with a value, missing keys, inconsistent numbers (always with a
/// line), or a network that is too large.
pub fn read(file: &str, text: &str) -> Result<Imported, ImportError> {
    let source = Source::parse(file, text)?;
    let plan = Plan::new(&source)?;
    let topology = plan.build(stem(file)).map_err(|cause| unusable(file, cause))?;
    Ok(Imported { topology, warnings: source.warnings })
}

type Entry<'a> = (&'a str, u32);

/// The split text: entries by tier (`None` for global keys) and key.
struct Source<'a> {
    file: &'a str,
    entries: BTreeMap<(Option<u32>, String), Entry<'a>>,
    last_line: u32,
    warnings: Vec<String>,
}

impl<'a> Source<'a> {
    fn parse(file: &'a str, text: &'a str) -> Result<Source<'a>, ImportError> {
        let mut source = Source { file, entries: BTreeMap::new(), last_line: 1, warnings: Vec::new() };
        let mut tier = None;
        for (i, line) in text.lines().enumerate() {
            source.last_line = i as u32 + 1;
            let words = line.split('#').next().unwrap_or_default();
            let mut words = words.split_whitespace();
            let Some(key) = words.next() else { continue };
            let (Some(value), None) = (words.next(), words.next()) else {
                let reason = format!("`{}` is not `key value`", line.trim());
                return Err(source.wrong(source.last_line, reason));
            };
            let key = key.to_ascii_lowercase();
            if key == "tier" {
                let line = source.last_line;
                let number = value.parse().ok().filter(|tier| *tier <= 2u32);
                let reason = || format!("tier `{value}` is not 0, 1 or 2");
                tier = Some(number.ok_or_else(|| source.wrong(line, reason()))?);
            } else {
                source.enter(tier, key, value)?;
            }
        }
        Ok(source)
    }

    fn enter(&mut self, tier: Option<u32>, key: String, value: &'a str) -> Result<(), ImportError> {
        let line = self.last_line;
        let global = GLOBAL_KEYS.contains(&key.as_str());
        if IGNORED_KEYS.contains(&key.as_str()) {
            self.warnings.push(format!("line {line}: `{key}` is ignored"));
            return Ok(());
        }
        if !global && !TIER_KEYS.contains(&key.as_str()) {
            let known = GLOBAL_KEYS.into_iter().chain(["tier"]).chain(TIER_KEYS);
            let hint = crate::did_you_mean::suggestion(&key, known);
            return Err(self.wrong(line, format!("unknown key `{key}`; {hint}")));
        }
        if !global && tier.is_none() {
            return Err(self.wrong(line, format!("`{key}` belongs below a line `Tier n`")));
        }
        let place = (tier.filter(|_| !global), key);
        if let Some((_, first)) = self.entries.get(&place) {
            let reason = format!("`{}` was already given in line {first}", place.1);
            return Err(self.wrong(line, reason));
        }
        self.entries.insert(place, (value, line));
        Ok(())
    }

    fn wrong(&self, line: u32, reason: String) -> ImportError {
        ImportError::Text { file: self.file.to_owned(), line, column: 1, reason }
    }

    fn entry(&self, tier: Option<u32>, key: &str) -> Option<Entry<'a>> {
        self.entries.get(&(tier, key.to_owned())).copied()
    }

    /// Returns the line of a key that is given.
    fn line_of(&self, tier: Option<u32>, key: &str) -> u32 {
        self.entry(tier, key).map_or(self.last_line, |(_, line)| line)
    }

    /// Reads a value that is `what`; without an `omitted` value it must be given.
    fn value<T>(
        &self,
        (tier, key): (Option<u32>, &str),
        omitted: Option<T>,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ImportError> {
        match (self.entry(tier, key), omitted) {
            (Some((text, line)), _) => {
                read(text).ok_or_else(|| self.wrong(line, format!("{key} = `{text}` is not {what}")))
            }
            (None, Some(omitted)) => Ok(omitted),
            (None, None) => {
                let place = tier.map_or(String::new(), |tier| format!(" of tier {tier}"));
                Err(self.wrong(self.last_line, format!("the file ends without `{key}`{place}")))
            }
        }
    }

    fn count(&self, tier: Option<u32>, key: &str, omitted: Option<u64>) -> Result<u64, ImportError> {
        let what = format!("a whole number from 1 to {}", u32::MAX);
        let above_zero = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0).map(u64::from);
        self.value((tier, key), omitted, &what, above_zero)
    }

    fn delay(&self, tier: u32, key: &str, omitted: Option<Time>) -> Result<Time, ImportError> {
        let delay = |text: &str| format!("{text}ns").parse().ok().filter(|delay| *delay <= MAX_DELAY);
        self.value((Some(tier), key), omitted, "a number of ns from 0 to one hour", delay)
    }

    fn rate(&self, tier: u32) -> Result<Bandwidth, ImportError> {
        let most = Bandwidth::from_gbps(1_000_000);
        let fits = |rate: &Bandwidth| rate.as_bps() > 0 && *rate <= most;
        let rate = |text: &str| format!("{text}Gbps").parse().ok().filter(fits);
        self.value((Some(tier), "downlink_speed_gbps"), None, "a number above 0 and at most 1000000", rate)
    }
}

struct PlanTier {
    radix_down: u64,
    /// 0 in the top tier.
    radix_up: u64,
    rate: Bandwidth,
    delay: Time,
    switch_delay: Time,
    bundle: u64,
}

/// The network that follows from the numbers.
struct Plan {
    hosts: u64,
    pods: u64,
    tors_per_pod: u64,
    /// Switches of tier 1 per pod; all spines in a leaf-spine, which is one pod.
    middle_per_pod: u64,
    /// 0 in a leaf-spine.
    cores: u64,
    tiers: Vec<PlanTier>,
}

impl PlanTier {
    fn new(source: &Source, tier: u32, top: bool) -> Result<PlanTier, ImportError> {
        Ok(PlanTier {
            delay: source.delay(tier, "downlink_latency_ns", None)?,
            radix_down: source.count(Some(tier), "radix_down", None)?,
            radix_up: if top { 0 } else { source.count(Some(tier), "radix_up", None)? },
            rate: source.rate(tier)?,
            switch_delay: source.delay(tier, "switch_latency_ns", Some(Time::ZERO))?,
            bundle: source.count(Some(tier), "bundle", Some(1))?,
        })
    }
}

impl Plan {
    fn new(source: &Source) -> Result<Plan, ImportError> {
        let count = source.count(None, "tiers", None)? as u32;
        if !(2..=3).contains(&count) {
            let reason = format!("tiers = `{count}`: only 2 (leaf-spine) and 3 (fat tree) are known");
            return Err(source.wrong(source.line_of(None, "tiers"), reason));
        }
        let tiers = (0..count).map(|tier| PlanTier::new(source, tier, tier + 1 == count));
        let tiers: Vec<PlanTier> = tiers.collect::<Result<_, _>>()?;
        let hosts = source.count(None, "nodes", None)?;
        let per_pod = source.count(None, "podsize", None)?;
        let divide = |whole: u64, part: u64, tier: Option<u32>, key: &str, what: &str| {
            if part > 0 && whole.is_multiple_of(part) && whole >= part {
                return Ok(whole / part);
            }
            let reason = format!("{key}: {part} does not divide the {whole} {what}");
            Err(source.wrong(source.line_of(tier, key), reason))
        };
        let pods = divide(hosts, per_pod, None, "podsize", "hosts (Nodes)")?;
        let (low, middle) = (&tiers[0], &tiers[1]);
        let tors_per_pod = divide(per_pod, low.radix_down, Some(0), "radix_down", "hosts of a pod")?;
        let up = product([tors_per_pod, low.radix_up]);
        let what = "uplinks of tier 0 in a pod";
        let middle_per_pod = divide(up, middle.radix_down, Some(1), "radix_down", what)?;
        let cores = match tiers.get(2) {
            None => 0,
            Some(top) => {
                let up = product([pods, middle_per_pod, middle.radix_up]);
                divide(up, top.radix_down, Some(2), "radix_down", "uplinks of tier 1")?
            }
        };
        let plan = Plan { hosts, pods, tors_per_pod, middle_per_pod, cores, tiers };
        plan.check(source)?;
        Ok(plan)
    }

    /// Checks what divisibility does not cover.
    fn check(&self, source: &Source) -> Result<(), ImportError> {
        let wrong = |tier: Option<u32>, key: &str, reason: String| {
            Err(source.wrong(source.line_of(tier, key), format!("{key}: {reason}")))
        };
        if self.tiers.len() == 2 && self.pods != 1 {
            let reason = format!("a network of 2 tiers is one pod; write {}", self.hosts);
            return wrong(None, "podsize", reason);
        }
        if self.tiers[0].bundle != 1 {
            return wrong(Some(0), "bundle", "hosts have one link each; write 1".to_owned());
        }
        let reached = product([self.middle_per_pod, self.tiers[1].bundle]);
        if reached != self.tiers[0].radix_up {
            let reason = format!(
                "{} uplinks do not make a bundle of {} to each of the {} switches of tier 1 above",
                self.tiers[0].radix_up, self.tiers[1].bundle, self.middle_per_pod
            );
            return wrong(Some(0), "radix_up", reason);
        }
        if let Some(top) = self.tiers.get(2) {
            let up = product([self.tiers[1].radix_up, self.middle_per_pod]);
            let down = product([self.pods, top.bundle]);
            if up != product([self.cores, top.bundle]) || top.radix_down != down {
                let reason = format!(
                    "{} uplinks per aggregation and {} downlinks per core do not make a bundle of {} from \
                     each of {} cores to each of {} pods",
                    self.tiers[1].radix_up, top.radix_down, top.bundle, self.cores, self.pods
                );
                return wrong(Some(1), "radix_up", reason);
            }
        }
        for (tier, pair) in self.tiers.windows(2).enumerate() {
            self.check_ratio(source, tier as u32, &pair[0], &pair[1])?;
        }
        check_size(source.file, self.size())
    }

    /// Checks that `Oversubscribed` agrees with ports and speeds.
    fn check_ratio(&self, source: &Source, tier: u32, here: &PlanTier, above: &PlanTier) -> Result<(), ImportError> {
        let key = "oversubscribed";
        let Some((_, line)) = source.entry(Some(tier), key) else { return Ok(()) };
        let ratio = source.count(Some(tier), key, None)?;
        let down = u128::from(here.radix_down) * u128::from(here.rate.as_bps());
        let up = u128::from(here.radix_up) * u128::from(above.rate.as_bps());
        if down != up.saturating_mul(ratio.into()) {
            let actual = down as f64 / up as f64;
            let reason = format!("{key} = {ratio}, but ports and speeds make it {actual}");
            return Err(source.wrong(line, reason));
        }
        Ok(())
    }

    fn size(&self) -> Size {
        let tors = product([self.pods, self.tors_per_pod]);
        let middle = product([self.pods, self.middle_per_pod]);
        let switches = tors.saturating_add(middle).saturating_add(self.cores);
        let up = product([tors, self.tiers[0].radix_up]);
        let top = product([middle, self.tiers[1].radix_up]);
        Size { hosts: self.hosts, switches, cables: self.hosts.saturating_add(up).saturating_add(top) }
    }

    fn build(&self, name: String) -> Result<Topology, crate::TopologyError> {
        let mut b = TopologyBuilder::new(name);
        let cores: Vec<NodeIx> = (0..self.cores).map(|i| b.switch(format!("core{i}"), 3, None)).collect();
        for pod in 0..self.pods {
            self.build_pod(&mut b, pod, &cores);
        }
        let topology = b.build()?;
        let kinds: Vec<Option<usize>> = topology
            .nodes()
            .iter()
            .map(|node| (node.kind == NodeKind::Switch).then(|| usize::from(node.tier.0) - 1))
            .collect();
        Ok(topology.with_links_changed(|_, link| {
            if let Some(tier) = kinds[link.to.ix()] {
                link.delay += self.tiers[tier].switch_delay;
            }
        }))
    }

    fn build_pod(&self, b: &mut TopologyBuilder, pod: u64, cores: &[NodeIx]) {
        let two_tiers = cores.is_empty();
        let (names, pod_number) = match two_tiers {
            true => (["leaf".to_owned(), "spine".to_owned()], None),
            false => ([format!("pod{pod}/tor"), format!("pod{pod}/agg")], Some(pod as u32)),
        };
        let middle: Vec<NodeIx> =
            (0..self.middle_per_pod).map(|i| b.switch(format!("{}{i}", names[1]), 2, pod_number)).collect();
        let [low, mid] = [&self.tiers[0], &self.tiers[1]];
        for i in 0..self.tors_per_pod {
            let tor = b.switch(format!("{}{i}", names[0]), 1, pod_number);
            let rack = pod * self.tors_per_pod + i;
            b.rack(tor, rack as u32, pod_number, low.radix_down as u32, (low.rate, low.delay));
            for above in &middle {
                for _ in 0..mid.bundle {
                    b.connect(tor, *above, mid.rate, mid.delay);
                }
            }
        }
        let Some(top) = self.tiers.get(2) else { return };
        for (i, aggregation) in middle.iter().enumerate() {
            for core in cores.iter().skip(i).step_by(middle.len()) {
                for _ in 0..top.bundle {
                    b.connect(*aggregation, *core, top.rate, top.delay);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Routes;
    use crate::topology::HostIx;

    const LEAF_SPINE: &str = "Nodes 32\nTiers 2\nPodsize 32\nTier 0\nDownlink_speed_Gbps 100\n\
        Radix_Down 8\nRadix_Up 2\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 500\nOversubscribed 4\n\
        Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\n";

    fn import(text: &str) -> Result<Topology, String> {
        let read = read("net.topo", text);
        read.map(|imported| imported.topology).map_err(|error| error.to_string())
    }

    #[test]
    fn leaf_spine_has_described_size_and_delays() {
        let topology = import(LEAF_SPINE).unwrap();
        assert_eq!(Size::of(&topology), Size { hosts: 32, switches: 6, cables: 40 });
        // The switch latency is added towards the leaf, but not towards the host.
        let delays: Vec<Time> = topology.links()[..2].iter().map(|link| link.delay).collect();
        assert_eq!(delays, [Time::from_ns(1500), Time::from_ns(1000)]);
    }

    #[test]
    fn bundles_are_parallel_links() {
        let text = "Nodes 8\nTiers 3\nPodsize 4\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 2\n\
            Downlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 4\n\
            Downlink_Latency_ns 1000\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 4\n\
            Downlink_Latency_ns 1000\nBundle 2\n";
        let topology = import(text).unwrap();
        assert_eq!(Size::of(&topology), Size { hosts: 8, switches: 12, cables: 8 + 8 + 16 });
        let routes = Routes::intact(&topology);
        let class = routes.class_of(HostIx(7));
        // 2 aggregations, 2 cores each, 2 links up and 2 down.
        assert_eq!(routes.path_count(topology.host(HostIx(0)), class), 16);
    }

    #[test]
    fn error_of_wrong_file_names_line() {
        let replaced = |from: &str, to: &str| LEAF_SPINE.replacen(from, to, 1);
        for (text, expected) in [
            (replaced("Nodes 32", "Nodes"), "net.topo:1:1: `Nodes` is not `key value`"),
            (replaced("Nodes 32", "Nodes 0"), ":1:1: nodes = `0` is not a whole number"),
            (replaced("Nodes 32", "Nodes 32\nnodes 3"), ":2:1: `nodes` was already given in line 1"),
            (replaced("Tiers 2", "Tiers 4"), ":2:1: tiers = `4`"),
            (replaced("Podsize 32", "Podsize 16"), ":3:1: podsize: a network of 2 tiers is one pod"),
            (replaced("Podsize 32", "Podsize 5"), ":3:1: podsize: 5 does not divide the 32"),
            (replaced("Tier 0", "Tier 7"), ":4:1: tier `7` is not 0, 1 or 2"),
            (replaced("Tier 0\n", ""), ":4:1: `downlink_speed_gbps` belongs below"),
            (replaced("Gbps 100", "Gbps -1"), ":5:1: downlink_speed_gbps = `-1`"),
            (replaced("Radix_Down 8", "Radix_Dwn 8"), ":6:1: unknown key `radix_dwn`; did you mean `radix_down`?"),
            (replaced("Radix_Down 8", "Radix_Down 5"), ":6:1: radix_down: 5 does not divide"),
            (replaced("Radix_Up 2", "Radix_Up 4"), ":10:1: oversubscribed = 4, but ports and speeds make it 2"),
            (replaced("Radix_Down 4", "Radix_Down 2"), ":7:1: radix_up: 2 uplinks do not make"),
            (replaced("Downlink_Latency_ns 1000\nSwitch", "Switch"), "ends without `downlink_latency_ns` of tier 0"),
        ] {
            let error = import(&text).unwrap_err();
            assert!(error.contains(expected), "{expected}\n{error}");
        }
        let huge = "Nodes 4000000000\nTiers 2\nPodsize 4000000000\nTier 0\nDownlink_speed_Gbps 1\nRadix_Down 4000000000\n\
            Radix_Up 1\nDownlink_Latency_ns 0\nTier 1\nDownlink_speed_Gbps 1\nRadix_Down 1\nDownlink_Latency_ns 0";
        assert!(import(huge).unwrap_err().contains("too many"));
    }
}
