//! Joins what several files say, and builds the network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Cable, End, Port, Reports};
use crate::import::draft::{DraftLink, DraftNode, Transit, assemble};
use crate::import::{ImportError, ImportOptions, Imported};
use crate::topology::NodeKind;
use crate::units::{Bandwidth, Time};

/// Most warnings of one kind that are listed.
const LISTED: usize = 10;

/// A cable that all files agree on.
struct Joined {
    /// Positions of the devices, and the names of the ports if they are known.
    ends: [(usize, Option<String>); 2],
    rate: Option<Bandwidth>,
    delay: Option<Time>,
    is_seen: bool,
    place: String,
}

#[derive(Default)]
struct Merge {
    /// Names of devices as they are compared, and their positions.
    numbers: BTreeMap<String, usize>,
    names: Vec<String>,
    kinds: Vec<Option<NodeKind>>,
    tiers: Vec<Option<u8>>,
    /// Ports, by device and by every name of the port.
    ports: BTreeMap<(usize, String), Port>,
    cables: Vec<Option<Joined>>,
    /// The cable at each port.
    at: BTreeMap<(usize, String), usize>,
    warnings: Vec<String>,
}

pub(super) fn merge(name: &str, reports: Reports, options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut merge = Merge { warnings: reports.warnings, ..Merge::default() };
    for device in &reports.devices {
        let number = merge.number(&device.name);
        let old = merge.kinds[number];
        if let (Some(old), Some(new)) = (old, device.kind)
            && old != new
        {
            merge
                .warnings
                .push(format!("{}: one file calls it a host, another one a switch; a switch is assumed", device.name));
        }
        let is_switch = [old, device.kind].contains(&Some(NodeKind::Switch));
        merge.kinds[number] = if is_switch { Some(NodeKind::Switch) } else { old.or(device.kind) };
        merge.tiers[number] = merge.tiers[number].or(device.tier);
    }
    for port in reports.ports {
        let device = merge.number(&port.device);
        for name in port.aliases.iter().chain([&port.name]) {
            merge.ports.insert((device, comparable(name)), port.clone());
        }
    }
    // What devices see comes first: plans that differ are then found.
    let (seen, planned): (Vec<Cable>, Vec<Cable>) = reports.cables.into_iter().partition(|cable| cable.is_seen);
    seen.into_iter().chain(planned).for_each(|cable| merge.add(cable));
    merge.build(name, options)
}

/// Returns a port's name as it is compared: `Eth1/1` is `Ethernet1/1`.
fn comparable(port: &str) -> String {
    let lower = port.trim().to_ascii_lowercase();
    match lower.strip_prefix("eth") {
        Some(rest) if rest.contains('/') && rest.starts_with(|digit: char| digit.is_ascii_digit()) => {
            format!("ethernet{rest}")
        }
        _ => lower,
    }
}

/// Returns the name of a device without its domain, and without what NX-OS appends in brackets.
fn short_name(name: &str) -> &str {
    let name = name.split('(').next().unwrap_or(name).trim();
    let first = name.split('.').next().unwrap_or(name);
    let is_address = !first.is_empty() && first.chars().all(|digit| digit.is_ascii_digit());
    if is_address { name } else { first }
}

impl Merge {
    /// Returns the position of a device, which is added if it is new.
    fn number(&mut self, name: &str) -> usize {
        let short = short_name(name);
        *self.numbers.entry(short.to_ascii_lowercase()).or_insert_with(|| {
            self.names.push(short.to_owned());
            self.kinds.push(None);
            self.tiers.push(None);
            self.names.len() - 1
        })
    }

    /// Returns device and port of an end, by the name that the device itself uses if a file has it.
    fn resolve(&mut self, end: &End) -> (usize, Option<String>) {
        let device = self.number(&end.device);
        let known = |name: &String| self.ports.get(&(device, comparable(name))).map(|port| comparable(&port.name));
        let port = end.ports.iter().find_map(known).or_else(|| {
            let at = |name: &&String| self.at.contains_key(&(device, comparable(name)));
            end.ports.iter().find(at).or(end.ports.first()).map(|name| comparable(name))
        });
        (device, port)
    }

    fn add(&mut self, cable: Cable) {
        let [a, b] = &cable.ends;
        let ends = [self.resolve(a), self.resolve(b)];
        if ends[0].0 == ends[1].0 {
            self.warnings
                .push(format!("{}: a cable from {} to itself is not used", cable.place, self.names[ends[0].0]));
            return;
        }
        let key = |(device, port): &(usize, Option<String>)| port.clone().map(|port| (*device, port));
        let known: Vec<usize> = ends.iter().filter_map(|end| self.at.get(&key(end)?).copied()).collect();
        for number in &known {
            let Some(old) = &self.cables[*number] else { continue };
            let pair = |ends: &[(usize, Option<String>); 2]| BTreeSet::from([ends[0].0, ends[1].0]);
            if pair(&old.ends) != pair(&ends) {
                let name = |end: &(usize, Option<String>)| {
                    format!("{} {}", self.names[end.0], end.1.as_deref().unwrap_or("(no port)"))
                };
                let text = |ends: &[(usize, Option<String>); 2]| format!("{} to {}", name(&ends[0]), name(&ends[1]));
                let used =
                    if old.is_seen && !cable.is_seen { "what a device saw is used" } else { "the first is used" };
                self.warnings.push(format!(
                    "{} has a cable from {}, but {} from {}: {used}",
                    old.place,
                    text(&old.ends),
                    cable.place,
                    text(&ends)
                ));
                return;
            }
        }
        let Some(number) = known.first().copied() else {
            let number = self.cables.len();
            self.at.extend(ends.iter().filter_map(key).map(|end| (end, number)));
            let Cable { rate, delay, is_seen, place, .. } = cable;
            self.cables.push(Some(Joined { ends, rate, delay, is_seen, place }));
            return;
        };
        // Reported before, perhaps from the other end.
        self.at.extend(ends.iter().filter_map(key).map(|end| (end, number)));
        let names = format!("{} and {}", self.names[ends[0].0], self.names[ends[1].0]);
        let Some(old) = &mut self.cables[number] else { return };
        if let (Some(one), Some(other)) = (old.rate, cable.rate)
            && one != other
        {
            self.warnings.push(format!(
                "{}: {one} between {names}, but {other} in {}: the lower is used",
                old.place, cable.place
            ));
            old.rate = Some(one.min(other));
        }
        old.rate = old.rate.or(cable.rate);
        old.delay = old.delay.or(cable.delay);
        for end in &mut old.ends {
            let own = ends.iter().find(|other| other.0 == end.0);
            end.1 = end.1.take().or_else(|| own.and_then(|own| own.1.clone()));
        }
    }

    /// Applies rates and states of ports to a cable. Returns whether it is up.
    fn apply_ports(&mut self, cable: &mut Joined) -> bool {
        let ports: Vec<(usize, Port)> = cable
            .ends
            .iter()
            .filter_map(|(device, port)| Some((*device, self.ports.get(&(*device, port.clone()?))?.clone())))
            .collect();
        if let Some((device, port)) = ports.iter().find(|(_, port)| port.is_down) {
            self.warnings.push(format!(
                "{}: {} {} is down, so the cable is not used",
                cable.place, self.names[*device], port.name
            ));
            return false;
        }
        let rates: BTreeSet<Bandwidth> = ports.iter().filter_map(|(_, port)| port.rate).chain(cable.rate).collect();
        if rates.len() > 1 {
            let rates: Vec<String> = rates.iter().map(Bandwidth::to_string).collect();
            let [a, b] = &cable.ends;
            let (a, b) = (&self.names[a.0], &self.names[b.0]);
            self.warnings.push(format!(
                "the cable between {a} and {b} has {} in the files: the lowest is used",
                rates.join(" and ")
            ));
        }
        cable.rate = rates.first().copied();
        true
    }

    fn build(mut self, name: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
        let mut cables: Vec<Joined> = core::mem::take(&mut self.cables).into_iter().flatten().collect();
        cables.retain_mut(|cable| self.apply_ports(cable));
        let mut degree = vec![0; self.names.len()];
        cables.iter().flat_map(|cable| &cable.ends).for_each(|(device, _)| degree[*device] += 1);
        self.warn_of_missing(&cables, &degree, options);
        let kinds = self.kinds_by(&cables, &degree);
        let tiers = self.tiers_by(&cables, &kinds);
        // Hosts first, and names in the order of the numbers in them, as people count.
        let mut order: Vec<usize> = (0..self.names.len()).filter(|device| degree[*device] > 0).collect();
        order.sort_by_key(|device| (kinds[*device] == NodeKind::Switch, natural(&self.names[*device])));
        let position: BTreeMap<usize, usize> =
            order.iter().enumerate().map(|(position, device)| (*device, position)).collect();
        let node = |device: &usize| DraftNode {
            name: self.names[*device].clone(),
            kind: kinds[*device],
            tier: tiers[*device],
            pod: None,
            rack: None,
            forwards: None,
        };
        let nodes: Vec<DraftNode> = order.iter().map(node).collect();
        let mut links: Vec<(DraftLink, String)> = cables
            .iter()
            .map(|cable| {
                let rate = cable.rate.unwrap_or(options.default_rate);
                let [mut a, mut b] =
                    [&cable.ends[0], &cable.ends[1]].map(|end| (position[&end.0], end.1.clone().unwrap_or_default()));
                // From the switch down to the host, and else from the lower name.
                if a.0 > b.0 && nodes[b.0].kind == NodeKind::Switch || nodes[a.0].kind == NodeKind::Host {
                    core::mem::swap(&mut a, &mut b);
                }
                let delay = cable.delay.unwrap_or(options.default_delay);
                (DraftLink { a: a.0, b: b.0, ab: rate, ba: rate, delay }, a.1)
            })
            .collect();
        links.sort_by_cached_key(|(link, port)| (link.a, link.b, natural(port)));
        let links: Vec<DraftLink> = links.into_iter().map(|(link, _)| link).collect();
        let topology = assemble(name, &nodes, &links, Transit::No, options)?;
        Ok(Imported { topology, warnings: self.warnings })
    }

    fn warn_of_missing(&mut self, cables: &[Joined], degree: &[usize], options: &ImportOptions) {
        let unknown = cables.iter().filter(|cable| cable.rate.is_none()).count();
        if unknown > 0 {
            let of = cables.len();
            self.warnings.push(format!(
                "{unknown} of {of} cables have no rate in the files: {} is assumed",
                options.default_rate
            ));
        }
        let alone: Vec<&str> =
            (0..degree.len()).filter(|device| degree[*device] == 0).map(|device| self.names[device].as_str()).collect();
        if !alone.is_empty() {
            let more =
                if alone.len() > LISTED { format!(" and {} others", alone.len() - LISTED) } else { String::new() };
            let listed = alone[..alone.len().min(LISTED)].join(", ");
            self.warnings.push(format!("devices without a cable are not used: {listed}{more}"));
        }
    }

    /// Returns the kinds of all devices. A device of no known kind with one cable is a host.
    fn kinds_by(&mut self, cables: &[Joined], degree: &[usize]) -> Vec<NodeKind> {
        let is_leaf = |device: usize| {
            let mut own = cables.iter().filter(|cable| cable.ends.iter().any(|end| end.0 == device));
            // Of two devices with one cable between them a file must tell the switch.
            let is_switch = |end: usize| degree[end] > 1 || self.kinds[end] == Some(NodeKind::Switch);
            degree[device] == 1 && own.any(|cable| cable.ends.iter().any(|end| end.0 != device && is_switch(end.0)))
        };
        let guess = |device: usize| if is_leaf(device) { NodeKind::Host } else { NodeKind::Switch };
        let guessed: Vec<usize> =
            (0..degree.len()).filter(|device| self.kinds[*device].is_none() && degree[*device] > 0).collect();
        if !guessed.is_empty() {
            let hosts = guessed.iter().filter(|device| guess(**device) == NodeKind::Host).count();
            let switches = guessed.len() - hosts;
            self.warnings.push(format!(
                "no file tells the kind of {} devices: {hosts} with one cable are hosts, {switches} with more are switches",
                guessed.len()
            ));
        }
        (0..degree.len()).map(|device| self.kinds[device].unwrap_or_else(|| guess(device))).collect()
    }

    /// Returns the tiers of switches: those that files tell, else the distance from the nearest host.
    fn tiers_by(&self, cables: &[Joined], kinds: &[NodeKind]) -> Vec<Option<u8>> {
        let mut neighbours = vec![Vec::new(); kinds.len()];
        for [(a, _), (b, _)] in cables.iter().map(|cable| &cable.ends) {
            neighbours[*a].push(*b);
            neighbours[*b].push(*a);
        }
        let mut distance: Vec<Option<u8>> = vec![None; kinds.len()];
        let hosts = (0..kinds.len()).filter(|device| kinds[*device] == NodeKind::Host);
        let mut queue: VecDeque<usize> = hosts.collect();
        queue.iter().for_each(|host| distance[*host] = Some(0));
        while let Some(device) = queue.pop_front() {
            let next = distance[device].unwrap_or(0).saturating_add(1);
            for other in &neighbours[device] {
                if distance[*other].is_none() {
                    distance[*other] = Some(next);
                    queue.push_back(*other);
                }
            }
        }
        let is_switch = |device: usize| kinds[device] == NodeKind::Switch;
        (0..kinds.len()).map(|device| self.tiers[device].or(distance[device]).filter(|_| is_switch(device))).collect()
    }
}

/// Splits a name into texts and numbers, so that `leaf10` follows `leaf9`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits_at);
        let digits_end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(digits_end);
        parts.push((text.to_owned(), digits.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    parts
}
