//! A running network and the events received from its driver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::{HostIx, Topology, address};
use serde_json::{Value, json};

use crate::error::{Result, TestbedError};
use crate::measure::series::Ports;
use crate::network::cpu_affinity::CpuAffinity;
use crate::network::driver::{Driver, Event};
use crate::network::plan::{NetworkPlan, host_name, hosts};
use crate::run::faults::InjectedFault;
use crate::traffic::namespace::HostAt;

/// Building a network of some hundred links takes a minute or two on a busy machine.
const BUILD_PATIENCE: Duration = Duration::from_secs(900);

pub struct RunningNetwork {
    pub driver: Driver,
    pub plan: NetworkPlan,
    pub hosts: Vec<HostAt>,
    pub datapath: String,
    pub build_s: f64,
    /// Folder of program logs; removed with the network.
    pub folder: PathBuf,
    /// Samples not yet taken by a run: seconds of CLOCK_MONOTONIC, and counters.
    pub samples: Vec<(f64, Ports)>,
    /// Link faults not yet taken by a run.
    pub injected_faults: Vec<InjectedFault>,
    pub exits: BTreeMap<String, i32>,
    pub has_dedicated_core: bool,
    _affinity: Option<CpuAffinity>,
}

impl RunningNetwork {
    pub fn build(plan: NetworkPlan, topology: &Topology, folder: &Path) -> Result<RunningNetwork> {
        let mut driver = Driver::start(folder)?;
        let answer = match driver.request("start", json!({"plan": plan}), BUILD_PATIENCE) {
            Ok(answer) => answer,
            Err(cause) => {
                // The first error is reported; errors of the clean-up are less useful.
                let _ = driver.stop();
                return Err(cause);
            }
        };
        let at = |host: HostIx| -> Option<HostAt> {
            let pid = answer["hosts"][host_name(host)].as_u64()?;
            Some(HostAt { pid: pid as u32, ip: address::host_ipv4(host) })
        };
        let hosts: Option<Vec<HostAt>> = hosts(topology).map(at).collect();
        let hosts = hosts.ok_or_else(|| TestbedError::Driver("did not return the process ids of hosts".to_owned()))?;
        let processors = answer["processors"].as_array().into_iter().flatten();
        let processors: Vec<usize> = processors.filter_map(|number| Some(number.as_u64()? as usize)).collect();
        Ok(RunningNetwork {
            driver,
            plan,
            hosts,
            datapath: answer["datapath"].as_str().unwrap_or_default().to_owned(),
            build_s: answer["took_s"].as_f64().unwrap_or(0.0),
            folder: folder.join("logs"),
            samples: Vec::new(),
            injected_faults: Vec::new(),
            exits: BTreeMap::new(),
            has_dedicated_core: answer["own_processor"].as_bool().unwrap_or(false),
            _affinity: CpuAffinity::pin(&processors),
        })
    }

    pub fn request(&mut self, what: &str, fields: Value) -> Result<Value> {
        self.driver.request(what, fields, Duration::from_secs(300))
    }

    /// Records the events that have arrived, waiting at most `patience` for the first one.
    pub fn poll_events(&mut self, mut patience: Duration) -> Result<()> {
        while let Some(event) = self.driver.event(patience)? {
            match event {
                Event::Sample { t, ports } => self.samples.push((t, ports)),
                Event::Exit { program, code } => drop(self.exits.insert(program, code)),
                Event::Link { link, up, t } => {
                    let kind = if up { "link-up" } else { "link-down" };
                    let link = self.plan.links.get(link).map(|link| link.name.clone());
                    self.injected_faults.push(InjectedFault { at_ns: (t * 1e9) as u64, kind, link });
                }
            }
            patience = Duration::ZERO;
        }
        Ok(())
    }
}
