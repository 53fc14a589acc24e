//! Single runs that another program watches, such as an environment for learning.

use balance::Spec;
use sim::watch::Watch;
use sim::{Scenario, SimError};

use crate::Error;
use crate::input::Experiment;
use crate::results::metrics::measure;
use crate::run::execute::context;
use crate::summary::RunSummary;

/// Runs the first variant of an experiment with a balancer, which need not be one of the experiment's.
/// Returns the metrics of the run; `None` if `watch` ended it.
///
/// # Errors
/// The flows cannot be generated, the run fails, or its accounting does not balance.
pub fn run_watched(
    experiment: &Experiment,
    balancer: &Spec,
    load: Option<f64>,
    seed: u64,
    watch: &mut dyn Watch,
) -> Result<Option<RunSummary>, Error> {
    let variant = &experiment.variants[0];
    let name = || format!("{} with seed {seed}", balancer.label());
    let failed = |cause: SimError| Error::Run { run: name(), cause: Box::new(cause) };
    let flows = variant.traffic.flows(&variant.topology, load, seed);
    let flows = flows.map_err(|cause| Error::Traffic { run: name(), cause: Box::new(cause) })?;
    let scenario = Scenario { topology: &variant.topology, flows: &flows, balancer, seed, config: &variant.config };
    let outcome = match sim::run_watched(&scenario, watch) {
        Err(SimError::Interrupted) => return Ok(None),
        ended => ended.map_err(failed)?,
    };
    outcome.accounting.check().map_err(|message| failed(SimError::Accounting(message)))?;
    Ok(Some(measure(&context(variant, &scenario, load), &outcome).0))
}

#[cfg(test)]
mod tests {
    use net::Time;
    use sim::watch::NetworkState;

    use super::*;
    use crate::testing::small;

    struct Looks {
        times: Vec<Time>,
        carried_bytes: u64,
        most: usize,
    }

    impl Watch for Looks {
        fn interval(&self) -> Time {
            Time::from_us(50)
        }

        fn look(&mut self, state: &NetworkState<'_>) -> bool {
            self.times.push(state.now);
            let carried_bytes = state.links.iter().map(|link| link.carried_bytes).sum();
            assert!(carried_bytes >= self.carried_bytes, "links carry more and more");
            self.carried_bytes = carried_bytes;
            self.times.len() < self.most
        }
    }

    #[test]
    fn a_watched_run_is_the_run_itself() {
        let experiment = small(&[]);
        let (balancer, seed) = (&experiment.balancers[0], experiment.seeds[0]);
        let load = experiment.variants[0].loads[0];
        let mut watch = Looks { times: Vec::new(), carried_bytes: 0, most: usize::MAX };
        let watched = run_watched(&experiment, balancer, load, seed, &mut watch).unwrap().expect("it ends");
        assert!(watch.times.len() > 3 && watch.carried_bytes > 0, "{:?}", watch.times);
        assert!((1..).zip(&watch.times).all(|(n, at)| *at == Time::from_us(50 * n)), "{:?}", watch.times);
        let folder = tempfile::tempdir().unwrap();
        let options =
            crate::Options { out: folder.path().to_owned(), jobs: 1, threads: 1, flows: false, flow_lists: false };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let plain = crate::run(&experiment, &options, &(), &stop).unwrap().runs[0].clone();
        assert_eq!((&plain.balancer, plain.load, plain.seed), (&watched.balancer, watched.load, watched.seed));
        assert_eq!(plain.slowdown, watched.slowdown, "looking changes nothing");
        assert_eq!(plain.packets, watched.packets);
    }

    #[test]
    fn a_watch_can_end_the_run() {
        let experiment = small(&[]);
        let mut watch = Looks { times: Vec::new(), carried_bytes: 0, most: 2 };
        let load = experiment.variants[0].loads[0];
        let ended = run_watched(&experiment, &experiment.balancers[0], load, 1, &mut watch).unwrap();
        assert!(ended.is_none());
        assert_eq!(watch.times.len(), 2);
    }
}
