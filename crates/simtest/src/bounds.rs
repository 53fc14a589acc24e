//! Bounds of reaction times, computed from the delays of a plan.

use net::Time;

use crate::plan::{ActionKind, Plan};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// From a cut that an end detects until the controller knows.
    pub(crate) seen: Time,
    /// The same for a cut that only missing discovery packets reveal.
    pub(crate) hidden: Time,
    /// From the end of a fault until the controller knows: port status, or the next discovery
    /// packet.
    pub(crate) healed: Time,
    /// From an open channel until the switch is in use and all its links are known.
    pub(crate) handshake: Time,
    /// From a broken channel until the controller knows at the latest.
    pub(crate) silence: Time,
    /// From the move of a host, or its removal, until it is known. The port where it was may have to
    /// be asked first.
    pub(crate) host: Time,
    /// From the departure of a host until it is forgotten.
    pub(crate) forgotten: Time,
    /// From the controller's knowledge to working rules on all switches.
    pub(crate) react: Time,
    /// From a change of a server until health checks detect it.
    pub(crate) checks: Time,
    /// From a change of services until it is installed and health-checked.
    pub(crate) checked: Time,
    /// From a request to its response while the network is not being repaired.
    pub(crate) answered: Time,
    /// From the last event until everything has timed out and been removed.
    pub(crate) tidy: Time,
}

impl Bounds {
    pub(crate) fn new(plan: &Plan) -> Bounds {
        let switches = || plan.switches.iter();
        let latency = switches().map(|switch| switch.latency).max().unwrap_or_default();
        let rtt = latency * 2 + plan.notice;
        let slow = plan.actions.iter().map(|action| match action.what {
            ActionKind::Slow { per_change, .. } => per_change,
            _ => Time::ZERO,
        });
        let per_change = switches().map(|switch| switch.per_change).chain(slow).max().unwrap_or_default();
        let per_message = switches().map(|switch| switch.per_message).max().unwrap_or_default();
        let flows = plan.actions.iter().filter(|action| !action.is_fault()).count();
        // The rules and groups of one switch, all rewritten, and those of flows that migrate.
        let changes = (plan.wiring.hosts * 6 + flows * 4 + 40 + 4 * plan.services.len()) as u64;
        let backlog = (per_change + per_message * 2) * changes;
        let path: Time = plan.wiring.cables.iter().map(|cable| cable.delay).sum();
        let control = &plan.control;
        let seen = plan.notice + latency + per_message * 100;
        let discovery = control.discovery_interval + rtt * 2 + path;
        // A staged update waits for one barrier per stage. The number of stages is at most the
        // number of switches of a path, and a second update may wait for the first.
        let stages = 2 * (plan.wiring.ports.len() as u64 + 4);
        // The controller waits one second for a stalled switch.
        let is_stalling = plan.actions.iter().any(|action| matches!(action.what, ActionKind::Stall { .. }));
        let patience = if is_stalling { Time::from_s(1) } else { Time::ZERO };
        let react = Time::from_ms(500) + patience + (rtt + path) * stages + backlog * 4;
        // The controller waits until 256 KB queued at each link of a path have drained, at most
        // twice: a migration may wait for another.
        let (queue, count) = (crate::simulation::CAPACITY.time_for(256 * 1024), plan.switches.len() as u64);
        let drain = queue * (count * 2);
        // Improvements drain packets after every stage; the number of stages is at most the number
        // of switches.
        let improve = (queue * count).min(Time::from_s(10)) * count;
        let idle = Time::from_s(u64::from(control.flow_idle_timeout_s));
        let monitors = plan.services.iter().flat_map(|wanted| &wanted.pools).filter_map(|pool| pool.monitor.as_ref());
        let checks = monitors.map(|one| one.interval * (u64::from(one.rise.max(one.fall)) + 1) + one.timeout).max();
        let checks = checks.unwrap_or_default();
        let answered = react + Time::from_s(1);
        // The final requests; then the rules with the longest idle timeout expire.
        let final_probes =
            if plan.services.is_empty() { Time::ZERO } else { checks + answered + Time::from_s(4 + 10 + 5) };
        // Checks of silence are up to an eighth of a timeout apart; three ARP requests follow.
        let timeout = control.host_idle_timeout.max(control.host_port_down_timeout);
        let forgotten = timeout + timeout / 4 + Time::from_s(4);
        // Unused locations leave the caches of switches after 60 s.
        let expiry = if plan.is_flat() { Time::ZERO } else { Time::from_s(65) };
        Bounds {
            checks,
            checked: checks + react,
            answered,
            seen,
            hidden: control.link_timeout + discovery,
            healed: seen + discovery,
            handshake: rtt * 12 + backlog + discovery,
            silence: control.echo_timeout + control.echo_interval + rtt,
            host: plan.announce_interval + rtt + Time::from_ms(750),
            forgotten,
            react,
            tidy: idle * 3
                + control.poll_interval * 3
                + drain
                + improve
                + final_probes
                + forgotten
                + expiry
                + Time::from_s(15),
        }
    }
}
