//! Agents on hosts: they tell the controller of flows that have sent more than it wants to hear of, and of their end.
//!
//! What plain sockets have sent is known here. Of iperf3 the kernel of each host is asked (`ss`), as an agent would.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use net::FiveTuple;
use serde_json::{Value, json};

use crate::clock::now_ns;
use crate::controller::Http;
use crate::error::TestbedError;
use crate::seen::failed;
use crate::sockets::{HostAt, inside};

/// Time between two looks at the sockets of hosts with flows that have not been told of, nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// The same for flows that may have ended: looking takes the processor that switches need, and nobody is in a hurry.
const LOOK_FOR_ENDS_NS: u64 = 2_000_000_000;

/// Time between two questions for the orders, nanoseconds: they change with the balancer.
const ORDERS_NS: u64 = 1_000_000_000;

/// A flow that may have to be told of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Announced {
    /// Its name on the wire.
    pub tuple: FiveTuple,
    /// Sending host, by its number.
    pub src: usize,
    /// Bytes it will send.
    pub size_bytes: u64,
    /// When it begins, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    Started,
    Ended,
}

/// The agents of all hosts.
pub struct Agents {
    http: Http,
    hosts: Vec<HostAt>,
    flows: Vec<Announced>,
    told: Vec<Told>,
    sent: Vec<u64>,
    /// Whether the size of a flow is told.
    has_sizes: bool,
    above: Option<u64>,
    next_orders_ns: u64,
    next_look_ns: u64,
    next_ends_ns: u64,
}

impl Agents {
    /// Agents of hosts that have told nothing yet.
    pub fn new(http: Http, hosts: Vec<HostAt>, flows: Vec<Announced>, has_sizes: bool) -> Agents {
        let (told, sent) = (vec![Told::Nothing; flows.len()], vec![0; flows.len()]);
        Agents {
            http,
            hosts,
            flows,
            told,
            sent,
            has_sizes,
            above: None,
            next_orders_ns: 0,
            next_look_ns: 0,
            next_ends_ns: 0,
        }
    }

    /// Another controller has been started, which knows nothing.
    pub fn tell_again(&mut self) {
        self.told.iter_mut().filter(|told| **told == Told::Started).for_each(|told| *told = Told::Nothing);
    }

    /// Looks at flows and tells what is new. `sent`: payload sent so far of each flow, where the sender says so. A controller that
    /// does not answer is told later.
    ///
    /// # Errors
    /// A host's sockets cannot be looked at.
    pub fn look(&mut self, sent: Option<&[AtomicU64]>) -> Result<(), TestbedError> {
        let now = now_ns();
        if now >= self.next_orders_ns {
            self.next_orders_ns = now + ORDERS_NS;
            // All agents hear the same; that of the first host asks.
            if let Some(host) = self.hosts.first()
                && let Ok(orders) = self.http.get(&format!("/v1/agents/{}/orders", host.ip))
            {
                self.above = orders["report_above"].as_u64();
            }
        }
        let Some(above) = self.above else { return Ok(()) };
        let has_ended = match sent {
            Some(sent) => self.count(sent),
            None if now >= self.next_look_ns => {
                self.next_look_ns = now + LOOK_NS;
                self.ask_hosts(now)?
            }
            None => return Ok(()),
        };
        self.tell(above, &has_ended);
        Ok(())
    }

    /// Takes what senders say; answers which flows have ended.
    fn count(&mut self, sent: &[AtomicU64]) -> Vec<bool> {
        self.sent = sent.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
        self.flows.iter().zip(&self.sent).map(|(flow, sent)| *sent >= flow.size_bytes).collect()
    }

    /// Asks the kernels of hosts with flows that may be told of; answers which flows have ended.
    fn ask_hosts(&mut self, now: u64) -> Result<Vec<bool>, TestbedError> {
        let mut has_ended = vec![false; self.flows.len()];
        let is_for_ends = now >= self.next_ends_ns;
        if is_for_ends {
            self.next_ends_ns = now + LOOK_FOR_ENDS_NS;
        }
        for (number, host) in self.hosts.iter().enumerate() {
            let may_tell = |(flow, told): (&Announced, &Told)| {
                let is_open = *told == Told::Nothing || (is_for_ends && *told == Told::Started);
                flow.src == number && flow.start_ns <= now && is_open
            };
            if !self.flows.iter().zip(&self.told).any(may_tell) {
                continue;
            }
            let output = inside(*host, || Command::new("ss").args(["-tinHO"]).output())?;
            if !output.status.success() {
                return Err(failed("ss", String::from_utf8_lossy(&output.stderr)));
            }
            let sockets = sockets(&String::from_utf8_lossy(&output.stdout));
            for (place, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.src == number) {
                let tuple = &flow.tuple;
                match sockets.get(&(tuple.src_port, tuple.dst, tuple.dst_port)) {
                    Some(sent) => self.sent[place] = *sent,
                    None => has_ended[place] = self.told[place] == Told::Started,
                }
            }
        }
        Ok(has_ended)
    }

    /// The agent of every host that has something to tell tells it. What cannot be told now is told at the next look.
    fn tell(&mut self, above: u64, has_ended: &[bool]) {
        for (number, host) in self.hosts.iter().enumerate() {
            let of_host = (0..self.flows.len()).filter(|place| self.flows[*place].src == number);
            let news = of_host.filter_map(|place| self.news(place, above, has_ended[place]));
            // A request has room for some hundred reports.
            let (reports, outcomes): (Vec<Value>, Vec<(usize, Told)>) = news.take(100).unzip();
            let path = format!("/v1/agents/{}/reports", host.ip);
            if !reports.is_empty() && self.http.post(&path, &json!({"reports": reports})).is_ok() {
                outcomes.into_iter().for_each(|(place, told)| self.told[place] = told);
            }
        }
    }

    /// What is new of a flow: the report, and what has been told of it then.
    fn news(&self, place: usize, above: u64, has_ended: bool) -> Option<(Value, (usize, Told))> {
        let (flow, sent) = (&self.flows[place], self.sent[place]);
        let (event, told) = match self.told[place] {
            Told::Nothing if sent > above && !has_ended => ("started", Told::Started),
            Told::Started if has_ended => ("ended", Told::Ended),
            _ => return None,
        };
        let mut report = json!({"event": event, "flow": name(flow), "bytes": sent});
        if told == Told::Started && self.has_sizes {
            report["size"] = json!(flow.size_bytes);
        }
        Some((report, (place, told)))
    }
}

/// A flow as the agent of its source names it.
fn name(flow: &Announced) -> Value {
    let FiveTuple { dst, protocol, src_port, dst_port, .. } = flow.tuple;
    json!({"dst": dst.to_string(), "protocol": protocol, "src_port": src_port, "dst_port": dst_port})
}

/// Bytes sent by own port, peer and its port, from the words of `ss -tinHO`: state, queues, both ends, then facts as `name:value`.
fn sockets(text: &str) -> BTreeMap<(u16, Ipv4Addr, u16), u64> {
    let end = |word: &str| -> Option<(Ipv4Addr, u16)> {
        let (address, port) = word.rsplit_once(':')?;
        Some((address.parse().ok()?, port.parse().ok()?))
    };
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ((_, own), (peer, port)) = (end(words.get(3)?)?, end(words.get(4)?)?);
        let sent = words.iter().find_map(|word| word.strip_prefix("bytes_sent:")).unwrap_or("0");
        Some(((own, peer, port), sent.parse().ok()?))
    };
    text.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sent_are_found_among_the_words_of_ss() {
        let text = "ESTAB 0 163768 10.0.0.1:10003 10.0.0.9:5204 cubic wscale:7,7 rto:204 bytes_sent:181616 bytes_acked:2 lastsnd:1\n\
                    ESTAB 0 0 10.0.0.1:53220 10.0.0.9:5204 cubic wscale:7,7 rto:204\nLISTEN 0 10 *:5201 *:* cubic\n";
        let found = sockets(text);
        let peer = Ipv4Addr::new(10, 0, 0, 9);
        assert_eq!(found.get(&(10_003, peer, 5204)), Some(&181_616));
        assert_eq!((found.get(&(53_220, peer, 5204)), found.len()), (Some(&0), 2));
    }
}
