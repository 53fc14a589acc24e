//! The rules that an addressing mode wants.

use net::NodeIx;
use openflow::DatapathId;

use crate::observer::network::Network;
use crate::updater::RuleSet;
use crate::updater::compile::Entry;

/// Rules that are being collected.
pub(super) struct Wanted<'a> {
    pub(super) network: &'a Network,
    pub(super) rules: RuleSet,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(network: &'a Network) -> Wanted<'a> {
        Wanted { network, rules: RuleSet::new() }
    }

    /// Adds rules of a switch, unless the network has no node for it.
    pub(super) fn add(&mut self, datapath: DatapathId, entries: impl IntoIterator<Item = Entry>) {
        if let Some(node) = self.network.node_of(datapath) {
            entries.into_iter().for_each(|entry| self.add_at(node, entry));
        }
    }

    /// Adds a rule; the first one of a place stays.
    pub(super) fn add_at(&mut self, node: NodeIx, (key, rule): Entry) {
        self.rules.entry((node, key)).or_insert(rule);
    }
}
