//! A running network and the events received from its driver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::{HostIx, Topology, address};
use serde_json::{Value, json};

use crate::error::TestbedError;
use crate::measure::series::Ports;
use crate::network::cpu_affinity::CpuAffinity;
use crate::network::driver::{Driver, Event};
use crate::network::plan::NetworkPlan;
use crate::run::faults::InjectedFault;
use crate::traffic::sockets::HostAt;

/// Building a network of some hundred links takes a minute or two on a busy machine.
const BUILD_PATIENCE: Duration = Duration::from_secs(900);

/// A running network.
pub struct RunningNetwork {
    pub driver: Driver,
    pub plan: NetworkPlan,
    /// In the order of the topology.
    pub hosts: Vec<HostAt>,
    /// `user` or `kernel`.
    pub datapath: String,
    /// Duration of the build, seconds.
    pub built_s: f64,
    /// Folder of program logs; removed with the network.
    pub folder: PathBuf,
    /// Samples not yet taken by a run: seconds of CLOCK_MONOTONIC, and counters.
    pub samples: Vec<(f64, Ports)>,
    /// Link faults not yet taken by a run.
    pub injected_faults: Vec<InjectedFault>,
    /// Exit codes of programs that have ended.
    pub exits: BTreeMap<String, i32>,
    /// Whether the forwarding thread has a dedicated processor.
    pub has_own_processor: bool,
    /// Affinity of this process while the network is up.
    _affinity: Option<CpuAffinity>,
}

impl RunningNetwork {
    /// Builds a network.
    ///
    /// # Errors
    /// The driver fails; it then removes what it has built.
    pub fn build(plan: NetworkPlan, topology: &Topology, folder: &Path) -> Result<RunningNetwork, TestbedError> {
        let mut driver = Driver::start(folder)?;
        let answer = match driver.request("start", json!({"plan": plan}), BUILD_PATIENCE) {
            Ok(answer) => answer,
            Err(cause) => {
                // The first error is reported; errors of the clean-up are less useful.
                let _ = driver.stop();
                return Err(cause);
            }
        };
        let pid = |host: u32| -> Option<HostAt> {
            let pid = answer["hosts"][crate::network::plan::host_name(HostIx(host))].as_u64()?;
            Some(HostAt { pid: pid as u32, ip: address::host_ipv4(HostIx(host)) })
        };
        let hosts: Option<Vec<HostAt>> = (0..topology.hosts().len() as u32).map(pid).collect();
        let hosts = hosts.ok_or_else(|| TestbedError::Driver("did not return the process ids of hosts".to_owned()))?;
        let processors: Vec<usize> =
            answer["processors"].as_array().into_iter().flatten().filter_map(|n| Some(n.as_u64()? as usize)).collect();
        Ok(RunningNetwork {
            driver,
            plan,
            hosts,
            datapath: answer["datapath"].as_str().unwrap_or_default().to_owned(),
            built_s: answer["took_s"].as_f64().unwrap_or(0.0),
            folder: folder.join("logs"),
            samples: Vec::new(),
            injected_faults: Vec::new(),
            exits: BTreeMap::new(),
            has_own_processor: answer["own_processor"].as_bool().unwrap_or(false),
            _affinity: CpuAffinity::pin(&processors),
        })
    }

    /// Sends the driver a request that takes at most a few minutes.
    pub fn request(&mut self, what: &str, fields: Value) -> Result<Value, TestbedError> {
        self.driver.request(what, fields, Duration::from_secs(300))
    }

    /// Records the events that have arrived, waiting at most `patience` for the first one.
    ///
    /// # Errors
    /// The driver has ended.
    pub fn poll_events(&mut self, patience: Duration) -> Result<(), TestbedError> {
        let mut patience = patience;
        while let Some(event) = self.driver.event(patience)? {
            match event {
                Event::Sample { t, ports } => self.samples.push((t, ports)),
                Event::Exit { program, code } => drop(self.exits.insert(program, code)),
                Event::Link { link, up, t } => {
                    let name = self.plan.links.get(link).map_or("?", |link| link.name.as_str());
                    let what = format!("link {} {name}", if up { "up" } else { "down" });
                    self.injected_faults.push(InjectedFault { at_ns: (t * 1e9) as u64, what });
                }
            }
            patience = Duration::ZERO;
        }
        Ok(())
    }
}
