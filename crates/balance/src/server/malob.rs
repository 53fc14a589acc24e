//! MALOB: the service determines the algorithm, and the algorithm picks server and path
//! (mechanisms.md S01; Semedo, University of Lisbon, 2014).
//!
//! The table of services is a parameter, and can be read and replaced at run time
//! ([`ServerBalancer::services`], [`ServerBalancer::set_services`]); services not in it use the
//! explicit default. Services with the same specification share one instance, and keep it when the
//! table changes. Every instance receives the events of every connection, so that an algorithm that
//! counts connections counts all of a member's.
//!
//! Readings: in F1's released code a service that is not in the table uses the algorithm of the
//! previous request; the default is meant. The table is the one of the document: HTTP by SL-PS, FTP
//! by HT-PS, the CPU-bound service by least CPU.
//!
//! Pitfall: an algorithm added later knows reported statistics, but no earlier connections.
//!
//! - Helps: with services of different kinds on the same servers: an algorithm for each port.
//! - Hurts: where one port carries requests of different kinds.

use std::collections::BTreeMap;

use net::Time;

use crate::central::{NetworkView, Path};
use crate::entry::{Build, Entry};
use crate::params::{Param, Params};
use crate::registry::Spec;
use crate::server::{
    Choice, Ended, Member, NoServices, Pool, Request, ServerBalancer, ServerCx, ServerEnv, ServerNeeds, Services,
};

const SERVICES: Param = Param::services("services", "20=ht-ps;21=ht-ps;80=sl-ps;6789=server-cpu;default=sl-ps").doc(
    "Algorithm for each service port, and for all others: \
     `80=sl-ps;21=server-rr:path=htp+htp=capacity;default=sl-ps`. F1's numbers 1, 2, 3 mean sl-ps, \
     ht-ps, server-cpu.",
);

pub(crate) static ENTRY: Entry = Entry::declare("malob", "MALOB")
    .summary("Picks server and path by the algorithm of a table by service port; the table can be changed at run time.")
    .source("S01 MALOB; F1")
    .senses("the signals of the algorithms in its table")
    .params(&[SERVICES])
    .server(|env, params| Box::new(Malob::new(env, params)));

struct Malob {
    env: ServerEnv,
    services: Services,
    /// Instances by the label of their specification.
    algorithms: BTreeMap<String, Box<dyn ServerBalancer>>,
    /// The last known pool, for algorithms added later.
    pool: Pool,
}

impl Malob {
    fn new(env: &ServerEnv, params: &Params) -> Malob {
        let services = params.services(SERVICES.name);
        let mut malob = Malob { env: *env, services, algorithms: BTreeMap::new(), pool: Pool::default() };
        malob.instantiate();
        malob
    }

    /// Makes new algorithms of the table, and drops those no longer in it.
    fn instantiate(&mut self) {
        let Malob { env, services, algorithms, pool } = self;
        let configured: BTreeMap<String, &Spec> = services.specs().map(|spec| (spec.label(), spec)).collect();
        algorithms.retain(|label, _| configured.contains_key(label));
        for (label, spec) in configured {
            let Build::Server(build) = spec.entry.build else { continue };
            algorithms.entry(label).or_insert_with(|| {
                let mut algorithm = build(env, &spec.params);
                algorithm.on_pool_changed(pool);
                pool.members().iter().for_each(|member| algorithm.on_report(member));
                algorithm
            });
        }
    }
}

impl ServerBalancer for Malob {
    fn needs(&self) -> ServerNeeds {
        let needs = self.algorithms.values().map(|algorithm| algorithm.needs());
        needs.fold(ServerNeeds::default(), ServerNeeds::and)
    }

    fn pick(
        &mut self,
        cx: &mut ServerCx<'_>,
        request: &Request,
        pool: &Pool,
        view: &NetworkView<'_>,
    ) -> Option<Choice> {
        let label = self.services.of(request.service_port()).label();
        let choice = self.algorithms.get_mut(&label)?.pick(cx, request, pool, view)?;
        let others = self.algorithms.iter_mut().filter(|(other, _)| **other != label);
        others.for_each(|(_, other)| other.on_placed(request, &choice));
        Some(choice)
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        let label = self.services.of(request.service_port()).label();
        self.algorithms.get_mut(&label)?.path_to(request, member, view)
    }

    fn on_placed(&mut self, request: &Request, choice: &Choice) {
        self.algorithms.values_mut().for_each(|algorithm| algorithm.on_placed(request, choice));
    }

    fn on_ended(&mut self, request: &Request, ended: &Ended) {
        self.algorithms.values_mut().for_each(|algorithm| algorithm.on_ended(request, ended));
    }

    fn on_report(&mut self, member: &Member) {
        if let Some(known) = self.pool.get_mut(member.id) {
            known.stats = member.stats;
        }
        self.algorithms.values_mut().for_each(|algorithm| algorithm.on_report(member));
    }

    fn on_response(&mut self, member: &Member, response: Time) {
        self.algorithms.values_mut().for_each(|algorithm| algorithm.on_response(member, response));
    }

    fn on_counters(&mut self, member: &Member) {
        if let Some(known) = self.pool.get_mut(member.id) {
            known.stats = member.stats;
        }
        self.algorithms.values_mut().for_each(|algorithm| algorithm.on_counters(member));
    }

    fn on_pool_changed(&mut self, pool: &Pool) {
        self.pool.clone_from(pool);
        self.algorithms.values_mut().for_each(|algorithm| algorithm.on_pool_changed(pool));
    }

    fn services(&self) -> Option<&Services> {
        Some(&self.services)
    }

    fn set_services(&mut self, services: Services) -> Result<(), NoServices> {
        self.services = services;
        self.instantiate();
        Ok(())
    }
}
