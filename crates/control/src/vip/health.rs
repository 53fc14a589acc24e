//! Health checks through the data plane: requests leave by the port of the member, and replies to
//! the health-check address reach the controller by the same rule as packets to virtual addresses.
//!
//! A member that has not been checked yet counts as healthy, so a controller restart turns no
//! clients away.

use core::net::Ipv4Addr;
use net::Time;
use openflow::frame::{Echo, Segment, echo, flags, icmp_echo, segment, tcp};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr};

use super::spec::{Check, MemberId, Monitor, PoolId, Refusal};
use super::status::MemberState;
use super::{Parts, VipService};
use crate::SwitchPort;

/// First source port of checks, and the number of ports used in turn.
const FIRST_PORT: u16 = 20_000;
const PORTS: u32 = 40_000;
const WINDOW: u16 = 8_192;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Failure {
    NoAnswer,
    Refused,
    NotHttp,
    Status(u16),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    run: Option<Run>,
    next: Option<Time>,
    streak: u32,
    was_good: bool,
    /// Confirmed failure; `None` if healthy.
    pub(super) failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Number of the check, which distinguishes its replies from others.
    number: u32,
    until: Time,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Echo,
    Syn,
    /// The request was sent at this time; the first byte of the reply has this sequence number.
    Request(u32, Time),
}

impl Watch {
    /// Returns when the current check times out or the next one begins.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.run.map(|run| run.until).or(self.next)
    }

    /// Records the result of a check. Returns whether the confirmed state changes.
    fn note(&mut self, now: Time, monitor: &Monitor, failure: Option<Failure>) -> bool {
        let began = self.run.take().map_or(now, |run| run.until.saturating_sub(monitor.timeout));
        self.next = Some(began.saturating_add(monitor.interval).max(now));
        let is_good = failure.is_none();
        self.streak = if self.was_good == is_good { self.streak.saturating_add(1) } else { 1 };
        self.was_good = is_good;
        let is_enough = self.streak >= if is_good { monitor.rise } else { monitor.fall };
        let before = self.failure;
        if is_enough {
            self.failure = failure;
        }
        before.is_some() != self.failure.is_some()
    }
}

impl Run {
    fn port(&self) -> u16 {
        FIRST_PORT + (self.number % PORTS) as u16
    }
    /// Returns the initial sequence number. It differs from check to check, so that old segments do
    /// not match.
    fn isn(&self) -> u32 {
        self.number.wrapping_mul(0x9e37_79b1)
    }
    fn echo(&self) -> (u16, u16) {
        (self.number as u16, (self.number >> 16) as u16)
    }
}

#[derive(Clone, Copy, Debug)]
struct Target {
    pool: PoolId,
    member: MemberId,
    address: Ipv4Addr,
    mac: MacAddr,
    at: SwitchPort,
    port: u16,
}

impl VipService {
    /// Ends checks that timed out, and begins those that are due.
    pub(crate) fn run_checks(&mut self, on: &mut Parts<'_>) {
        let now = on.cx.now;
        let due = |watch: &Watch| watch.next_due().is_none_or(|at| at <= now);
        let pools = self.pools.iter().filter(|(_, pool)| pool.spec.monitor.is_some());
        let members =
            pools.flat_map(|(id, pool)| pool.members.iter().map(move |(member, facts)| (*id, *member, facts)));
        let members: Vec<(PoolId, MemberId)> = members
            .filter(|(.., facts)| !facts.is_removed && due(&facts.watch))
            .map(|(pool, member, _)| (pool, member))
            .collect();
        for (pool, member) in members {
            let Some(monitor) = self.monitor_of(pool) else { continue };
            self.end_late(on, pool, member, &monitor);
            self.begin_check(on, pool, member, &monitor);
        }
    }

    fn monitor_of(&self, pool: PoolId) -> Option<Monitor> {
        self.pools.get(&pool)?.spec.monitor.clone()
    }
    fn watch(&mut self, pool: PoolId, member: MemberId) -> Option<&mut Watch> {
        Some(&mut self.pools.get_mut(&pool)?.members.get_mut(&member)?.watch)
    }

    fn end_late(&mut self, on: &mut Parts<'_>, pool: PoolId, member: MemberId, monitor: &Monitor) {
        let now = on.cx.now;
        let late = self.watch(pool, member).and_then(|watch| watch.run).filter(|run| run.until <= now);
        if let Some(run) = late {
            if run.step != Step::Echo
                && let Some(target) = self.target_of(on, pool, member, monitor)
            {
                let seq = run.isn().wrapping_add(1);
                self.say(on, &target, run, &Segment { flags: flags::RST, seq, ack: 0, window: 0, payload: &[] });
            }
            self.end_check(on, pool, member, monitor, Some(Failure::NoAnswer));
        }
    }

    fn begin_check(&mut self, on: &mut Parts<'_>, pool: PoolId, member: MemberId, monitor: &Monitor) {
        let now = on.cx.now;
        let Some(target) = self.target_of(on, pool, member, monitor) else {
            // Its dead port shows that it cannot serve. It is checked again when that changes.
            if let Some(watch) = self.watch(pool, member) {
                watch.next = Some(now.saturating_add(monitor.interval));
            }
            return;
        };
        self.next_check = self.next_check.wrapping_add(1);
        let number = self.next_check;
        let until = now.saturating_add(monitor.timeout);
        let step = if monitor.check == Check::Icmp { Step::Echo } else { Step::Syn };
        let run = Run { number, until, step };
        match self.watch(pool, member) {
            Some(watch) if watch.run.is_none() && watch.next.is_none_or(|next| next <= now) => watch.run = Some(run),
            _ => return,
        }
        match step {
            Step::Echo => {
                let (Some(checker), (id, seq)) = (on.cx.config.health_check_address, run.echo()) else { return };
                let macs = [checker.mac, target.mac];
                let addresses = [checker.ipv4, target.address];
                on.cx.channels.packet_out(target.at, icmp_echo(macs, addresses, Echo { is_reply: false, id, seq }));
            }
            _ => {
                let syn = Segment { flags: flags::SYN, seq: run.isn(), ack: 0, window: WINDOW, payload: &[] };
                self.say(on, &target, run, &syn);
            }
        }
    }

    fn target_of(&self, on: &Parts<'_>, pool: PoolId, member: MemberId, monitor: &Monitor) -> Option<Target> {
        let spec = self.pools.get(&pool)?.members.get(&member)?.spec;
        let host = on.observer.network.host_at(spec.address)?;
        let service_port = self.services.values().find(|service| service.pool == pool).map(|service| service.port);
        let port = monitor.port.or(spec.port).or(service_port).unwrap_or(0);
        let known = host.known;
        let is_alive = on.observer.network.is_alive(host.uplink);
        let (address, mac, at) = (spec.address, known.mac, known.end());
        is_alive.then_some(Target { pool, member, address, mac, at, port })
    }

    fn say(&mut self, on: &mut Parts<'_>, target: &Target, run: Run, segment: &Segment<'_>) {
        let Some(checker) = on.cx.config.health_check_address else { return };
        let (macs, addresses) = ([checker.mac, target.mac], [checker.ipv4, target.address]);
        on.cx.channels.packet_out(target.at, tcp(macs, addresses, [run.port(), target.port], segment));
    }

    fn end_check(
        &mut self,
        on: &mut Parts<'_>,
        pool: PoolId,
        member: MemberId,
        monitor: &Monitor,
        failure: Option<Failure>,
    ) {
        let now = on.cx.now;
        let has_changed = self.watch(pool, member).is_some_and(|watch| watch.note(now, monitor, failure));
        self.is_new |= has_changed;
    }

    /// Handles a packet to the health-check address: a reply to a current or former check.
    pub(super) fn on_check_reply(&mut self, on: &mut Parts<'_>, at: SwitchPort, headers: &Headers, data: &[u8]) {
        if self.on_report(on, at, headers, data) {
            return;
        }
        let Some((pool, member, run)) = self.find_run(headers, data) else {
            return self.refuse(on, at, data, Refusal::Reset);
        };
        let Some(monitor) = self.monitor_of(pool) else { return };
        if run.step == Step::Echo {
            return self.end_check(on, pool, member, &monitor, None);
        }
        let Some(target) = self.target_of(on, pool, member, &monitor) else { return };
        if let Ok(Some(segment)) = segment(data) {
            self.on_segment(on, &target, run, &monitor, &segment);
        }
    }

    fn find_run(&self, headers: &Headers, data: &[u8]) -> Option<(PoolId, MemberId, Run)> {
        let answers = |run: &Run| match (run.step, headers.ip_proto) {
            (Step::Echo, protocol::ICMP) => {
                echo(data).is_some_and(|echo| echo.is_reply && (echo.id, echo.seq) == run.echo())
            }
            (Step::Syn | Step::Request(..), protocol::TCP) => headers.l4_dst == run.port(),
            _ => false,
        };
        self.pools.iter().find_map(|(pool, now)| {
            now.members.iter().find_map(|(member, facts)| {
                let run = facts.watch.run.filter(|run| facts.spec.address == headers.ipv4_src && answers(run))?;
                Some((*pool, *member, run))
            })
        })
    }

    fn on_segment(&mut self, on: &mut Parts<'_>, target: &Target, run: Run, monitor: &Monitor, got: &Segment<'_>) {
        let seq = run.isn().wrapping_add(1);
        let is_answer = got.has(flags::ACK) && (run.step != Step::Syn || got.ack == seq);
        if got.has(flags::RST) {
            if is_answer {
                self.end_check(on, target.pool, target.member, monitor, Some(Failure::Refused));
            }
            return;
        }
        match (run.step, &monitor.check) {
            (Step::Syn, check) if is_answer && got.has(flags::SYN) => match check {
                Check::Http { path, .. } => self.request(on, target, run, got, path),
                _ => {
                    self.say(on, target, run, &Segment { flags: flags::RST, seq, ack: 0, window: 0, payload: &[] });
                    self.end_check(on, target.pool, target.member, monitor, None);
                }
            },
            (Step::Request(first, sent), Check::Http { path, statuses })
                if got.seq == first && !got.payload.is_empty() =>
            {
                let seq = seq.wrapping_add(request_line(path, target.address).len() as u32);
                self.say(on, target, run, &Segment { flags: flags::RST, seq, ack: 0, window: 0, payload: &[] });
                let failure = match status(got.payload) {
                    Some(status) if statuses.0 <= status && status <= statuses.1 => None,
                    Some(status) => Some(Failure::Status(status)),
                    None => Some(Failure::NotHttp),
                };
                if failure.is_none()
                    && let Some(pool) = self.pools.get_mut(&target.pool)
                {
                    pool.responded(target.member, on.cx.now.saturating_sub(sent));
                }
                self.end_check(on, target.pool, target.member, monitor, failure);
            }
            _ => {}
        }
    }

    /// Acknowledges an established connection and sends the request.
    fn request(&mut self, on: &mut Parts<'_>, target: &Target, run: Run, got: &Segment<'_>, path: &str) {
        let now = on.cx.now;
        let (seq, ack) = (run.isn().wrapping_add(1), got.seq.wrapping_add(1));
        let asked = request_line(path, target.address);
        let (flags, payload) = (flags::ACK | flags::PSH, asked.as_bytes());
        self.say(on, target, run, &Segment { flags, seq, ack, window: WINDOW, payload });
        if let Some(watch) = self.watch(target.pool, target.member) {
            watch.run = Some(Run { step: Step::Request(ack, now), ..run });
        }
    }

    pub(super) fn next_check(&self, now: Time) -> Option<Time> {
        let pools = self.pools.values().filter(|pool| pool.spec.monitor.is_some());
        let members = pools.flat_map(|pool| pool.members.values()).filter(|facts| !facts.is_removed);
        // A member that has never been checked is due when its host is known.
        members.map(|facts| facts.watch.next_due().unwrap_or(now)).min()
    }
}

impl MemberState {
    pub(super) const fn of(failure: Option<Failure>) -> MemberState {
        match failure {
            None => MemberState::Up,
            Some(failure) => MemberState::Failing(failure),
        }
    }
}

fn request_line(path: &str, host: Ipv4Addr) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: anabranch\r\nConnection: close\r\n\r\n")
}

fn status(payload: &[u8]) -> Option<u16> {
    let line = payload.split(|byte| *byte == b'\r' || *byte == b'\n').next()?;
    let mut words = core::str::from_utf8(line).ok()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    words.next().filter(|code| code.len() == 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_statuses_are_parsed() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nServer: x\r\n"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        for nonsense in
            [&b""[..], b"SSH-2.0-x\r\n", b"HTTP/1.1\r\n", b"HTTP/1.1 20 OK\r\n", b"\xff\xfe", b"HTTP/1.1 abc x"]
        {
            assert_eq!(status(nonsense), None);
        }
    }

    #[test]
    fn state_changes_after_rise_or_fall_results() {
        let (interval, timeout) = (Time::from_s(2), Time::from_s(1));
        let monitor = Monitor { check: Check::Icmp, port: None, interval, timeout, rise: 2, fall: 3 };
        let mut watch = Watch::default();
        let bad = Some(Failure::NoAnswer);
        let mut note = |failure| watch.note(Time::ZERO, &monitor, failure);
        assert_eq!([note(None), note(bad), note(bad), note(None), note(bad), note(bad)], [false; 6]);
        assert!(note(bad), "three in a row");
        assert_eq!([note(bad), note(None), note(bad), note(None)], [false; 4]);
        assert!(note(None));
    }
}
