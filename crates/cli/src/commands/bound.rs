//! `anabranch bound`: upper bounds of the throughput of a network for a fixed list of pairs that
//! send without end.

use std::io::Write;

use net::{HostIx, RandomStream, Topology};
use serde_json::json;
use sim::bounds::cuts::{self, Capacity};
use sim::bounds::mcf::{self, Concurrent, Demand};
use traffic::{Pattern, PatternKind};

use crate::error::CliError;

/// Bound the throughput of a pattern on a network
///
/// Every pair of the pattern has one flow that never ends. Shares are of the sender's links.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  anabranch bound --topology leaf-spine:leaves=4,spines=8,hosts_per_leaf=16 \
                        --pattern stride")]
pub struct Args {
    /// Network: a family with parameters (see `list topologies`), or a file
    #[arg(long, value_name = "SPEC|FILE", default_value = "fat-tree:k=4")]
    topology: String,
    /// Pattern with a fixed list of pairs: stride, random-bijection, all-to-all, one-to-n
    #[arg(long, value_name = "SPEC", default_value = "stride")]
    pattern: String,
    /// Seed of random patterns
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Largest relative gap between the multicommodity bound and the throughput that it proves
    /// possible
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, allow_hyphen_values = true)]
    eps: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let topology = super::topology::read(&args.topology)?;
    let text = if args.json {
        let mut bounds = json(&topology, &args.pattern, args.seed, args.eps)?;
        bounds["topology"] = json!(args.topology);
        format!("{bounds:#}\n")
    } else {
        Bounds::of(&topology, &args.pattern, args.seed, args.eps)?.text(&args.pattern, &topology)
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Returns the bounds of a pattern as `anabranch bound --json` prints them.
///
/// # Errors
/// `pattern` is none with a fixed list of pairs, or `eps` is not between 0.001 and 1.
pub fn json(topology: &Topology, pattern: &str, seed: u64, eps: f64) -> Result<serde_json::Value, CliError> {
    let bounds = Bounds::of(topology, pattern, seed, eps)?;
    let share = |share: Share| json!({ "throughput": share.throughput, "least": share.least });
    Ok(json!({
        "topology": topology.name(),
        "pattern": pattern,
        "seed": seed,
        "pairs": bounds.pairs,
        "hose": share(bounds.hose),
        "cut": share(bounds.cut),
        "mcf": {
            "throughput": bounds.mcf_throughput[0],
            "least": bounds.mcf.share,
            "throughput_at_most": bounds.mcf_throughput[1],
            "least_at_most": bounds.mcf.at_most,
            "eps": eps,
            "phases": bounds.mcf.phases,
        },
    }))
}

fn pairs(pattern: &str, seed: u64, topology: &Topology) -> Result<Vec<(HostIx, HostIx)>, CliError> {
    let impossible = || CliError::new(format!("--pattern {pattern}: not possible here"));
    let fixed = || {
        let kinds = [PatternKind::Matrix, PatternKind::Triggered];
        let fixed = traffic::PATTERNS.iter().filter(|pattern| kinds.contains(&pattern.kind));
        format!("patterns with a fixed list of pairs: {}", fixed.map(|p| p.name).collect::<Vec<_>>().join(", "))
    };
    let pattern = Pattern::parse(pattern).map_err(|error| impossible().caused_by(error).with_hint(fixed()))?;
    let mut stream = RandomStream::new(seed, "pattern");
    let pairs = pattern.pairs(topology, &mut stream).map_err(|error| impossible().caused_by(error))?;
    pairs.ok_or_else(|| impossible().caused_by("each of its flows draws a new pair").with_hint(fixed()))
}

/// Shares of the senders' links: of all pairs together, and the smallest of any pair.
#[derive(Clone, Copy)]
struct Share {
    throughput: f64,
    least: f64,
}

struct Bounds {
    pairs: usize,
    hose: Share,
    cut: Share,
    mcf: Concurrent,
    /// Of all senders, if every pair has the certified share: lower and upper bound.
    mcf_throughput: [f64; 2],
}

impl Bounds {
    fn of(topology: &Topology, pattern: &str, seed: u64, eps: f64) -> Result<Bounds, CliError> {
        if !(0.001..=1.0).contains(&eps) {
            let failure = CliError::new(format!("--eps {eps}: must be from 0.001 to 1"));
            return Err(failure.with_hint("0.05 is enough for most comparisons; smaller takes longer, as its square"));
        }
        let pairs = &*pairs(pattern, seed, topology)?;
        let out_links = |host: HostIx| topology.out_links(topology.host(host)).iter();
        let host_bps = |host| out_links(host).map(|link| topology.link(*link).rate.as_bps_f64()).sum::<f64>();
        let wanted: Vec<f64> = pairs.iter().map(|(src, _)| host_bps(*src)).collect();
        let mut senders: Vec<HostIx> = pairs.iter().map(|(src, _)| *src).collect();
        senders.sort_unstable();
        senders.dedup();
        let capacity: f64 = senders.into_iter().map(host_bps).sum();
        let share = |limits| {
            let rates = cuts::rates(topology, pairs, limits);
            let least = rates.iter().zip(&wanted).map(|(rate, wanted)| rate / wanted).fold(f64::INFINITY, f64::min);
            Share { throughput: rates.iter().sum::<f64>() / capacity, least }
        };
        let demands: Vec<Demand> =
            pairs.iter().zip(&wanted).map(|((src, dst), bps)| Demand { src: *src, dst: *dst, bps: *bps }).collect();
        let mcf = mcf::max_concurrent(topology, &demands, eps);
        let all = wanted.iter().sum::<f64>() / capacity;
        Ok(Bounds {
            pairs: pairs.len(),
            hose: share(Capacity::Hose),
            cut: share(Capacity::Cut),
            mcf,
            mcf_throughput: [mcf.share * all, mcf.at_most * all],
        })
    }

    fn text(&self, pattern: &str, topology: &Topology) -> String {
        let line = |name: &str, share: Share, words: &str| {
            format!("  {name:<5} {:>10.4} {:>10.4}   {words}\n", share.throughput, share.least)
        };
        let mut out = format!("{}, {}: {} pairs\n", topology.name(), pattern, self.pairs);
        out += &format!("  {:<5} {:>10} {:>10}\n", "bound", "throughput", "least pair");
        out += &line("hose", self.hose, "max-min fair, host links alone");
        out += &line("cut", self.cut, "max-min fair, links out of and into racks and pods too");
        let mcf = Share { throughput: self.mcf_throughput[0], least: self.mcf.share };
        let within = (self.mcf.at_most / self.mcf.share - 1.0).max(0.0);
        out += &line(
            "mcf",
            mcf,
            &format!("the same share for all, any splitting; the best is at most {:.2} % more", 100.0 * within),
        );
        out
    }
}
