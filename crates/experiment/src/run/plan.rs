//! The runs of an experiment in one fixed order, each with a fingerprint.

use crate::input::{Experiment, Variant};
use crate::runner::{Runner, Simulator};

/// Hash of all sources that a simulated run depends on, and of the versions of libraries. Another
/// build may give other results, so its records are not reused.
pub const BUILD: &str = env!("ANABRANCH_BUILD");

#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRun {
    pub index: usize,
    pub variant: usize,
    pub load: Option<f64>,
    pub balancer: usize,
    /// Seed of the flows and of the run's own draws. Flows depend on variant, load and seed, never
    /// on the balancer.
    pub seed: u64,
    /// Expected number of flows: exact for the first seed, an estimate for the others.
    pub flows_expected: u64,
    /// Hash of everything the run depends on: [`BUILD`], the variant, balancer, load and seed.
    pub fingerprint: String,
}

impl PlannedRun {
    /// Returns balancer, seed, load and variant, for messages.
    pub(crate) fn name(&self, experiment: &Experiment) -> String {
        let variant = &experiment.variants[self.variant].label;
        let mut name = format!("{}, seed {}", experiment.balancers[self.balancer].label(), self.seed);
        if let Some(load) = self.load {
            name += &format!(", load {load}");
        }
        if !variant.is_empty() {
            name += &format!(", {variant}");
        }
        name
    }
}

pub fn plan(experiment: &Experiment) -> Vec<PlannedRun> {
    plan_in(experiment, &Simulator)
}

/// Returns all runs on a platform, in the same order. Platforms have different fingerprints.
pub fn plan_in(experiment: &Experiment, platform: &dyn Runner) -> Vec<PlannedRun> {
    let mut runs = Vec::with_capacity(experiment.run_count());
    for (variant_ix, variant) in experiment.variants.iter().enumerate() {
        let place = (platform.name(), platform.identity(variant));
        for (load, flows_expected) in variant.loads.iter().zip(&variant.flow_counts) {
            for (balancer_ix, balancer) in experiment.balancers.iter().enumerate() {
                for seed in &experiment.seeds {
                    runs.push(PlannedRun {
                        index: runs.len(),
                        variant: variant_ix,
                        load: *load,
                        balancer: balancer_ix,
                        seed: *seed,
                        flows_expected: *flows_expected,
                        fingerprint: fingerprint(BUILD, &place, variant, &balancer.identity(), *load, *seed),
                    });
                }
            }
        }
    }
    runs
}

fn fingerprint(
    build: &str,
    (platform, identity): &(&str, String),
    variant: &Variant,
    balancer: &str,
    load: Option<f64>,
    seed: u64,
) -> String {
    let text = format!(
        "build {build}, schema {}\n{}\n{}\n{balancer}\n{load:?}\n{seed}\n{platform}\n{identity}\n",
        crate::summary::SCHEMA_VERSION,
        variant.label,
        variant.canonical,
    );
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::small;
    use std::collections::BTreeSet;

    #[test]
    fn the_order_is_variant_load_balancer_seed() {
        let experiment = small(&[("sweep.transport.min_rto", "[\"5ms\", \"10ms\"]")]);
        let runs = plan(&experiment);
        assert_eq!(runs.len(), experiment.run_count());
        let keys: Vec<(usize, u64, usize, u64)> =
            runs.iter().map(|run| (run.variant, run.load.unwrap_or(0.0).to_bits(), run.balancer, run.seed)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
        let distinct: BTreeSet<&str> = runs.iter().map(|run| run.fingerprint.as_str()).collect();
        assert_eq!(distinct.len(), runs.len());
    }

    #[test]
    fn fingerprints_ignore_irrelevant_changes() {
        let prints = |overrides: &[(&str, &str)]| -> BTreeSet<String> {
            plan(&small(overrides)).into_iter().map(|run| run.fingerprint).collect()
        };
        let first = prints(&[]);
        assert!(prints(&[("seeds", "3"), ("title", "new")]).is_superset(&first));
        assert!(prints(&[("balancers", "[\"ecmp\", \"spray\", \"spt\"]")]).is_superset(&first));
        assert!(prints(&[("traffic.load", "[0.1, 0.3, 0.5]")]).is_superset(&first));
        assert!(prints(&[("transport.min_rto", "\"10ms\"")]).is_disjoint(&first));
        assert!(prints(&[("topology.spec", "leaf-spine:leaves=2,spines=3,hosts_per_leaf=2")]).is_disjoint(&first));
    }

    #[test]
    fn fingerprint_depends_on_the_build() {
        let experiment = small(&[]);
        let place = ("sim", String::new());
        let print = |build| fingerprint(build, &place, &experiment.variants[0], "ecmp", None, 1);
        assert_eq!(print("a"), print("a"));
        assert_ne!(print("a"), print("b"));
        assert_eq!(BUILD.len(), 16);
    }

    #[test]
    fn fingerprints_do_not_depend_on_claims() {
        let prints = |claims: &str| -> Vec<String> {
            let text = format!("{}{claims}", crate::testing::SMALL);
            let experiment = Experiment::parse("small.toml", &text, "small", std::path::Path::new("."), &[]);
            plan(&experiment.expect("a valid file")).into_iter().map(|run| run.fingerprint).collect()
        };
        let claim = "[[expect]]\nid = \"X\"\nclaim = \"x\"\nmetric = \"fct_mean_us\"\nbalancer = \"ecmp\"\n\
                     rises_with_load = true\n";
        let none = prints("");
        assert_eq!(prints(claim), none);
        assert_eq!(prints(&format!("{claim}reason = \"seen\"\n")), none);
    }

    #[test]
    fn flows_are_common_random_numbers() {
        let experiment = small(&[]);
        let variant = &experiment.variants[0];
        let flows = |load, seed| variant.traffic.flows(&variant.topology, Some(load), seed).unwrap().flows.clone();
        assert_eq!(flows(0.1, 1), flows(0.1, 1));
        assert_ne!(flows(0.1, 1), flows(0.1, 2));
        // Another load scales time and changes nothing else.
        let ends = |load| flows(load, 1).iter().map(|flow| (flow.src, flow.dst, flow.size_bytes)).collect::<Vec<_>>();
        assert_eq!(ends(0.1), ends(0.5));
    }
}
