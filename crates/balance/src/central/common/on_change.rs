//! Balancers that recompute everything when the network changes, and read neither flows nor counters.

use crate::central::{CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowSource, NetworkView, Placements};

struct OnChange<F>(F);

/// Makes a balancer that calls `place` whenever the network has changed.
pub fn on_network_change(
    place: impl FnMut(&NetworkView<'_>, &mut Placements) + Send + 'static,
) -> Box<dyn CentralBalancer> {
    Box::new(OnChange(place))
}

impl<F: FnMut(&NetworkView<'_>, &mut Placements) + Send> CentralBalancer for OnChange<F> {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::None, counters: false, period: None }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        if why == DecisionTrigger::NetworkChanged {
            (self.0)(cx.view, placements);
        }
    }
}
