//! A network that is up, with everything that is heard from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::{HostIx, Topology, address};
use serde_json::{Value, json};

use crate::driver::{Driver, Event};
use crate::error::TestbedError;
use crate::faults::Deed;
use crate::plan::NetworkPlan;
use crate::room::Kept;
use crate::series::Ports;
use crate::sockets::HostAt;

/// Building a network of some hundred links takes a minute or two on a busy machine.
const BUILD_PATIENCE: Duration = Duration::from_secs(900);

/// A network that is up.
pub struct Live {
    /// Who drives it.
    pub driver: Driver,
    /// As it was planned.
    pub plan: NetworkPlan,
    /// Hosts, in the order of the topology.
    pub hosts: Vec<HostAt>,
    /// `user` or `kernel`.
    pub datapath: String,
    /// Seconds it took to build.
    pub built_s: f64,
    /// Where programs leave their logs; gone when the network is.
    pub folder: PathBuf,
    /// Samples since they were last taken: seconds of CLOCK_MONOTONIC, and counters.
    pub samples: Vec<(f64, Ports)>,
    /// What has been done to cables since this was last taken.
    pub deeds: Vec<Deed>,
    /// Programs that have ended, with their exit codes.
    pub exits: BTreeMap<String, i32>,
    /// Whether the thread that forwards has a processor of its own.
    pub has_own_processor: bool,
    /// Where we may run while it is up.
    _room: Option<Kept>,
}

impl Live {
    /// Builds a network.
    ///
    /// # Errors
    /// The driver cannot; nothing is left.
    pub fn build(plan: NetworkPlan, topology: &Topology, folder: &Path) -> Result<Live, TestbedError> {
        let mut driver = Driver::start(folder)?;
        let answer = match driver.ask("start", json!({"plan": plan}), BUILD_PATIENCE) {
            Ok(answer) => answer,
            Err(cause) => {
                // The reason is worth more than what goes wrong while tidying up.
                let _ = driver.stop();
                return Err(cause);
            }
        };
        let pid = |host: u32| -> Option<HostAt> {
            let pid = answer["hosts"][crate::plan::host_name(HostIx(host))].as_u64()?;
            Some(HostAt { pid: pid as u32, ip: address::host_ipv4(HostIx(host)) })
        };
        let hosts: Option<Vec<HostAt>> = (0..topology.hosts().len() as u32).map(pid).collect();
        let hosts = hosts.ok_or_else(|| TestbedError::Driver("did not tell the processes of hosts".to_owned()))?;
        let processors: Vec<usize> =
            answer["processors"].as_array().into_iter().flatten().filter_map(|n| Some(n.as_u64()? as usize)).collect();
        Ok(Live {
            driver,
            plan,
            hosts,
            datapath: answer["datapath"].as_str().unwrap_or_default().to_owned(),
            built_s: answer["took_s"].as_f64().unwrap_or(0.0),
            folder: folder.join("logs"),
            samples: Vec::new(),
            deeds: Vec::new(),
            exits: BTreeMap::new(),
            has_own_processor: answer["own_processor"].as_bool().unwrap_or(false),
            _room: Kept::to(&processors),
        })
    }

    /// Asks the driver for something that takes no more than a few minutes.
    ///
    /// # Errors
    /// As [`Driver::ask`].
    pub fn ask(&mut self, what: &str, fields: Value) -> Result<Value, TestbedError> {
        self.driver.ask(what, fields, Duration::from_secs(300))
    }

    /// Takes note of what has happened, waiting for something at most `patience`.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn listen(&mut self, patience: Duration) -> Result<(), TestbedError> {
        let mut patience = patience;
        while let Some(event) = self.driver.event(patience)? {
            match event {
                Event::Sample { t, ports } => self.samples.push((t, ports)),
                Event::Exit { program, code } => drop(self.exits.insert(program, code)),
                Event::Link { link, up, t } => {
                    let name = self.plan.links.get(link).map_or("?", |link| link.name.as_str());
                    let what = format!("link {} {name}", if up { "up" } else { "down" });
                    self.deeds.push(Deed { at_ns: (t * 1e9) as u64, what });
                }
            }
            patience = Duration::ZERO;
        }
        Ok(())
    }
}
