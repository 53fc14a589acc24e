//! Blocks of IPv4 addresses: default routes and traffic splits lead to blocks, not to one host.
//!
//! The hosts of a switch have the same next hops and paths elsewhere, so one rule serves all addresses of an
//! aligned block. A block has no address but those of hosts of the switch: packets to any other
//! address are dropped where they enter.

use std::collections::BTreeSet;

use core::net::Ipv4Addr;
use openflow::Masked;

/// An aligned block of 2^(32 − length) addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Block {
    first: u32,
    length: u8,
}

impl Block {
    /// Returns the block of one address.
    pub(crate) fn exact(address: Ipv4Addr) -> Block {
        Block::around(address, 32)
    }
    /// Returns the block with a prefix of `length` bits that contains an address.
    pub(crate) fn around(address: Ipv4Addr, length: u8) -> Block {
        Block { first: address.to_bits() & mask(length), length }
    }
    /// Returns the block of a match, unless its mask is no prefix.
    pub(crate) fn of(to: Masked<Ipv4Addr>) -> Option<Block> {
        let length = to.mask.to_bits().leading_ones() as u8;
        let block = Block::around(to.value, length);
        (block.to_masked() == to).then_some(block)
    }
    pub(crate) fn to_masked(self) -> Masked<Ipv4Addr> {
        Masked { value: self.first(), mask: Ipv4Addr::from_bits(mask(self.length)) }
    }
    pub(crate) fn first(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first)
    }
    pub(crate) fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first | !mask(self.length))
    }
    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        Block::around(address, self.length) == self
    }
    /// Returns the fewest blocks that have all its addresses but one, in their order.
    pub(crate) fn without(self, address: Ipv4Addr) -> Vec<Block> {
        let beside = |length: u8| Block::around(Ipv4Addr::from_bits(address.to_bits() ^ 1 << (32 - length)), length);
        let mut blocks: Vec<Block> = (self.length + 1..=32).map(beside).collect();
        blocks.sort_unstable();
        blocks
    }
    /// Returns the number of bits of its prefix.
    pub(crate) fn length(self) -> u8 {
        self.length
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

/// Removes an address from blocks. Returns the block that had it.
pub(crate) fn remove_address(blocks: &mut Vec<Block>, address: Ipv4Addr) -> Option<Block> {
    let position = blocks.iter().position(|block| block.contains(address))?;
    let block = blocks[position];
    blocks.splice(position..=position, block.without(address));
    Some(block)
}

/// Returns the fewest blocks that have these addresses and no others, in their order.
pub(crate) fn blocks_of(addresses: &BTreeSet<Ipv4Addr>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for address in addresses {
        let mut block = Block::exact(*address);
        // Two halves are one block.
        while let Some(half) = blocks.last().copied().filter(|half| half.length == block.length) {
            let whole = Block::around(half.first(), half.length - 1);
            if (half.first(), block.last()) != (whole.first(), whole.last()) {
                break;
            }
            blocks.pop();
            block = whole;
        }
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses(of: impl IntoIterator<Item = u32>) -> BTreeSet<Ipv4Addr> {
        of.into_iter().map(Ipv4Addr::from_bits).collect()
    }

    #[test]
    fn racks_are_few_blocks() {
        let lengths = |of: std::ops::RangeInclusive<u32>| {
            blocks_of(&addresses(of)).into_iter().map(Block::length).collect::<Vec<_>>()
        };
        assert_eq!(lengths(0x0a00_0000..=0x0a00_000f), [28]);
        assert_eq!(lengths(0x0a00_0001..=0x0a00_0010), [32, 31, 30, 29, 32]);
        assert_eq!(lengths(7..=7), [32]);
        assert_eq!(lengths(0xffff_fffe..=0xffff_ffff), [31]);
        assert!(blocks_of(&BTreeSet::new()).is_empty());
    }

    proptest! {
        #[test]
        fn blocks_have_the_addresses_and_no_others(of in proptest::collection::btree_set(0x0a00_0000u32..0x0a00_0060, 0..90)) {
            let blocks = blocks_of(&addresses(of.iter().copied()));
            let listed: Vec<u32> =
                blocks.iter().flat_map(|block| block.first().to_bits()..=block.last().to_bits()).collect();
            prop_assert_eq!(listed, of.into_iter().collect::<Vec<_>>(), "each once");
            // No two of them are the halves of one.
            for block in &blocks {
                let whole = Block::around(block.first(), block.length() - 1);
                let halves = [whole.first(), whole.last()].map(|end| Block::around(end, block.length()));
                prop_assert!(!halves.iter().all(|half| blocks.contains(half)));
            }
        }

        #[test]
        fn blocks_without_an_address_are_those_of_the_rest(
            of in proptest::collection::btree_set(0x0a00_0000u32..0x0a00_0060, 1..90),
            position: prop::sample::Index,
        ) {
            let mut rest = addresses(of.iter().copied());
            let gone = *rest.iter().nth(position.index(rest.len())).expect("an address");
            let mut blocks = blocks_of(&rest);
            rest.remove(&gone);
            prop_assert!(remove_address(&mut blocks, gone).is_some_and(|block| block.contains(gone)));
            prop_assert_eq!(&blocks, &blocks_of(&rest));
            prop_assert_eq!(remove_address(&mut blocks, gone), None);
        }

        #[test]
        fn blocks_of_matches_are_prefixes(value: u32, mask: u32, length in 0u8..=32) {
            let block = Block::around(value.into(), length);
            prop_assert_eq!(Block::of(block.to_masked()), Some(block));
            prop_assert!(block.first() <= Ipv4Addr::from(value) && Ipv4Addr::from(value) <= block.last());
            let any = Masked { value: Ipv4Addr::from(value & mask), mask: mask.into() };
            prop_assert_eq!(Block::of(any).is_some(), mask.leading_ones() + mask.trailing_zeros() >= 32);
        }
    }
}
