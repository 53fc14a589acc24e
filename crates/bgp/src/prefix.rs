//! Prefixes of IPv4 addresses.

use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

/// A prefix: the addresses whose first `length` bits are those of `first`. Prefixes are ordered by
/// first address, and then by length, so a prefix precedes the prefixes within it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Prefix {
    first: u32,
    length: u8,
}

impl Prefix {
    /// The prefix of length 0, which contains all addresses.
    pub const ALL: Prefix = Prefix { first: 0, length: 0 };

    /// Returns the prefix of `length` bits that contains an address; `length` is at most 32.
    pub fn around(address: Ipv4Addr, length: u8) -> Prefix {
        let length = length.min(32);
        Prefix { first: address.to_bits() & mask(length), length }
    }
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first)
    }
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first | !mask(self.length))
    }
    /// Returns the number of bits.
    pub fn length(self) -> u8 {
        self.length
    }
    pub fn contains(self, other: Prefix) -> bool {
        other.length >= self.length && other.first & mask(self.length) == self.first
    }
    /// Returns the prefixes that contain this one, itself included, the longest one first.
    pub fn covering(self) -> impl Iterator<Item = Prefix> {
        (0..=self.length).rev().map(move |length| Prefix::around(self.first(), length))
    }
    /// Returns the two halves; `None` for a single address.
    pub fn halves(self) -> Option<[Prefix; 2]> {
        let length = self.length.checked_add(1).filter(|length| *length <= 32)?;
        Some([Prefix { first: self.first, length }, Prefix { first: self.first | 1 << (32 - length), length }])
    }
    /// Returns the prefix of which this one is a half; `None` for all addresses.
    pub fn parent(self) -> Option<Prefix> {
        Some(Prefix::around(self.first(), self.length.checked_sub(1)?))
    }
    /// Returns the bounds of the prefixes within this one, itself included, in their order.
    pub fn within(self) -> core::ops::RangeInclusive<Prefix> {
        self..=Prefix { first: self.last().to_bits(), length: 32 }
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.first(), self.length)
    }
}
impl fmt::Debug for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The error of a text that is not a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a prefix such as 203.0.113.0/24")]
pub struct PrefixError;

impl FromStr for Prefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, length) = text.split_once('/').ok_or(PrefixError)?;
        let address: Ipv4Addr = address.parse().map_err(|_| PrefixError)?;
        let length: u8 = length.parse().map_err(|_| PrefixError)?;
        let prefix = Prefix::around(address, length);
        if length <= 32 && prefix.first() == address { Ok(prefix) } else { Err(PrefixError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn prefixes_within_another_one_are_a_range() {
        let outer = prefix("10.0.0.0/9");
        for (text, is_within) in [
            ("10.0.0.0/9", true),
            ("10.0.0.0/32", true),
            ("10.127.255.255/32", true),
            ("10.64.0.0/10", true),
            ("10.0.0.0/8", false),
            ("10.128.0.0/9", false),
            ("0.0.0.0/0", false),
        ] {
            assert_eq!(outer.within().contains(&prefix(text)), is_within, "{text}");
            assert_eq!(outer.contains(prefix(text)), is_within, "{text}");
        }
        assert_eq!(outer.covering().count(), 10);
        assert_eq!(outer.halves(), Some([prefix("10.0.0.0/10"), prefix("10.64.0.0/10")]));
        assert_eq!((prefix("10.64.0.0/10").parent(), Prefix::ALL.parent()), (Some(outer), None));
        assert_eq!(prefix("1.2.3.4/32").halves(), None);
    }

    #[test]
    fn texts_that_are_no_prefixes_are_rejected() {
        for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.1/24", "x/8", "10.0.0.0/-1", ""] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError), "{text}");
        }
    }
}
