//! Matches and set-field values (`ofp_match`, `OFPXMT_OFB_*`).

mod read;
mod write;

pub(super) use read::{Unknown, read_match, read_set_field};
pub(super) use write::{write_match, write_set_field};

/// `OFPMT_OXM`.
const OXM: u16 = 1;
/// `OFPXMC_OPENFLOW_BASIC`.
const BASIC: u16 = 0x8000;
/// `OFPXMC_EXPERIMENTER`: the payload starts with the experimenter id.
const EXPERIMENTER: u16 = 0xffff;
/// The experimenter id of the Open Networking Foundation.
const FOUNDATION: u32 = 0x4f4e_4600;
const TCP_FLAGS: u16 = 0x0fff;
/// `OFPVID_PRESENT`: the packet has a tag.
const VID_PRESENT: u16 = 0x1000;
/// The bits of a VLAN id and `OFPVID_PRESENT`.
const VID_BITS: u16 = 0x1fff;

mod number {
    pub const IN_PORT: u8 = 0;
    pub const METADATA: u8 = 2;
    pub const ETH_DST: u8 = 3;
    pub const ETH_SRC: u8 = 4;
    pub const ETH_TYPE: u8 = 5;
    pub const VLAN_VID: u8 = 6;
    pub const VLAN_PCP: u8 = 7;
    pub const IP_DSCP: u8 = 8;
    pub const IP_ECN: u8 = 9;
    pub const IP_PROTO: u8 = 10;
    pub const IPV4_SRC: u8 = 11;
    pub const IPV4_DST: u8 = 12;
    pub const TCP_SRC: u8 = 13;
    pub const TCP_DST: u8 = 14;
    pub const UDP_SRC: u8 = 15;
    pub const UDP_DST: u8 = 16;
    pub const ICMPV4_TYPE: u8 = 19;
    pub const ICMPV4_CODE: u8 = 20;
    pub const ARP_OP: u8 = 21;
    pub const ARP_SPA: u8 = 22;
    pub const ARP_TPA: u8 = 23;
    /// Set in the numbers of the Foundation's fields, to distinguish them from basic ones, which
    /// have seven bits.
    pub const OF_FOUNDATION: u8 = 0x80;
    /// EXT-109; a basic field in OpenFlow 1.5.
    pub const TCP_FLAGS: u8 = OF_FOUNDATION | 42;
}
