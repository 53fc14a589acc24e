//! Frames reach their host unchanged and once.

use net::Addressing;
use openflow::Headers;

use crate::generate::ipv4_of;
use crate::hosts::headers_of;
use crate::report::Oracle;
use crate::simulation::{Frame, Simulation, mac_of};

#[derive(Debug, Default)]
pub(crate) struct Delivered(Vec<bool>);

impl Delivered {
    /// Records an arrival. Returns whether it is the first.
    fn record(&mut self, number: u64) -> bool {
        let number = number as usize;
        if self.0.len() <= number {
            self.0.resize(number + 1, false);
        }
        !std::mem::replace(&mut self.0[number], true)
    }
}

impl Simulation {
    pub(crate) fn check_malformed(&mut self, host: usize, frame: &Frame) {
        let len = frame.bytes.len();
        self.fail(Oracle::Delivery, || format!("h{host} got {len} bytes that are not a frame"));
    }

    pub(crate) fn check_delivered(&mut self, host: usize, headers: &Headers, frame: Frame) {
        // Frames to unknown locations go to all hosts.
        if self.plan.control.addressing == Addressing::Trill && headers.eth_dst != mac_of(host) {
            return;
        }
        let is_mine = headers.ipv4_dst == ipv4_of(host) && headers.eth_dst == mac_of(host) && headers.vlan.is_none();
        if !is_mine {
            let headers = *headers;
            return self.fail(Oracle::Delivery, || format!("h{host} got a frame that is not for it: {headers:?}"));
        }
        let Some(probe) = frame.probe else { return };
        let flow = &self.flows[probe.flow];
        let sent = headers_of(&flow.tuple, mac_of(flow.from), mac_of(flow.to));
        if sent != *headers && !self.is_taken_for_reply(&sent, headers) {
            let headers = *headers;
            return self.fail(Oracle::Delivery, || format!("h{host} got {headers:?}, sent was {sent:?}"));
        }
        let flow = &mut self.flows[probe.flow];
        let cables = probe.visits.iter().map(|visit| visit.cable).chain([host]).collect();
        flow.path = Some((cables, probe.visits.iter().map(|visit| visit.switch).collect()));
        if !self.oracles.delivered.record(probe.number) {
            return self.fail(Oracle::Delivery, || format!("h{host} got a frame twice"));
        }
        self.report.frames_delivered += 1;
    }

    /// Returns whether a frame comes from the port of a member of a service with proactive rules, and
    /// got the source of the service: those rules take it for a reply, as documented.
    fn is_taken_for_reply(&self, sent: &Headers, got: &Headers) -> bool {
        self.plan.services.iter().any(|wanted| {
            let proactive = wanted.services.iter().filter(|service| service.buckets().is_some());
            proactive.into_iter().any(|service| {
                let translated =
                    Headers { eth_src: got.eth_src, ipv4_src: service.address, l4_src: service.port, ..*sent };
                let pool = wanted.pools.iter().find(|pool| pool.id == service.pool);
                let is_source = |member: &control::vip::Member| {
                    (member.address, member.port.unwrap_or(service.port)) == (sent.ipv4_src, sent.l4_src)
                };
                sent.ip_proto == service.protocol.number()
                    && *got == translated
                    && pool.is_some_and(|pool| pool.members.iter().any(is_source))
            })
        })
    }
}
