//! Sources of connections: what one peer can have many of counts for its source.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the source that an address counts for: a host has a whole /64 of IPv6 addresses.
pub(crate) fn source_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_source() {
        let source = |text: &str| source_of(text.parse().expect("an address"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }
}
