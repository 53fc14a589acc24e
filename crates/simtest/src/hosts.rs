//! Hosts. They send ARP requests and announcements and the frames of their flows, and their agents
//! report.

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;

use balance::central::{AgentCommand, AgentReport};
use net::{FiveTuple, Time};
use openflow::headers::ether;
use openflow::{Headers, MacAddr, frame};

use crate::disruptions::Input;
use crate::generate::ipv4_of;
use crate::plan::ActionKind;
use crate::simulation::{Event, Frame, Probe, Simulation, mac_of};

const ARP_LIFETIME: Time = Time::from_s(8);
/// Time between two ARP requests for one address.
const ARP_RETRY: Time = Time::from_ms(700);

/// A host; it is connected to the cable of its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Ethernet addresses, and until when they are known.
    pub(crate) known: BTreeMap<Ipv4Addr, (MacAddr, Time)>,
    /// Time of the first and of the last ARP request without a reply.
    pub(crate) arp_requests: BTreeMap<Ipv4Addr, (Time, Time)>,
    /// Addresses of other hosts that it claims: it replies to ARP requests for them.
    pub(crate) claims: BTreeSet<Ipv4Addr>,
    /// The time until which the addresses it has forged may keep out its own.
    pub(crate) flooded_until: Time,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tuple: FiveTuple,
    interval: Time,
    payload: usize,
    pub(crate) until: Time,
    bytes: u64,
    pub(crate) is_reported: bool,
    pub(crate) has_ended: bool,
    rate_limit_interval: Option<Time>,
    /// Cables and switches of the last delivered frame.
    pub(crate) path: Option<(Vec<usize>, Vec<usize>)>,
}

impl Host {
    pub(crate) fn address_of(&self, target: Ipv4Addr, now: Time) -> Option<MacAddr> {
        self.known.get(&target).filter(|(_, until)| now < *until).map(|(mac, _)| *mac)
    }
}

pub(crate) fn headers_of(tuple: &FiveTuple, src: MacAddr, dst: MacAddr) -> Headers {
    Headers::ipv4([src, dst], [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port])
}

impl Simulation {
    pub(crate) fn begin_flow(&mut self, action: usize) {
        let ActionKind::Flow { from, to, tuple, interval, payload } = self.plan.actions[action].what else { return };
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
            has_ended: false,
            rate_limit_interval: None,
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
        let interval = flow.interval.max(flow.rate_limit_interval.unwrap_or_default());
        match self.hosts[from].address_of(tuple.dst, self.now) {
            Some(mac) => {
                let bytes = frame::build(&headers_of(&tuple, mac_of(from), mac), payload);
                let flow = &mut self.flows[number];
                flow.bytes += bytes.len() as u64;
                self.report.frames_sent += 1;
                let probe = Probe { number: self.report.frames_sent, flow: number, sent: self.now, visits: Vec::new() };
                self.send_frame(from, 0, Frame { probe: Some(probe), ..Frame::new(bytes) });
                self.report_flow(number);
            }
            None => self.send_arp_request(from, tuple.dst),
        }
        self.after(interval, Event::Send { flow: number });
    }

    fn end_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        flow.has_ended = true;
        if std::mem::take(&mut flow.is_reported) {
            let report = AgentReport::Ended { tuple: flow.tuple, bytes: flow.bytes };
            self.send_agent_report(report);
        }
    }

    fn report_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let is_enough = self.report_threshold.is_some_and(|threshold| flow.bytes > threshold);
        if is_enough && !flow.is_reported {
            flow.is_reported = true;
            let report = AgentReport::Started { tuple: flow.tuple, bytes: flow.bytes, size: None };
            self.send_agent_report(report);
        }
    }

    fn send_agent_report(&mut self, report: AgentReport) {
        self.after(self.plan.agent_latency, Event::Agent { incarnation: self.incarnation, report });
    }

    pub(crate) fn agent_reports(&mut self, incarnation: u32, report: AgentReport) {
        if incarnation != self.incarnation {
            return; // The connection to that controller is closed.
        }
        self.tell_controller(Input::Agent(report));
        self.after_controller();
    }

    pub(crate) fn execute_agent_command(&mut self, command: AgentCommand) {
        match command {
            AgentCommand::SetReportThreshold(bytes) => {
                self.report_threshold = Some(bytes);
                let is_sending = |flow: &usize| !self.flows[*flow].has_ended && self.flows[*flow].bytes > 0;
                let sending: Vec<usize> = (0..self.flows.len()).filter(is_sending).collect();
                sending.into_iter().for_each(|flow| self.report_flow(flow));
            }
            AgentCommand::SetRateLimit { tuple, rate } => {
                for flow in self.flows.iter_mut().filter(|flow| flow.tuple == tuple) {
                    flow.rate_limit_interval =
                        rate.map(|rate| rate.time_for(flow.payload as u64 + 54).min(Time::from_s(1)));
                }
            }
        }
    }

    pub(crate) fn send_arp_request(&mut self, host: usize, target: Ipv4Addr) {
        let now = self.now;
        let (first, last) = self.hosts[host].arp_requests.entry(target).or_insert((now, Time::ZERO));
        if *last != Time::ZERO && now < *last + ARP_RETRY {
            return;
        }
        if now > *last + ARP_RETRY * 3 {
            *first = now; // The previous requests timed out.
        }
        *last = now;
        let bytes = frame::arp_request(mac_of(host), ipv4_of(host), target);
        self.send_frame(host, 0, Frame::new(bytes));
    }

    /// Announces a host (ARP announcement, RFC 5227), now and periodically.
    pub(crate) fn announce(&mut self, host: usize) {
        self.announce_once(host);
        self.after(self.plan.announce_interval, Event::Announce { host });
    }

    pub(crate) fn announce_once(&mut self, host: usize) {
        let bytes = frame::arp_request(mac_of(host), ipv4_of(host), ipv4_of(host));
        self.send_frame(host, 0, Frame::new(bytes));
    }

    pub(crate) fn host_receives(&mut self, number: usize, frame: Frame) {
        let Ok(headers) = frame::parse(&frame.bytes) else {
            return self.check_malformed(number, &frame);
        };
        match headers.eth_type {
            ether::LLDP => self.host_hears_probe(number, &frame.bytes),
            ether::ARP => self.arp(number, &headers),
            _ if frame.probe.is_none() && self.service_frame(number, &headers, &frame.bytes) => {}
            _ => self.check_delivered(number, &headers, frame),
        }
    }

    fn arp(&mut self, number: usize, headers: &Headers) {
        let host = &mut self.hosts[number];
        let is_mine = headers.ipv4_dst == ipv4_of(number);
        let is_claimed = host.claims.contains(&headers.ipv4_dst);
        if headers.arp_op == 1 && (is_mine || is_claimed) && headers.ipv4_src != headers.ipv4_dst {
            let bytes = frame::arp_reply(mac_of(number), headers.ipv4_dst, headers.eth_src, headers.ipv4_src);
            self.send_frame(number, 0, Frame::new(bytes));
        } else if headers.arp_op == 2 && is_mine {
            // All replies have the sender's hardware address in the Ethernet header, too.
            host.known.insert(headers.ipv4_src, (headers.eth_src, self.now + ARP_LIFETIME));
            host.arp_requests.remove(&headers.ipv4_src);
        } else if headers.ipv4_src == headers.ipv4_dst
            && let Some((mac, _)) = host.known.get_mut(&headers.ipv4_src)
        {
            *mac = headers.eth_src; // An announcement changes a known address.
        }
    }
}
