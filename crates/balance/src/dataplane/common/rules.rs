//! Balancers that are a single rule.

use net::LinkIx;

use crate::dataplane::{Cx, EdgeBalancer, EdgeHooks, NextHops, PacketView, Paths, SwitchBalancer};

/// Makes a switch balancer of [`SwitchBalancer::choose`] alone, without weights.
pub(crate) fn at_switch<F>(choose: F) -> Box<dyn SwitchBalancer>
where
    F: FnMut(&mut Cx<'_>, &PacketView, &[LinkIx]) -> usize + Send + 'static,
{
    Box::new(AtSwitch(choose))
}

struct AtSwitch<F>(F);

impl<F: FnMut(&mut Cx<'_>, &PacketView, &[LinkIx]) -> usize + Send> SwitchBalancer for AtSwitch<F> {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        (self.0)(cx, packet, members.links)
    }
}

/// Makes a switch balancer whose choice depends on the packet and the links alone.
pub(crate) fn by_packet<F>(choose: F) -> Box<dyn SwitchBalancer>
where
    F: Fn(&PacketView, &[LinkIx]) -> usize + Send + 'static,
{
    Box::new(ByPacket(choose))
}

struct ByPacket<F>(F);

impl<F: Fn(&PacketView, &[LinkIx]) -> usize + Send> SwitchBalancer for ByPacket<F> {
    fn choose(&mut self, _: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        (self.0)(packet, members.links)
    }

    fn foresee(&self, packet: &PacketView, members: NextHops<'_>) -> Option<usize> {
        Some((self.0)(packet, members.links))
    }
}

/// Makes an edge balancer that picks a path for each new flow, and for flows whose path has failed.
pub(crate) fn at_start<F>(hooks: EdgeHooks, pick: F) -> Box<dyn EdgeBalancer>
where
    F: FnMut(&mut Cx<'_>, &PacketView, Paths<'_>) -> u16 + Send + 'static,
{
    Box::new(AtStart { hooks, pick })
}

struct AtStart<F> {
    hooks: EdgeHooks,
    pick: F,
}

impl<F: FnMut(&mut Cx<'_>, &PacketView, Paths<'_>) -> u16 + Send> EdgeBalancer for AtStart<F> {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        paths.current.unwrap_or_else(|| (self.pick)(cx, packet, paths))
    }

    fn hooks(&self) -> EdgeHooks {
        self.hooks
    }
}
