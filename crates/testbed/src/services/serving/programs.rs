//! Server programs and their agents.

use std::path::Path;
use std::time::{Duration, Instant};

use balance::Spec;
use experiment::runner::{AgentConfig, ServicesConfig};
use net::{Time, address};
use serde_json::json;

use super::{Plan, ServerInstance, ServerKind, config, content, data_ports, page_name};
use crate::error::{Result, TestbedError, failed};
use crate::network::driver::{Program, words};
use crate::network::plan::host_name;
use crate::network::running_network::RunningNetwork;
use crate::processes::tree_cpu_s;
use crate::run::controller::Controller;
use crate::services::servers::Server;

/// Time in which the controller must report all members as up.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub struct Programs {
    servers: Vec<(ServerInstance, Server, u32)>,
    agents: Vec<String>,
}

impl Programs {
    /// Starts all servers and waits until they listen. `program` is the `anabranch` of compute
    /// servers and front ends; the latter have the balancer and the seed of the run.
    pub fn start(live: &mut RunningNetwork, plan: &Plan<'_>, program: &Path, of_run: (&Spec, u64)) -> Result<Programs> {
        let mut programs = Programs::default();
        for instance in plan.instances() {
            let server = server(live, plan, &instance, program, of_run)?;
            let pid = server.start(live)?;
            programs.servers.push((instance, server, pid));
        }
        Ok(programs)
    }

    /// Starts an agent for every server, if the file configures agents. An out-of-band agent runs
    /// next to the switches and reaches the controller as over a management network; an in-band
    /// agent runs in its host.
    pub fn start_agents(
        &mut self,
        live: &mut RunningNetwork,
        plan: &Plan<'_>,
        controller: &Controller,
        program: &Path,
    ) -> Result<()> {
        let Some(config) = plan.services.agents else { return Ok(()) };
        for (number, server) in plan.services.servers.iter().enumerate() {
            let host = host_name(server.host);
            let name = format!("agent-{host}");
            let argv = self.agent(plan, number, &config, controller.http().0, program);
            let log = live.folder.join(format!("{name}.log"));
            let host = config.in_band.map(|_| host.as_str());
            live.driver.spawn(&Program { name: &name, host, argv, log: &log, cwd: &live.folder, at_s: None })?;
            self.agents.push(name);
        }
        Ok(())
    }

    fn agent(&self, plan: &Plan<'_>, server: usize, config: &AgentConfig, http: u16, program: &Path) -> Vec<String> {
        let ServicesConfig { servers, .. } = plan.services;
        let own = || self.servers.iter().filter(|(instance, ..)| instance.server == server);
        let cores = servers[server].cores;
        let compute = own().find(|(instance, ..)| instance.kind == ServerKind::Compute);
        let core = compute.map_or(1.0, |(instance, ..)| plan.core_of(server, instance.kind));
        let time = |time: Time| format!("{}us", time.as_ps() / 1_000_000);
        let to = match config.in_band {
            Some(to) => format!("--in-band {}", to.address),
            None => {
                format!("--controller http://127.0.0.1:{http} --address {}", address::host_ipv4(servers[server].host))
            }
        };
        let interval = time(config.pause + config.sampling);
        let mut options = format!("agent {to} --interval {interval} --cores {cores} --core-share {core}");
        if config.sampling > Time::ZERO {
            options += &format!(" --sampling {}", time(config.sampling));
        }
        for (instance, _, pid) in own() {
            options += &format!(" --pid {pid} --connections {}", instance.at.port());
        }
        [vec![program.display().to_string()], words(&options)].concat()
    }

    pub fn wait_for_members(plan: &Plan<'_>, controller: &mut Controller) -> Result<()> {
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
                    let reason = format!("does not report all members of {pool} as up after {PATIENCE:?}: {state}");
                    return Err(TestbedError::Controller(reason));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns the processor time of each server's programs, in seconds of its cores.
    pub fn core_s(&self, plan: &Plan<'_>) -> Vec<f64> {
        let mut used = vec![0.0; plan.services.servers.len()];
        for (instance, _, pid) in &self.servers {
            used[instance.server] += tree_cpu_s(*pid) / plan.core_of(instance.server, instance.kind);
        }
        used
    }

    pub fn check(&self, live: &RunningNetwork) -> Result<()> {
        let ended = |name: &String, said: &dyn Fn() -> String| match live.exits.get(name) {
            None => Ok(()),
            Some(code) => Err(failed(name, format!("exited with {code} during the run: {}", said().trim()))),
        };
        let log = |name: &str| std::fs::read_to_string(live.folder.join(format!("{name}.log"))).unwrap_or_default();
        self.servers.iter().try_for_each(|(_, server, _)| ended(&server.program, &|| server.output()))?;
        self.agents.iter().try_for_each(|name| ended(name, &|| log(name)))
    }

    pub fn end(self, live: &mut RunningNetwork) -> Result<()> {
        if !self.agents.is_empty() {
            live.request("kill", json!({"programs": self.agents, "signal": 9}))?;
        }
        for (_, server, _) in &self.servers {
            server.kill(live)?;
        }
        // Later runs start programs with the same names.
        for name in &self.agents {
            live.exits.remove(name);
        }
        Ok(())
    }
}

fn server(
    live: &RunningNetwork,
    plan: &Plan<'_>,
    instance: &ServerInstance,
    program: &Path,
    of_run: (&Spec, u64),
) -> Result<Server> {
    let config = &plan.services.servers[instance.server];
    let host = host_name(config.host);
    let classes = plan.services.classes.iter().enumerate();
    let own = classes.filter(|(_, class)| instance.services.contains(&(class.service as usize)));
    let pages: Vec<(String, u64)> = own.map(|(number, class)| (page_name(number, class), class.page_bytes)).collect();
    let pages: Vec<(&str, u64)> = pages.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    match instance.kind {
        ServerKind::Http => Server::nginx(live, &host, instance.at, &pages),
        ServerKind::Ftp => {
            let service = &plan.services.services[instance.services[0]];
            Server::vsftpd(live, &host, instance.at, &pages, (service.address, data_ports(instance.server)))
        }
        ServerKind::Compute => {
            let core = plan.core_of(instance.server, instance.kind);
            Server::compute(live, &host, instance.at, program, (config.cores, core))
        }
        ServerKind::FrontEnd => {
            let front = content::front_end(plan, instance, of_run)?;
            Server::front_end(live, &host, program, &front)
        }
    }
}
