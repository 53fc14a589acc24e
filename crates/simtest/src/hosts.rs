//! Hosts: they ask for Ethernet addresses, announce themselves, send the frames of their flows, and their agents report.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;

use balance::central::{AgentOrder, AgentReport};
use net::{FiveTuple, Time};
use openflow::headers::ether;
use openflow::{Headers, MacAddr, frame};

use crate::draw::ipv4_of;
use crate::plan::What;
use crate::world::{Event, Frame, Probe, World, mac_of};

/// How long a host remembers an Ethernet address.
const ARP_LIFE: Time = Time::from_s(8);
/// Between two requests for one.
const ARP_RETRY: Time = Time::from_ms(700);

/// A host. It hangs on the cable of its number.
#[derive(Debug)]
pub(crate) struct Host {
    number: usize,
    known: BTreeMap<Ipv4Addr, (MacAddr, Time)>,
    /// When a question was asked first and last that has not been answered yet.
    pub(crate) asked: BTreeMap<Ipv4Addr, (Time, Time)>,
}

/// A flow under way.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tuple: FiveTuple,
    interval: Time,
    payload: usize,
    pub(crate) until: Time,
    bytes: u64,
    is_reported: bool,
    pub(crate) is_over: bool,
    pace: Option<Time>,
    /// Cables of the last frame that arrived, with when it was sent.
    pub(crate) path: Option<(Vec<usize>, Vec<usize>)>,
}

impl Host {
    pub(crate) fn new(number: usize) -> Host {
        Host { number, known: BTreeMap::new(), asked: BTreeMap::new() }
    }

    /// It knows an address without asking.
    pub(crate) fn learn(&mut self, address: Ipv4Addr, mac: MacAddr, until: Time) {
        self.known.insert(address, (mac, until));
    }
    pub(crate) fn address_of(&self, target: Ipv4Addr, now: Time) -> Option<MacAddr> {
        self.known.get(&target).filter(|(_, until)| now < *until).map(|(mac, _)| *mac)
    }
}

/// Headers of a flow's packets.
pub(crate) fn headers_of(tuple: &FiveTuple, src: MacAddr, dst: MacAddr) -> Headers {
    Headers::ipv4([src, dst], [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port])
}

impl World {
    pub(crate) fn begin_flow(&mut self, action: usize) {
        let What::Flow { from, to, tuple, interval, payload } = self.plan.actions[action].what else { return };
        let until = self.plan.actions[action].until;
        let flow = Flow {
            from,
            to,
            tuple,
            interval,
            payload,
            until,
            bytes: 0,
            is_reported: false,
            is_over: false,
            pace: None,
            path: None,
        };
        self.report.flows += 1;
        self.flows.push(flow);
        self.schedule(self.now, Event::Send { flow: self.flows.len() - 1 });
    }

    pub(crate) fn send_probe(&mut self, number: usize) {
        let flow = &self.flows[number];
        if self.now >= flow.until {
            return self.end_flow(number);
        }
        let (from, tuple, payload) = (flow.from, flow.tuple, flow.payload);
        let interval = flow.interval.max(flow.pace.unwrap_or_default());
        match self.hosts[from].address_of(tuple.dst, self.now) {
            Some(mac) => {
                let bytes = frame::build(&headers_of(&tuple, mac_of(from), mac), payload);
                let flow = &mut self.flows[number];
                flow.bytes += bytes.len() as u64;
                self.report.frames_sent += 1;
                let probe = Probe { number: self.report.frames_sent, flow: number, sent: self.now, visits: Vec::new() };
                self.send_frame(from, 0, Frame { bytes, probe: Some(probe) });
                self.report_flow(number);
            }
            None => self.ask(from, tuple.dst),
        }
        self.after(interval, Event::Send { flow: number });
    }

    fn end_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        flow.is_over = true;
        if std::mem::take(&mut flow.is_reported) {
            let report = AgentReport::Ended { tuple: flow.tuple, bytes: flow.bytes };
            self.tell_controller(report);
        }
    }

    /// The agent reports a flow that has sent enough.
    fn report_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let is_enough = self.report_above.is_some_and(|above| flow.bytes > above);
        if is_enough && !flow.is_reported {
            flow.is_reported = true;
            let report = AgentReport::Started { tuple: flow.tuple, bytes: flow.bytes, size: None };
            self.tell_controller(report);
        }
    }

    fn tell_controller(&mut self, report: AgentReport) {
        self.after(self.plan.agent_latency, Event::Agent { incarnation: self.incarnation, report });
    }

    pub(crate) fn agent_reports(&mut self, incarnation: u32, report: AgentReport) {
        if incarnation != self.incarnation {
            return; // The connection to that controller is gone.
        }
        let Some(controller) = &mut self.controller else { return };
        controller.report(self.now, report);
        self.after_controller();
    }

    pub(crate) fn agents_obey(&mut self, order: AgentOrder) {
        match order {
            AgentOrder::ReportAbove(bytes) => {
                self.report_above = Some(bytes);
                let is_sending = |flow: &usize| !self.flows[*flow].is_over && self.flows[*flow].bytes > 0;
                let sending: Vec<usize> = (0..self.flows.len()).filter(is_sending).collect();
                sending.into_iter().for_each(|flow| self.report_flow(flow));
            }
            AgentOrder::Pace { tuple, rate } => {
                for flow in self.flows.iter_mut().filter(|flow| flow.tuple == tuple) {
                    flow.pace = rate.map(|rate| rate.time_for(flow.payload as u64 + 54).min(Time::from_s(1)));
                }
            }
        }
    }

    /// A controller without memory: agents connect to it anew and tell what they have.
    pub(crate) fn agents_reconnect(&mut self) {
        self.report_above = None;
        self.flows.iter_mut().for_each(|flow| flow.is_reported = false);
    }

    pub(crate) fn ask(&mut self, host: usize, target: Ipv4Addr) {
        let now = self.now;
        let (first, last) = self.hosts[host].asked.entry(target).or_insert((now, Time::ZERO));
        if *last != Time::ZERO && now < *last + ARP_RETRY {
            return;
        }
        if now > *last + ARP_RETRY * 3 {
            *first = now; // Whoever asked before has given up.
        }
        *last = now;
        let bytes = frame::arp_request(mac_of(host), ipv4_of(host), target);
        self.send_frame(host, 0, Frame { bytes, probe: None });
    }

    /// A host tells everyone who it is (ARP announcement, RFC 5227), now and every so often.
    pub(crate) fn announce(&mut self, host: usize) {
        self.announce_once(host);
        self.after(self.plan.announce_interval, Event::Announce { host });
    }

    pub(crate) fn announce_once(&mut self, host: usize) {
        let bytes = frame::arp_request(mac_of(host), ipv4_of(host), ipv4_of(host));
        self.send_frame(host, 0, Frame { bytes, probe: None });
    }

    pub(crate) fn host_receives(&mut self, number: usize, frame: Frame) {
        let Ok(headers) = frame::parse(&frame.bytes) else {
            return self.oracle_garbage(number, &frame);
        };
        match headers.eth_type {
            ether::LLDP => {}
            ether::ARP => self.arp(number, &headers),
            _ if frame.probe.is_none() && self.service_frame(number, &headers, &frame.bytes) => {}
            _ => self.oracle_delivered(number, &headers, frame),
        }
    }

    fn arp(&mut self, number: usize, headers: &Headers) {
        let host = &mut self.hosts[number];
        debug_assert_eq!(host.number, number);
        let is_mine = headers.ipv4_dst == ipv4_of(number);
        if headers.arp_op == 1 && is_mine && headers.ipv4_src != headers.ipv4_dst {
            let bytes = frame::arp_reply(mac_of(number), ipv4_of(number), headers.eth_src, headers.ipv4_src);
            self.send_frame(number, 0, Frame { bytes, probe: None });
        } else if headers.arp_op == 2 && is_mine {
            // The sender's hardware address is in the Ethernet header, too, for every answer there is here.
            host.known.insert(headers.ipv4_src, (headers.eth_src, self.now + ARP_LIFE));
            host.asked.remove(&headers.ipv4_src);
        }
    }
}
