//! The programs of servers, and their agents.

use std::path::Path;
use std::time::{Duration, Instant};

use experiment::world::{AgentConfig, ServicesConfig};
use net::{Time, address};
use serde_json::json;

use super::{Kind, Plan, Seat, config, data_ports, page_name};
use crate::controller::Controller;
use crate::driver::Program;
use crate::error::TestbedError;
use crate::live::Live;
use crate::plan::host_name;
use crate::servers::{Server, tree_cpu_s};

/// How long it may take until the controller takes all members for able to serve.
const PATIENCE: Duration = Duration::from_secs(20);

/// Servers and agents of a run.
#[derive(Debug, Default)]
pub struct Programs {
    /// Servers with their processes.
    servers: Vec<(Seat, Server, u32)>,
    agents: Vec<String>,
}

impl Programs {
    /// Starts all servers, and waits until they listen. `program` is the `anabranch` that works on jobs.
    ///
    /// # Errors
    /// One of them cannot be started.
    pub fn start(live: &mut Live, plan: &Plan<'_>, program: &Path) -> Result<Programs, TestbedError> {
        let mut programs = Programs::default();
        for seat in plan.seats() {
            let server = server(live, plan, &seat, program)?;
            let pid = server.start(live)?;
            programs.servers.push((seat, server, pid));
        }
        Ok(programs)
    }

    /// Starts an agent for every server, if the file has agents: beside the switches, where it reaches the controller as over a management
    /// network, or in its host.
    ///
    /// # Errors
    /// The driver cannot.
    pub fn start_agents(
        &mut self,
        live: &mut Live,
        plan: &Plan<'_>,
        controller: &Controller,
        program: &Path,
    ) -> Result<(), TestbedError> {
        let Some(config) = plan.services.agents else { return Ok(()) };
        for server in 0..plan.services.servers.len() {
            let name = format!("agent-{}", host_name(plan.services.servers[server].host));
            let argv = self.agent(plan, server, &config, controller.http().0, program);
            let host = host_name(plan.services.servers[server].host);
            let log = live.folder.join(format!("{name}.log"));
            let cwd = live.folder.clone();
            let host = config.in_band.map(|_| host.as_str());
            live.driver.spawn(&Program { name: &name, host, argv, log: &log, cwd: &cwd, at_s: None })?;
            self.agents.push(name);
        }
        Ok(())
    }

    fn agent(&self, plan: &Plan<'_>, server: usize, config: &AgentConfig, http: u16, program: &Path) -> Vec<String> {
        let ServicesConfig { servers, .. } = plan.services;
        let own = || self.servers.iter().filter(|(seat, ..)| seat.server == server);
        let cores = servers[server].cores;
        let has_jobs = own().any(|(seat, ..)| seat.kind == Kind::Jobs);
        let core = if has_jobs { plan.testbed.core } else { 1.0 };
        let time = |time: Time| format!("{}us", time.as_ps() / 1_000_000);
        let mut argv = vec![program.display().to_string(), "agent".to_owned()];
        let mut option = |name: &str, value: String| argv.extend([format!("--{name}"), value]);
        match config.in_band {
            Some(to) => option("in-band", to.address.to_string()),
            None => {
                option("controller", format!("http://127.0.0.1:{http}"));
                option("address", address::host_ipv4(servers[server].host).to_string());
            }
        }
        option("interval", time(config.pause + config.sampling));
        if config.sampling > Time::ZERO {
            option("sampling", time(config.sampling));
        }
        option("cores", cores.to_string());
        option("core", core.to_string());
        for (seat, _, pid) in own() {
            option("of", pid.to_string());
            option("connections", seat.at.port().to_string());
        }
        argv
    }

    /// Waits until the controller takes every member of every pool for able to serve.
    ///
    /// # Errors
    /// It does not.
    pub fn wait_for_members(plan: &Plan<'_>, controller: &mut Controller) -> Result<(), TestbedError> {
        let until = Instant::now() + PATIENCE;
        for pool in config::pools(plan) {
            loop {
                controller.check()?;
                let state = controller.http().get(&format!("/v1/pools/{pool}")).unwrap_or_default();
                let mut members = state["members"].as_array().into_iter().flatten().peekable();
                if members.peek().is_some() && members.all(|member| member["state"] == "up") {
                    break;
                }
                if Instant::now() > until {
                    let reason = format!("takes no members of {pool} for able to serve after {PATIENCE:?}: {state}");
                    return Err(TestbedError::Controller(reason));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Processor time each server's programs have used so far, in seconds of its cores.
    pub fn core_s(&self, plan: &Plan<'_>) -> Vec<f64> {
        let mut used = vec![0.0; plan.services.servers.len()];
        for (seat, _, pid) in &self.servers {
            let core = if seat.kind == Kind::Jobs { plan.testbed.core } else { 1.0 };
            used[seat.server] += tree_cpu_s(*pid) / core;
        }
        used
    }

    /// Refuses if a server or an agent has ended by itself.
    ///
    /// # Errors
    /// One has.
    pub fn check(&self, live: &Live) -> Result<(), TestbedError> {
        let ended = |name: &String, said: &dyn Fn() -> String| match live.exits.get(name) {
            None => Ok(()),
            Some(code) => {
                let reason = format!("ended with {code} during the run: {}", said().trim());
                Err(TestbedError::Traffic { program: name.clone(), reason })
            }
        };
        let log = |name: &str| std::fs::read_to_string(live.folder.join(format!("{name}.log"))).unwrap_or_default();
        self.servers.iter().try_for_each(|(_, server, _)| ended(&server.program, &|| server.said()))?;
        self.agents.iter().try_for_each(|name| ended(name, &|| log(name)))
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn end(self, live: &mut Live) -> Result<(), TestbedError> {
        if !self.agents.is_empty() {
            live.ask("kill", json!({"programs": self.agents, "signal": 9}))?;
        }
        for (_, server, _) in &self.servers {
            server.kill(live)?;
        }
        // Others of these names will be started.
        for name in &self.agents {
            live.exits.remove(name);
        }
        Ok(())
    }
}

fn server(live: &Live, plan: &Plan<'_>, seat: &Seat, program: &Path) -> Result<Server, TestbedError> {
    let config = &plan.services.servers[seat.server];
    let host = host_name(config.host);
    let classes = plan.services.classes.iter().enumerate();
    let own = classes.filter(|(_, class)| seat.services.contains(&(class.service as usize)));
    let pages: Vec<(String, u64)> = own.map(|(number, class)| (page_name(number), class.page_bytes)).collect();
    let pages: Vec<(&str, u64)> = pages.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    match seat.kind {
        Kind::Pages => Server::nginx(live, &host, seat.at, &pages),
        Kind::Files => {
            let service = &plan.services.services[seat.services[0]];
            Server::vsftpd(live, &host, seat.at, &pages, (service.address, data_ports(seat.server)))
        }
        Kind::Jobs => Server::jobs(live, &host, seat.at, program, (config.cores, plan.testbed.core)),
    }
}
