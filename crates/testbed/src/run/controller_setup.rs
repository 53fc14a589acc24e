//! Settings of the controller and of the host agents of a run.

use balance::Spec;
use experiment::input::{TrafficSource, Variant};
use experiment::runner::RunJob;
use traffic::Flow;

use crate::error::Result;
use crate::network::running_network::RunningNetwork;
use crate::run::agents::{Agents, ReportableFlow};
use crate::run::checks::{has_agents, openflow_equivalent};
use crate::run::controller::{Controller, LaunchOptions};
use crate::services::serving;
use crate::traffic::{RunWindow, tuple};

pub struct ControllerSetup {
    balancer: String,
    tables: String,
}

impl ControllerSetup {
    /// Returns the settings of a balancer of flows or of a server balancer; the latter runs above
    /// the flow balancer of the services.
    pub fn of(variant: &Variant, spec: &Spec) -> Result<ControllerSetup> {
        match plan_of(variant) {
            None => Ok(ControllerSetup { balancer: openflow_equivalent(spec)?, tables: String::new() }),
            Some(plan) => Ok(ControllerSetup {
                balancer: plan.services.base.clone(),
                tables: format!(
                    "{}\n[limits]\nmux_rules = {}\n",
                    serving::config::tables(&plan, spec),
                    variant.config.control.mux_rules
                ),
            }),
        }
    }

    /// Returns the launch options, with the ports for switches and for HTTP.
    pub fn launch_options<'a>(
        &'a self,
        variant: &'a Variant,
        seed: u64,
        (openflow, http): (u16, u16),
    ) -> LaunchOptions<'a> {
        let control = &variant.config.control;
        let agents = variant.config.services.as_ref().and_then(|services| services.agents);
        LaunchOptions {
            balancer: &self.balancer,
            poll: control.poll,
            seed,
            openflow,
            http,
            hosts: variant.testbed.host_learning,
            discovery: control.discovery,
            addressing: control.addressing,
            refused: &control.refused,
            health_check_address: agents.and_then(|agents| agents.in_band).map(|to| to.address),
            tables: &self.tables,
        }
    }
}

/// Returns the services of a variant, if its flows are requests.
pub fn plan_of(variant: &Variant) -> Option<serving::Plan<'_>> {
    let services = variant.config.services.as_ref()?;
    Some(serving::Plan { services, testbed: &variant.testbed })
}

/// Returns the agents of a run whose balancer receives flow reports from hosts.
pub fn agents(
    controller: &Controller,
    live: &RunningNetwork,
    job: &RunJob<'_>,
    source: TrafficSource,
    span: RunWindow,
) -> Option<Agents> {
    if !has_agents(job.scenario.balancer) {
        return None;
    }
    let reportable = |(number, flow): (usize, &Flow)| {
        let (tuple, start_ns) = (tuple(&job.scenario, source, number, flow)?, span.at(flow.start.time()?));
        Some(ReportableFlow { tuple, src: flow.src.ix(), size_bytes: flow.size_bytes, start_ns })
    };
    let flows: Vec<ReportableFlow> = job.scenario.flows.flows.iter().enumerate().filter_map(reportable).collect();
    let has_sizes = job.scenario.config.control.reports_flow_sizes;
    Some(Agents::new(controller.http(), live.hosts.clone(), flows, has_sizes))
}
