//! How long things may take in a storm, from the delays that were drawn for it.

use net::Time;

use crate::plan::{Plan, What};

/// Bounds of a storm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// From a cut to the controller, where an end sees it.
    pub(crate) seen: Time,
    /// The same where nobody sees it, or it is to find something out by discovery packets.
    pub(crate) hidden: Time,
    /// From the end of a fault until the controller knows: port status, or the next discovery packet.
    pub(crate) healed: Time,
    /// From an open channel to a switch in use with all its links known.
    pub(crate) handshake: Time,
    /// From a broken channel until the controller knows at the latest.
    pub(crate) silence: Time,
    /// From a host at a new place, or forgotten, until it is known.
    pub(crate) host: Time,
    /// From what the controller knows to rules that work, everywhere.
    pub(crate) react: Time,
    /// From something about a server until checks have found it.
    pub(crate) checks: Time,
    /// From a change of services until it is done, and checked.
    pub(crate) checked: Time,
    /// From a question to its answer, while nothing is being repaired.
    pub(crate) answered: Time,
    /// From the last event until everything has timed out and been tidied up.
    pub(crate) tidy: Time,
}

impl Bounds {
    pub(crate) fn new(plan: &Plan) -> Bounds {
        let switches = || plan.switches.iter();
        let latency = switches().map(|switch| switch.latency).max().unwrap_or_default();
        let rtt = latency * 2 + plan.notice;
        let slow = plan.actions.iter().map(|action| match action.what {
            What::Slow { per_change, .. } => per_change,
            _ => Time::ZERO,
        });
        let per_change = switches().map(|switch| switch.per_change).chain(slow).max().unwrap_or_default();
        let per_message = switches().map(|switch| switch.per_message).max().unwrap_or_default();
        let flows = plan.actions.iter().filter(|action| !action.is_fault()).count();
        // Rules and groups of one switch, all written anew, with those of flows that move.
        let changes = (plan.wiring.hosts * 6 + flows * 4 + 40 + 4 * plan.services.len()) as u64;
        let backlog = (per_change + per_message * 2) * changes;
        let path: Time = plan.wiring.cables.iter().map(|cable| cable.delay).sum();
        let control = &plan.control;
        let seen = plan.notice + latency + per_message * 100;
        let discovery = control.discovery_interval + rtt * 2 + path;
        // A staged change waits for one barrier per stage; stages are as many as a path has switches, and a second change
        // may wait for the first.
        let stages = 2 * (plan.wiring.ports.len() as u64 + 4);
        // Whoever waits for a switch that stalls gives it a second.
        let is_stalling = plan.actions.iter().any(|action| matches!(action.what, What::Stall { .. }));
        let patience = if is_stalling { Time::from_s(1) } else { Time::ZERO };
        let react = Time::from_ms(500) + patience + (rtt + path) * stages + backlog * 4;
        // The controller waits until 256 KB queued at each link of a path would have drained, twice at most: a move may wait
        // for another.
        let drain = crate::world::CAPACITY.time_for(256 * 1024) * (plan.wiring.ports.len() as u64 * 2);
        // Improvements let packets drain after every stage; there are at most as many as switches.
        let switches = plan.wiring.ports.len() as u64;
        let improve = (crate::world::CAPACITY.time_for(256 * 1024) * switches).min(Time::from_s(10)) * switches;
        let idle = Time::from_s(u64::from(control.flow_idle_timeout_s));
        let monitors = plan.services.iter().flat_map(|wanted| &wanted.pools).filter_map(|pool| pool.monitor.as_ref());
        let checks = monitors.map(|one| one.interval * (u64::from(one.rise.max(one.fall)) + 1) + one.timeout).max();
        let checks = checks.unwrap_or_default();
        let answered = react + Time::from_s(1);
        // Questions, and then the longest rules of their connections idle out.
        let trials = if plan.services.is_empty() { Time::ZERO } else { checks + answered + Time::from_s(4 + 10 + 5) };
        Bounds {
            checks,
            checked: checks + react,
            answered,
            seen,
            hidden: control.link_timeout + discovery,
            healed: seen + discovery,
            handshake: rtt * 12 + backlog + discovery,
            silence: control.echo_timeout + control.echo_interval + rtt,
            host: plan.announce_interval + rtt,
            react,
            tidy: idle * 3 + control.poll_interval * 3 + drain + improve + trials + Time::from_s(15),
        }
    }
}
