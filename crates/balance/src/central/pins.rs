//! Pinned flows, stored by flow number.

use super::{FlowId, Pin};

/// The pins of [`super::Placements`]: a map by flow number, stored as an array.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    slots: Vec<Slot>,
    len: usize,
    edited: Vec<FlowId>,
}

#[derive(Clone, Debug)]
struct Slot {
    flow: FlowId,
    is_edited: bool,
    pin: Option<Pin>,
}

impl Pins {
    /// Returns the number of pinned flows.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether no flow is pinned.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the pin of a flow.
    #[inline]
    pub fn get(&self, flow: &FlowId) -> Option<&Pin> {
        self.slots.get(flow.ix())?.pin.as_ref()
    }
    /// Returns all pins in the order of flow numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&FlowId, &Pin)> + Clone {
        self.slots.iter().filter_map(|slot| Some((&slot.flow, slot.pin.as_ref()?)))
    }
    /// Returns the pinned flows in the order of their numbers.
    pub fn keys(&self) -> impl Iterator<Item = &FlowId> {
        self.iter().map(|(flow, _)| flow)
    }
    /// Returns the pins in the order of flow numbers.
    pub fn values(&self) -> impl Iterator<Item = &Pin> {
        self.iter().map(|(_, pin)| pin)
    }

    /// Sets or removes a pin, which counts as an edit unless it was the same.
    pub(super) fn set(&mut self, flow: FlowId, pin: Option<Pin>) {
        if flow.ix() >= self.slots.len() {
            if pin.is_none() {
                return;
            }
            let numbers = self.slots.len() as u32..=flow.0;
            self.slots.extend(numbers.map(|number| Slot { flow: FlowId(number), is_edited: false, pin: None }));
        }
        let slot = &mut self.slots[flow.ix()];
        if slot.pin == pin {
            return;
        }
        self.len = self.len + usize::from(pin.is_some()) - usize::from(slot.pin.is_some());
        slot.pin = pin;
        if !std::mem::replace(&mut slot.is_edited, true) {
            self.edited.push(flow);
        }
    }
    pub(super) fn reserve(&mut self, numbers: usize) {
        self.slots.reserve(numbers.saturating_sub(self.slots.len()));
        self.edited.reserve(numbers.saturating_sub(self.edited.len()));
    }
    /// Returns the flows edited since the last call, in the order of their first edit.
    pub(super) fn take_edited(&mut self) -> Vec<FlowId> {
        let edited = std::mem::take(&mut self.edited);
        edited.iter().for_each(|flow| self.slots[flow.ix()].is_edited = false);
        edited
    }
}

/// Two maps are equal if the same flows have the same pins; recorded edits do not count.
impl PartialEq for Pins {
    fn eq(&self, other: &Pins) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Pins {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use net::LinkIx;
    use proptest::prelude::*;

    use super::*;
    use crate::central::Placements;

    proptest! {
        /// Pins behave as a map by flow, and the recorded edits are those that changed a pin.
        #[test]
        fn pins_are_a_map(edits in prop::collection::vec((0u32..12, prop::option::of(0u32..3), any::<bool>()), 0..60)) {
            let (mut placements, mut map, mut changed) = (Placements::default(), BTreeMap::new(), Vec::new());
            for (flow, link, is_taken) in edits {
                let flow = FlowId(flow);
                let pin = link.map(|link| Pin { path: [LinkIx(link)].into(), rate: None });
                let before = match &pin {
                    Some(pin) => {
                        placements.pin(flow, pin.clone());
                        map.insert(flow, pin.clone())
                    }
                    None => {
                        placements.release(flow);
                        map.remove(&flow)
                    }
                };
                changed.extend((before != pin).then_some(flow));
                prop_assert!(placements.pins().iter().eq(map.iter()));
                prop_assert_eq!(placements.pins().len(), map.len());
                prop_assert_eq!(placements.pin_of(flow), map.get(&flow));
                if is_taken {
                    let taken: Vec<FlowId> = placements.take_changes().pins.into_iter().collect();
                    changed.sort_unstable();
                    changed.dedup();
                    prop_assert_eq!(taken, std::mem::take(&mut changed));
                }
            }
        }
    }
}
