//! GraphML as written by the Internet Topology Zoo and by [`crate::export::graphml`].
//!
//! Every node is a switch named by its `label` (`label (id)` where several share one) with hosts
//! behind it. A node whose `Kind` is `host`, which only the exporter writes, is a host, and then no
//! hosts are added. Rates come from `LinkSpeedRaw` (bit/s; also `LinkSpeedRawReverse`), delays from
//! `LinkDelay` (seconds) or from the coordinates of both ends, all others from [`ImportOptions`].
//! Parallel edges are kept; self-loops are dropped with a warning.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node as Element};

use super::draft::{DraftLink, DraftNode, Transit, assemble};
use super::{Coordinates, ImportError, ImportOptions, Imported};
use crate::families::MAX_DELAY;
use crate::topology::NodeKind;
use crate::units::{Bandwidth, Time};

const METRES_PER_SECOND: f64 = 2e8;
/// Mean radius of the Earth in metres (IUGG).
const EARTH_RADIUS: f64 = 6_371_008.8;
/// Highest rate accepted, in bit/s: 1 Pbit/s, so that sums of rates do not overflow.
const MAX_BPS: f64 = 1e15;

/// Reads a GraphML text; `file` is for messages and the topology's name.
///
/// # Errors
/// Text that is not such XML, edges to unknown nodes or malformed numbers (with line and column),
/// or a disconnected network.
pub fn read(file: &str, text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    let document = Document::parse(text).map_err(|error| malformed(file, text, &error))?;
    let mut reader = Reader { file, document: &document, keys: BTreeMap::new(), options, warnings: Vec::new() };
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        let name = root.tag_name().name();
        return Err(reader.wrong(root, format!("the root is <{name}>, not <graphml>")));
    }
    reader.keys = reader.attribute_keys(root);
    let Some(graph) = elements(root, "graph").next() else {
        return Err(reader.wrong(root, "there is no <graph>".to_owned()));
    };
    if elements(root, "graph").count() > 1 {
        reader.warn(graph, "only the first <graph> is read");
    }
    if graph.attribute("edgedefault") == Some("directed") {
        reader.warn(graph, "directed edges are read as cables with both directions");
    }
    let (nodes, places) = reader.nodes(graph)?;
    let links = reader.links(graph, &places)?;
    Ok(Imported { topology: assemble(file, &nodes, &links, Transit::No, options)?, warnings: reader.warnings })
}

fn malformed(file: &str, text: &str, error: &roxmltree::Error) -> ImportError {
    use roxmltree::Error;
    // The parser does not report where a truncated text ends.
    let (line, column) = match error {
        Error::UnclosedRootNode | Error::NoRootNode | Error::UnexpectedEndOfStream => {
            let last = text.rsplit('\n').next().unwrap_or_default();
            let lines = text.matches('\n').count();
            (lines as u32 + 1, last.chars().count() as u32 + 1)
        }
        _ => (error.pos().row, error.pos().col),
    };
    ImportError::Text { file: file.to_owned(), line, column, reason: format!("not well-formed XML: {error}") }
}

struct Reader<'a> {
    file: &'a str,
    document: &'a Document<'a>,
    keys: BTreeMap<&'a str, &'a str>,
    options: &'a ImportOptions,
    warnings: Vec<String>,
}

/// A node's index, and its latitude and longitude in degrees.
struct Place {
    ix: usize,
    position: Option<(f64, f64)>,
}

fn elements<'a, 'd>(parent: Element<'a, 'd>, name: &'static str) -> impl Iterator<Item = Element<'a, 'd>> {
    parent.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

impl<'a> Reader<'a> {
    fn wrong(&self, at: Element, reason: String) -> ImportError {
        let position = self.document.text_pos_at(at.range().start);
        ImportError::Text { file: self.file.to_owned(), line: position.row, column: position.col, reason }
    }

    fn warn(&mut self, at: Element, what: &str) {
        let line = self.document.text_pos_at(at.range().start).row;
        self.warnings.push(format!("line {line}: {what}"));
    }

    fn attribute_keys(&self, root: Element<'a, 'a>) -> BTreeMap<&'a str, &'a str> {
        elements(root, "key").filter_map(|key| Some((key.attribute("id")?, key.attribute("attr.name")?))).collect()
    }

    /// Returns the text of the attribute `name`, trimmed; `None` if absent or empty.
    fn text(&self, of: Element<'a, 'a>, name: &str) -> Option<(&'a str, Element<'a, 'a>)> {
        let named =
            |data: &Element<'a, 'a>| data.attribute("key").and_then(|key| self.keys.get(key)).copied() == Some(name);
        let data = elements(of, "data").find(named)?;
        let text = data.text().unwrap_or_default().trim();
        (!text.is_empty()).then_some((text, data))
    }

    /// Returns a number within `range`.
    fn number(
        &self,
        of: Element<'a, 'a>,
        name: &str,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<Option<f64>, ImportError> {
        let Some((text, data)) = self.text(of, name) else { return Ok(None) };
        let number = text.parse::<f64>().ok();
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = (range.start(), range.end());
                let reason = format!("{name} = `{text}` is not a number from {least} to {most}");
                Err(self.wrong(data, reason))
            }
        }
    }

    fn attribute(&self, of: Element<'a, 'a>, name: &'static str) -> Result<&'a str, ImportError> {
        of.attribute(name).ok_or_else(|| {
            let reason = format!("<{}> has no `{name}`", of.tag_name().name());
            self.wrong(of, reason)
        })
    }

    fn nodes(&self, graph: Element<'a, 'a>) -> Result<(Vec<DraftNode>, BTreeMap<&'a str, Place>), ImportError> {
        let (mut nodes, mut places) = (Vec::new(), BTreeMap::new());
        let label = |node| self.text(node, "label").map(|(label, _)| label);
        let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
        for node in elements(graph, "node") {
            *shared.entry(label(node).unwrap_or_default()).or_default() += 1;
        }
        for node in elements(graph, "node") {
            let id = self.attribute(node, "id")?;
            let name = match label(node) {
                None => id.to_owned(),
                Some(label) if shared.get(label) == Some(&1) => label.to_owned(),
                Some(label) => format!("{label} ({id})"),
            };
            let latitude = self.number(node, "Latitude", -90.0..=90.0)?;
            let longitude = self.number(node, "Longitude", -180.0..=180.0)?;
            let place = Place { ix: nodes.len(), position: latitude.zip(longitude) };
            if places.insert(id, place).is_some() {
                return Err(self.wrong(node, format!("a second node has the id `{id}`")));
            }
            nodes.push(self.node(node, name)?);
        }
        Ok((nodes, places))
    }

    fn node(&self, node: Element<'a, 'a>, name: String) -> Result<DraftNode, ImportError> {
        let kind = match self.text(node, "Kind") {
            None | Some(("switch", _)) => NodeKind::Switch,
            Some(("host", _)) => NodeKind::Host,
            Some((other, data)) => {
                let reason = format!("Kind = `{other}` is neither `host` nor `switch`");
                return Err(self.wrong(data, reason));
            }
        };
        let whole = |name| -> Result<Option<f64>, ImportError> {
            let number = self.number(node, name, 0.0..=f64::from(u32::MAX))?;
            Ok(number.map(f64::round))
        };
        let tier = self.number(node, "Tier", 0.0..=255.0)?;
        Ok(DraftNode {
            name,
            kind,
            tier: tier.map(|tier| tier.round() as u8),
            pod: whole("Pod")?.map(|pod| pod as u32),
            rack: whole("Rack")?.map(|rack| rack as u32),
            forwards: self.number(node, "Forwards", 0.0..=1.0)?.map(|f| f >= 0.5),
        })
    }

    fn links(
        &mut self,
        graph: Element<'a, 'a>,
        places: &BTreeMap<&'a str, Place>,
    ) -> Result<Vec<DraftLink>, ImportError> {
        let mut links = Vec::new();
        self.warn_of_similar_attributes(graph);
        self.warn_of_defaults(graph, places);
        for edge in elements(graph, "edge") {
            let end = |name| {
                let id = self.attribute(edge, name)?;
                let reason = || format!("{name} = `{id}` is the id of no node");
                places.get(id).ok_or_else(|| self.wrong(edge, reason()))
            };
            let (a, b) = (end("source")?, end("target")?);
            if a.ix == b.ix {
                let id = edge.attribute("source").unwrap_or_default();
                self.warn(edge, &format!("the edge from node `{id}` to itself is dropped"));
                continue;
            }
            let ab = self.number(edge, "LinkSpeedRaw", 1.0..=MAX_BPS)?;
            let ba = self.number(edge, "LinkSpeedRawReverse", 1.0..=MAX_BPS)?;
            let rate = |bps: Option<f64>| {
                let bps = bps.map(|bps| Bandwidth::from_bps(bps.round() as u64));
                bps.unwrap_or(self.options.default_rate)
            };
            let given = self.number(edge, "LinkDelay", 0.0..=MAX_DELAY.as_s_f64())?;
            links.push(DraftLink {
                a: a.ix,
                b: b.ix,
                ab: rate(ab),
                ba: rate(ba.or(ab)),
                delay: given.map_or_else(|| self.delay_between(a, b), Time::from_s_f64),
            });
        }
        Ok(links)
    }

    /// Warns of rates and delays that are assumed.
    fn warn_of_defaults(&mut self, graph: Element<'a, 'a>, places: &BTreeMap<&'a str, Place>) {
        let is_loop = |edge: &Element<'a, 'a>| edge.attribute("source") == edge.attribute("target");
        let edges: Vec<Element<'a, 'a>> = elements(graph, "edge").filter(|edge| !is_loop(edge)).collect();
        let unrated = edges.iter().filter(|edge| self.text(**edge, "LinkSpeedRaw").is_none()).count();
        if unrated > 0 {
            let (rate, of) = (self.options.default_rate, edges.len());
            self.warn(
                graph,
                &format!("{unrated} of {of} edges have no LinkSpeedRaw, so they have {rate} (topology.rate)"),
            );
        }
        let is_placed = |name: &str, edge: &Element<'a, 'a>| {
            let place = edge.attribute(name).and_then(|id| places.get(id));
            place.is_some_and(|place| place.position.is_some())
        };
        let unplaced = |edge: &&Element<'a, 'a>| {
            self.text(**edge, "LinkDelay").is_none() && !(is_placed("source", edge) && is_placed("target", edge))
        };
        let unplaced = edges.iter().filter(unplaced).count();
        if unplaced > 0 && self.options.coordinates == Coordinates::GiveDelays {
            let (delay, of) = (self.options.default_delay, edges.len());
            let what = format!(
                "{unplaced} of {of} edges have no LinkDelay and end at a node without a position, so they have {delay} (topology.delay)"
            );
            self.warn(graph, &what);
        }
    }

    /// Warns of attributes of edges that look like rates or delays, and are not read.
    fn warn_of_similar_attributes(&mut self, graph: Element<'a, 'a>) {
        let attributes = [
            ("LinkSpeedRaw", "bit/s", ["rate", "bandwidth", "capacity", "speed"].as_slice()),
            ("LinkDelay", "seconds", ["delay", "latency"].as_slice()),
        ];
        for (read, unit, similar) in attributes {
            let is_given = |name: &str| elements(graph, "edge").any(|edge| self.text(edge, name).is_some());
            if is_given(read) {
                continue;
            }
            let names = self.keys.values().copied().collect::<BTreeSet<_>>();
            let found =
                names.into_iter().find(|name| similar.contains(&name.to_ascii_lowercase().as_str()) && is_given(name));
            if let Some(name) = found {
                self.warn(graph, &format!("the attribute `{name}` of edges is not read: write `{read}`, in {unit}"));
            }
        }
    }

    /// Returns the delay from the distance if both positions are known and differ, otherwise the
    /// default: two nodes in one city usually have one position, but are not at one place.
    fn delay_between(&self, a: &Place, b: &Place) -> Time {
        let positions = a.position.zip(b.position);
        match positions {
            Some((a, b)) if a != b && self.options.coordinates == Coordinates::GiveDelays => {
                Time::from_s_f64(great_circle(a, b) / METRES_PER_SECOND)
            }
            _ => self.options.default_delay,
        }
    }
}

/// Returns metres between two (latitude, longitude) pairs in degrees, by haversine.
fn great_circle(a: (f64, f64), b: (f64, f64)) -> f64 {
    // libm instead of std: the last digit is the same on every platform.
    let half_sine_squared = |x: f64| libm::pow(libm::sin(x / 2.0), 2.0);
    let (latitude_a, latitude_b) = (a.0.to_radians(), b.0.to_radians());
    let h = half_sine_squared(latitude_b - latitude_a)
        + libm::cos(latitude_a) * libm::cos(latitude_b) * half_sine_squared((b.1 - a.1).to_radians());
    2.0 * EARTH_RADIUS * libm::asin(libm::sqrt(h.min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
        <key attr.name=\"label\" for=\"node\" id=\"l\"/><key attr.name=\"Latitude\" for=\"node\" id=\"y\"/>\n\
        <key attr.name=\"Longitude\" for=\"node\" id=\"x\"/><key attr.name=\"LinkSpeedRaw\" for=\"edge\" id=\"s\"/>\n\
        <graph edgedefault=\"undirected\">\n\
        <node id=\"0\"><data key=\"l\">Paris</data><data key=\"y\">48.8566</data><data key=\"x\">2.3522</data></node>\n\
        <node id=\"1\"><data key=\"l\">London</data><data key=\"y\">51.5074</data><data key=\"x\">-0.1278</data></node>\n\
        <node id=\"2\"><data key=\"l\">London</data></node>\n\
        <edge source=\"0\" target=\"1\"><data key=\"s\">622080000.0</data></edge>\n\
        <edge source=\"0\" target=\"1\"/>\n\
        <edge source=\"1\" target=\"1\"/>\n\
        <edge source=\"1\" target=\"2\"/>\n\
        </graph></graphml>";

    fn import(text: &str) -> Result<Imported, String> {
        read("net.graphml", text, &ImportOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn attributes_that_look_like_rates_are_named() {
        let warnings = import(&FILE.replace("LinkSpeedRaw", "rate")).unwrap().warnings;
        let expected = "line 4: the attribute `rate` of edges is not read: write `LinkSpeedRaw`, in bit/s";
        assert!(warnings.iter().any(|warning| warning == expected), "{warnings:?}");
        assert!(!import(FILE).unwrap().warnings.iter().any(|warning| warning.contains("not read")));
    }

    #[test]
    fn attributes_give_rates_delays_and_names() {
        let imported = import(FILE).unwrap();
        let topology = imported.topology;
        let expected = [
            "line 4: 2 of 3 edges have no LinkSpeedRaw, so they have 10Gbps (topology.rate)",
            "line 4: 1 of 3 edges have no LinkDelay and end at a node without a position, so they have 1us (topology.delay)",
            "line 10: the edge from node `1` to itself is dropped",
        ];
        assert_eq!(imported.warnings, expected);
        let names: Vec<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names[..4], ["Paris", "Paris/host", "London (1)", "London (1)/host"]);
        let cables: Vec<_> = topology.links().iter().step_by(2).skip(3).collect();
        assert_eq!(cables.len(), 3);
        assert_eq!(cables[0].rate, Bandwidth::from_bps(622_080_000));
        assert_eq!(cables[1].rate, Bandwidth::from_gbps(10));
        // 343.6 km.
        let us = cables[0].delay.as_us_f64();
        assert!((us - 343_600.0 / 200.0).abs() < 5.0, "{us}");
        assert_eq!(cables[2].delay, Time::from_us(1));
        let options =
            ImportOptions { coordinates: Coordinates::Ignored, hosts_per_node: 2, ..ImportOptions::default() };
        let topology = read("x.graphml", FILE, &options).unwrap().topology;
        assert!(topology.links().iter().all(|l| l.delay <= Time::from_us(1)));
        assert_eq!(topology.hosts().len(), 6);
    }

    #[test]
    fn error_of_wrong_file_names_position() {
        for (from, to, expected) in [
            ("</graph></graphml>", "", "net.graphml:12:1: not well-formed XML"),
            ("target=\"2\"", "target=\"9\"", ":11:1: target = `9` is the id of no node"),
            ("target=\"2\"", "", ":11:1: <edge> has no `target`"),
            ("622080000.0", "fast", ":8:29: LinkSpeedRaw = `fast` is not a number"),
            ("622080000.0", "nan", "LinkSpeedRaw = `nan`"),
            ("48.8566", "148.8566", "Latitude = `148.8566` is not a number from -90 to 90"),
            ("<node id=\"2\"", "<node id=\"1\"", ":7:1: a second node has the id `1`"),
            ("<edge source=\"1\" target=\"2\"/>", "", "net.graphml: the topology is disconnected"),
        ] {
            let error = import(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{expected}\n{error}");
        }
        assert!(import("<svg/>").unwrap_err().contains("the root is <svg>"));
        assert!(import("<graphml/>").unwrap_err().contains("there is no <graph>"));
        assert!(import("<graphml><graph/></graphml>").unwrap_err().contains("no hosts"));
    }
}
