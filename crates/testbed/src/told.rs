//! What is told before a run: to the controller, of services; by agents, of flows.

use balance::Spec;
use experiment::file::{TrafficSource, Variant};
use experiment::world::Job;
use traffic::{Flow, Start};

use crate::agents::{Agents, Announced};
use crate::checks::{has_agents, on_switches};
use crate::controller::{Controller, Wanted};
use crate::error::TestbedError;
use crate::live::Live;
use crate::serving;
use crate::traffic::{Span, tuple};

/// What the controller of a variant is told beside the network.
pub struct Told {
    balancer: String,
    tables: String,
}

impl Told {
    /// Of a balancer for flows, or of one that picks servers, with the one that goes beneath.
    pub fn of(variant: &Variant, spec: &Spec) -> Result<Told, TestbedError> {
        match plan_of(variant) {
            None => Ok(Told { balancer: on_switches(spec)?, tables: String::new() }),
            Some(plan) => {
                Ok(Told { balancer: plan.services.base.clone(), tables: serving::config::tables(&plan, spec) })
            }
        }
    }

    /// How the controller is to be set up; ports for switches and for HTTP.
    pub fn wanted<'a>(&'a self, variant: &Variant, seed: u64, (openflow, http): (u16, u16)) -> Wanted<'a> {
        let control = &variant.config.control;
        let agents = variant.config.services.as_ref().and_then(|services| services.agents);
        Wanted {
            balancer: &self.balancer,
            poll: control.poll,
            seed,
            openflow,
            http,
            hosts: variant.testbed.hosts,
            discovery: control.discovery,
            checker: agents.and_then(|agents| agents.in_band).map(|to| to.address),
            tables: &self.tables,
        }
    }
}

/// The services of a variant, if its flows are requests.
pub fn plan_of(variant: &Variant) -> Option<serving::Plan<'_>> {
    let services = variant.config.services.as_ref()?;
    Some(serving::Plan { services, testbed: &variant.testbed })
}

/// The agents of a run whose balancer wants to hear of flows from hosts.
pub fn agents(
    controller: &Controller,
    live: &Live,
    job: &Job<'_>,
    source: TrafficSource,
    span: Span,
) -> Option<Agents> {
    if !has_agents(job.scenario.balancer) {
        return None;
    }
    let announced = |(number, flow): (usize, &Flow)| {
        let Start::At(start) = flow.start else { return None };
        let (tuple, start_ns) = (tuple(source, number, flow)?, span.at(start));
        Some(Announced { tuple, src: flow.src.ix(), size_bytes: flow.size_bytes, start_ns })
    };
    let flows: Vec<Announced> = job.scenario.flows.flows.iter().enumerate().filter_map(announced).collect();
    let has_sizes = job.scenario.config.control.are_sizes_told;
    Some(Agents::new(controller.http(), live.hosts.clone(), flows, has_sizes))
}
