//! A run while its traffic is sent.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use experiment::runner::Scenario;
use serde_json::json;

use crate::clock::now_ns;
use crate::error::{Result, make_folder};
use crate::network::driver::Program;
use crate::network::running_network::RunningNetwork;
use crate::run::supervisor::RunSupervisor;
use crate::traffic::RunWindow;

/// The network, the traffic and the schedule of a run.
pub struct ActiveRun<'a, 's> {
    pub live: &'a mut RunningNetwork,
    pub scenario: &'a Scenario<'a>,
    pub span: RunWindow,
    pub supervisor: &'a mut RunSupervisor<'s>,
}

impl ActiveRun<'_, '_> {
    /// Records the events of the network, waiting at most `patience` for the first one, and carries
    /// out what is due.
    pub fn poll(&mut self, patience: Duration) -> Result<()> {
        self.poll_with(patience, None)
    }

    /// The same with the payload bytes sent so far of each flow, if the sender counts them.
    pub(crate) fn poll_with(&mut self, patience: Duration, sent: Option<&[AtomicU64]>) -> Result<()> {
        self.live.poll_events(patience)?;
        if self.supervisor.poll(sent) { Ok(()) } else { Err(self.supervisor.failure()) }
    }

    /// Waits until a time of CLOCK_MONOTONIC.
    pub(crate) fn wait_until(&mut self, until_ns: u64) -> Result<()> {
        while now_ns() < until_ns {
            self.poll(Duration::from_millis(50))?;
        }
        Ok(())
    }

    /// Waits until programs have ended. Returns those that are still running after `patience`.
    pub(crate) fn wait_for(&mut self, programs: &[String], patience: Duration) -> Result<Vec<String>> {
        let until = now_ns() + patience.as_nanos() as u64;
        loop {
            self.live.poll_events(Duration::from_millis(50))?;
            let is_running = |name: &&String| !self.live.exits.contains_key(*name);
            let left: Vec<String> = programs.iter().filter(is_running).cloned().collect();
            if left.is_empty() || now_ns() > until {
                return Ok(left);
            }
            self.poll(Duration::ZERO)?;
        }
    }

    /// Interrupts programs and waits until they have ended. Returns those that are still running
    /// after `patience`.
    pub(crate) fn interrupt(&mut self, programs: &[String], patience: Duration) -> Result<Vec<String>> {
        self.live.request("kill", json!({"programs": programs, "signal": 2}))?;
        self.wait_for(programs, patience)
    }

    /// Creates an empty folder for the output of programs.
    pub(crate) fn empty_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.live.folder.join(name);
        // The folder may not exist. If it cannot be removed, `make_folder` reports the error.
        let _ = std::fs::remove_dir_all(&folder);
        make_folder(&folder)?;
        Ok(folder)
    }

    /// Starts a program in a host, now or at a time in seconds of CLOCK_MONOTONIC. Its output goes
    /// to `NAME.txt` in the folder.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        host: &str,
        argv: Vec<String>,
        folder: &Path,
        at_s: Option<f64>,
    ) -> Result<()> {
        let log = folder.join(format!("{name}.txt"));
        let program = Program { name, host: Some(host), argv, log: &log, cwd: folder, at_s };
        self.live.driver.spawn(&program).map(drop)
    }
}
