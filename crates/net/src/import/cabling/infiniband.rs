//! The output of `ibnetdiscover`: blocks of nodes, with a line for each connected port.

use std::collections::BTreeMap;

use super::{Cable, End, Reports, mbps};
use crate::import::ImportError;
use crate::topology::NodeKind;

/// Rate of a lane, Gb/s.
const LANES: [(&str, f64); 9] = [
    ("SDR", 2.0),
    ("DDR", 4.0),
    ("QDR", 8.0),
    ("FDR10", 10.0),
    ("FDR", 13.64),
    ("EDR", 25.0),
    ("HDR", 50.0),
    ("NDR", 100.0),
    ("XDR", 200.0),
];

pub(super) fn is_infiniband(text: &str) -> bool {
    text.lines().any(|line| node_line(line).is_some())
}

/// Returns kind and identifier of the line that begins a block.
fn node_line(line: &str) -> Option<(NodeKind, &str)> {
    let kind = match line.split_whitespace().next()? {
        "Switch" | "Rt" => NodeKind::Switch,
        "Ca" => NodeKind::Host,
        _ => return None,
    };
    let id = line.split('"').nth(1)?;
    id.split_once('-').filter(|(kind, _)| ["S", "H", "R"].contains(kind)).map(|_| (kind, id))
}

pub(super) fn read(file: &str, text: &str, reports: &mut Reports) -> Result<(), ImportError> {
    // A host may have several adapters: those of one name are one host.
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines() {
        if let Some((kind, id)) = node_line(line) {
            let name = line
                .split('#')
                .nth(1)
                .and_then(|comment| comment.split('"').nth(1))
                .map_or(id, |name| short(name, kind));
            names.insert(id, name.to_owned());
            reports.device(name, Some(kind), None);
        }
    }
    let mut node = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some((_, id)) = node_line(line) {
            node = Some(id);
        }
        let (Some(own), Some(port)) = (node, line.strip_prefix('[').and_then(|rest| rest.split(']').next())) else {
            continue;
        };
        let parts: Vec<&str> = line.split('"').collect();
        let peer_port = parts.get(2).and_then(|rest| rest.strip_prefix('[')).and_then(|rest| rest.split(']').next());
        let (Some(peer), Some(peer_port)) = (parts.get(1), peer_port) else {
            let reason = "a port without its peer, such as [1] \"S-0002c9...\"[2]".to_owned();
            return Err(ImportError::Text { file: file.to_owned(), line: number, column: 1, reason });
        };
        let speed = line.split_whitespace().next_back().unwrap_or_default();
        let rate = rate(speed);
        if rate.is_none() {
            reports.warn(&format!("{file}:{number}"), format!("`{speed}` is no known width and speed, such as 4xHDR"));
        }
        let end = |id: &str, port: &str| {
            let device = names.get(id).map_or(id, String::as_str).to_owned();
            End { device, ports: vec![format!("{id}[{port}]")] }
        };
        let ends = [end(own, port), end(peer, peer_port)];
        reports.cables.push(Cable {
            ends,
            rate: rate.and_then(|gbps| mbps(gbps * 1e3)),
            delay: None,
            is_seen: true,
            place: format!("{file}:{number}"),
        });
    }
    Ok(())
}

/// `MF0;leaf0:MQM8700/U1` is leaf0, `gpu00 mlx5_0` is gpu00.
fn short(name: &str, kind: NodeKind) -> &str {
    match kind {
        NodeKind::Host => name.split_whitespace().next().unwrap_or(name),
        NodeKind::Switch => {
            let name = name.split_once(';').map_or(name, |(_, rest)| rest);
            name.split_once(':').map_or(name, |(name, _)| name)
        }
    }
}

/// Returns the rate of `4xHDR`, Gb/s.
fn rate(text: &str) -> Option<f64> {
    let (width, speed) = text.split_once('x')?;
    let lane = LANES.iter().find(|(name, _)| *name == speed)?.1;
    Some(width.parse::<f64>().ok().filter(|width| (1.0..=12.0).contains(width))? * lane)
}
