//! The `[[link]]` tables: rates and delays of single links, or of all links of a tier, in addition
//! to those of the topology.

use net::{Bandwidth, LinkIx, Time, Topology};

use super::failures::link_named;
use config::diagnostic::FileError;
use config::section::Section;

/// Longest delay, as in specifications of topologies.
const MAX_DELAY: Time = net::families::MAX_DELAY;

/// Applies all tables in the order of the file: later ones replace earlier ones.
pub(crate) fn apply(top: &Section<'_>, mut topology: Topology) -> Result<Topology, FileError> {
    for section in top.sections("link")? {
        let change = read(&section, &topology)?;
        topology.change_links(|ix, link| {
            if let Ok(position) = change.links.binary_search_by_key(&ix, |(link, _)| *link) {
                link.rate = change.links[position].1.unwrap_or(link.rate);
                link.delay = change.delay.unwrap_or(link.delay);
            }
        });
    }
    Ok(topology)
}

struct Change {
    /// Links, by number, with their new rates.
    links: Vec<(LinkIx, Option<Bandwidth>)>,
    delay: Option<Time>,
}

fn read(section: &Section<'_>, topology: &Topology) -> Result<Change, FileError> {
    let rate = section.above_zero::<Bandwidth>("rate")?;
    let delay = section.quantity::<Time>("delay")?;
    let oversubscription = section.positive("oversubscription")?;
    if rate.is_none() && delay.is_none() && oversubscription.is_none() {
        return Err(section.missing("rate").with_hint("write rate, delay or oversubscription"));
    }
    if delay.is_some_and(|delay| delay > MAX_DELAY) {
        return Err(section.error("delay", "must be at most one hour"));
    }
    if rate.is_some() && oversubscription.is_some() {
        return Err(section.error("oversubscription", "cannot go with `rate`").with_hint("keep one of them"));
    }
    let is_one_way = section.choice("direction")? == Some("one-way");
    let upward = match (section.text("link")?, section.count::<u8>("tier")?) {
        (Some(_), Some(_)) => return Err(section.error("tier", "cannot go with `link`").with_hint("keep one of them")),
        (None, None) => return Err(section.missing("link").with_hint("name a link, or a tier: 0 for host links")),
        (Some(text), None) => {
            if oversubscription.is_some() {
                return Err(section.error("oversubscription", "needs a tier").with_hint("such as tier = 1"));
            }
            vec![link_named(section, "link", text.trim(), topology, "write it as \"leaf0 -> spine1\"")?]
        }
        (None, Some(tier)) => of_tier(section, tier, topology)?,
    };
    let mut links: Vec<(LinkIx, Option<Bandwidth>)> = Vec::new();
    for link in upward {
        let rate = match oversubscription {
            Some(factor) => Some(oversubscribed(section, link, factor, topology)?),
            None => rate,
        };
        links.push((link, rate));
        if !is_one_way {
            links.push((link.reverse(), rate));
        }
    }
    links.sort_unstable_by_key(|(link, _)| *link);
    links.dedup_by_key(|(link, _)| *link);
    Ok(Change { links, delay })
}

fn tier_of(topology: &Topology, node: net::NodeIx) -> u8 {
    topology.node(node).tier.0
}

/// Returns the links whose lower end is in a tier, in their upward direction.
fn of_tier(section: &Section<'_>, tier: u8, topology: &Topology) -> Result<Vec<LinkIx>, FileError> {
    let ends = |link: LinkIx| {
        let link = topology.link(link);
        (tier_of(topology, link.from), tier_of(topology, link.to))
    };
    let cables = || (0..topology.links().len() as u32).step_by(2).map(LinkIx);
    let upward = |link: LinkIx| if ends(link).0 > ends(link).1 { link.reverse() } else { link };
    let links: Vec<LinkIx> = cables().map(upward).filter(|link| ends(*link).0 == tier).collect();
    if links.is_empty() {
        let mut tiers: Vec<u8> = cables().map(|link| ends(upward(link)).0).collect();
        tiers.sort_unstable();
        tiers.dedup();
        let tiers: Vec<String> = tiers.iter().map(u8::to_string).collect();
        let message = format!("topology `{}` has no links from tier {tier} upwards", topology.name());
        return Err(section.error("tier", message).with_hint(format!("its tiers are {}", tiers.join(", "))));
    }
    Ok(links)
}

/// Returns the rate of an uplink with which its switch has `factor` times as much capacity below as
/// above.
fn oversubscribed(
    section: &Section<'_>,
    link: LinkIx,
    factor: f64,
    topology: &Topology,
) -> Result<Bandwidth, FileError> {
    let switch = topology.link(link).from;
    let tier = tier_of(topology, switch);
    let links = || topology.out_links(switch).iter().map(|link| topology.link(*link));
    let below: f64 = links().filter(|link| tier_of(topology, link.to) < tier).map(|link| link.rate.as_bps_f64()).sum();
    let uplinks = links().filter(|link| tier_of(topology, link.to) > tier).count();
    if below == 0.0 || uplinks == 0 {
        let message = format!("`{}` does not have links in both directions", topology.node(switch).name);
        let error = section.error("oversubscription", message);
        return Err(error.with_hint("choose a tier of switches with links below and above"));
    }
    Ok(Bandwidth::from_bps(((below / factor / uplinks as f64).round() as u64).max(1)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use net::{Bandwidth, Time, Topology};

    use crate::input::Experiment;

    fn read(links: &str) -> Result<Topology, String> {
        let file = format!(
            "balancers = [\"ecmp\"]\ntopology = {{ spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=4\" }}\n\
             traffic = {{ workload = \"fixed:size=1KB\", load = 0.1, flows = 1 }}\n{links}"
        );
        let read = Experiment::parse("t", &file, "t", Path::new("."), &[]);
        read.map(|experiment| (*experiment.variants[0].topology).clone()).map_err(|error| error.to_string())
    }

    fn link(topology: &Topology, name: &str) -> (Bandwidth, Time) {
        let links = (0..topology.links().len() as u32).map(net::LinkIx);
        let found = links.into_iter().find(|link| topology.link_name(*link) == name);
        let link = topology.link(found.unwrap_or_else(|| panic!("no link {name}")));
        (link.rate, link.delay)
    }

    const TEN: Bandwidth = Bandwidth::from_gbps(10);
    const US: Time = Time::from_us(1);

    #[test]
    fn one_direction_of_a_link_and_then_a_tier() {
        let text = "[[link]]\nlink = \"leaf0 -> spine1\"\nrate = \"1Gbps\"\ndelay = \"5us\"\ndirection = \"one-way\"\n\
                    [[link]]\ntier = 0\ndelay = \"3us\"\n";
        let topology = read(text).unwrap();
        assert_eq!(link(&topology, "leaf0 -> spine1"), (Bandwidth::from_gbps(1), Time::from_us(5)));
        assert_eq!(link(&topology, "spine1 -> leaf0"), (TEN, US));
        assert_eq!(link(&topology, "leaf1 -> spine1"), (TEN, US));
        for name in ["h0 -> leaf0", "leaf0 -> h0", "leaf1 -> h7"] {
            assert_eq!(link(&topology, name), (TEN, Time::from_us(3)), "{name}");
        }
    }

    #[test]
    fn oversubscription_sets_the_rates_of_uplinks() {
        // 40 Gb/s of hosts, four times what two uplinks carry.
        let topology = read("[[link]]\ntier = 1\noversubscription = 4\n").unwrap();
        assert_eq!(link(&topology, "leaf0 -> spine0"), (Bandwidth::from_gbps(5), US));
        assert_eq!(link(&topology, "spine1 -> leaf1"), (Bandwidth::from_gbps(5), US));
        assert_eq!(link(&topology, "h3 -> leaf0"), (TEN, US));
    }

    #[test]
    fn errors_name_the_key() {
        for (text, key, part) in [
            ("tier = 7\nrate = \"1Gbps\"", "link.0.tier", "no links from tier 7"),
            ("tier = 0\noversubscription = 2", "link.0.oversubscription", "does not have links in both directions"),
            ("link = \"leaf0 -> spine9\"\nrate = \"1Gbps\"", "link.0.link", "no node `spine9`"),
            ("link = \"any\"\nrate = \"1Gbps\"", "link.0.link", "not a valid link"),
            ("tier = 1", "link.0.rate", "is missing"),
            ("tier = 1\nlink = \"leaf0 -> spine1\"\nrate = \"1Gbps\"", "link.0.tier", "cannot go with `link`"),
            ("tier = 1\ndelay = \"2000000000000us\"", "link.0.delay", ""),
        ] {
            let error = read(&format!("[[link]]\n{text}\n")).unwrap_err();
            assert!(error.contains(key) && error.contains(part), "{text}: {error}");
        }
    }
}
