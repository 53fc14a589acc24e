//! Queue-pair scaling: each transfer is split over several connections, which hash to different paths
//! (Gangidi et al., SIGCOMM 2024: up to 16 queue pairs for each pair of GPUs).
//!
//! Data move in slices, so piece i of a transfer waits for piece i of the transfer before it, as
//! with the channels of a collective library, and not for all its pieces. This is our reading.

use crate::flow::{Flow, FlowList, Start};

impl FlowList {
    /// Splits each flow into `count` flows of equal size, at most one for each byte. Groups, and
    /// what waits for them, stay the same. A list with tasks, which name flows, is left whole.
    pub fn over_queue_pairs(self, count: u32) -> FlowList {
        let count = u64::from(count.max(1));
        if count == 1 || self.tasks.is_some() {
            return self;
        }
        let pieces: Vec<u32> = self.flows.iter().map(|flow| flow.size_bytes.min(count) as u32).collect();
        let mut first = Vec::with_capacity(pieces.len());
        let mut total = 0u32;
        for pieces in &pieces {
            first.push(total);
            total += pieces;
        }
        let mut flows = Vec::with_capacity(total as usize);
        for (flow, parts) in self.flows.iter().zip(&pieces) {
            flows.extend((0..*parts).map(|piece| {
                let (each, rest) = (flow.size_bytes / u64::from(*parts), flow.size_bytes % u64::from(*parts));
                let start = match flow.start {
                    Start::After { flow: before, delay } => {
                        let before = before as usize;
                        Start::After { flow: first[before] + piece.min(pieces[before] - 1), delay }
                    }
                    other => other,
                };
                Flow { size_bytes: each + u64::from(u64::from(piece) < rest), start, ..*flow }
            }));
        }
        FlowList { flows, description: format!("{}, each over {count} queue pairs", self.description), ..self }
    }
}

#[cfg(test)]
mod tests {
    use net::{HostIx, Time};

    use super::*;

    #[test]
    fn pieces_add_up_and_wait_for_their_own_kind() {
        let flow = |size_bytes, start| Flow { src: HostIx(0), dst: HostIx(1), size_bytes, start, group: 1 };
        let after = |flow| Start::After { flow, delay: Time::from_ns(5) };
        let at = Start::At(Time::ZERO);
        let list = FlowList { flows: vec![flow(10, at), flow(2, after(0)), flow(9, after(1))], ..FlowList::default() };
        let split = list.over_queue_pairs(4);
        let seen: Vec<(u64, Start)> = split.flows.iter().map(|flow| (flow.size_bytes, flow.start)).collect();
        let of_first = [3, 3, 2, 2].map(|size| (size, at));
        let of_second = [(1, after(0)), (1, after(1))];
        let of_third = [(3, after(4)), (2, after(5)), (2, after(5)), (2, after(5))];
        assert_eq!(seen, [&of_first[..], &of_second[..], &of_third[..]].concat());
        assert!(split.flows.iter().all(|flow| flow.group == 1));
    }
}
