//! Warnings about networks from files, to which defaults of data centres may not apply.

use net::{Time, Topology};
use sim::TransportKind;
use traffic::LoadReference;

use super::traffic_plan::TrafficPlan;

/// Delay of a link from which a network is a wide area.
const WIDE_AREA: Time = Time::from_ms(1);

/// Returns warnings about a network from a file, for this traffic.
pub(super) fn warnings(
    topology: &Topology,
    plan: &TrafficPlan,
    loads: &[Option<f64>],
    transport: &TransportKind,
) -> Vec<String> {
    overload(topology, plan, loads).into_iter().chain(wide_area(topology, transport)).collect()
}

/// Loads are shares of the host links, not of what the network between them carries.
fn overload(topology: &Topology, plan: &TrafficPlan, loads: &[Option<f64>]) -> Option<String> {
    let (reference, capacity) = plan.load_reference()?;
    let load = loads.iter().flatten().copied().fold(0.0, f64::max);
    if reference != LoadReference::HostLinks || load == 0.0 {
        return None;
    }
    let (offered, bisection) = (capacity.as_bps_f64() * load, net::bisection::at_most(topology));
    // Of flows between random hosts a half crosses, and half of that in each direction.
    (offered / 4.0 > bisection.as_bps_f64()).then(|| {
        let offered = net::Bandwidth::from_bps(offered as u64);
        format!(
            "traffic.load: at load {load} the hosts offer {offered}. If they send to random hosts, a quarter of that crosses \
             the middle of the network in each direction, where at most {bisection} fit, so queues grow without end: set \
             traffic.load_reference = \"bisection\", or the rates in [topology]"
        )
    })
}

fn wide_area(topology: &Topology, transport: &TransportKind) -> Option<String> {
    let longest = topology.links().iter().map(|link| link.delay).max()?;
    let is_dctcp = matches!(transport, TransportKind::Dctcp(_));
    (is_dctcp && longest >= WIDE_AREA).then(|| {
        format!(
            "transport.kind: DCTCP marks at queues that suit data centres, but a link has a delay of {longest}: cubic, with \
             switch.queue of a bandwidth-delay product, is usual in a wide area"
        )
    })
}
