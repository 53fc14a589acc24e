//! Encoding of match fields.

use core::net::Ipv4Addr;

use super::{BASIC, EXPERIMENTER, FOUNDATION, OXM, TCP_FLAGS, VID_PRESENT, number};
use crate::action::SetField;
use crate::matching::{Masked, Match, VlanMatch};
use crate::wire::writer::Writer;

/// Returns the header of a field; its payload has up to 255 bytes.
fn header(number: u8, has_mask: bool, payload: usize) -> u32 {
    u32::from(BASIC) << 16 | u32::from(number << 1 | u8::from(has_mask)) << 8 | payload as u32
}

#[inline]
fn write_field<const N: usize>(writer: &mut impl Writer, number: u8, value: [u8; N]) {
    writer.u32(header(number, false, N));
    writer.bytes(&value);
}

/// Writes a field whose mask is omitted if it is all ones.
#[inline]
fn write_masked<W: Writer, const N: usize>(
    writer: &mut W,
    number: u8,
    value: [u8; N],
    mask: [u8; N],
) -> Result<(), W::Error> {
    if mask == [0xff; N] {
        write_field(writer, number, value);
        return Ok(());
    }
    let is_inside = (0..N).all(|at| value[at] & !mask[at] == 0);
    writer.check(is_inside, || format!("match field {number} has bits that its mask leaves out"))?;
    writer.u32(header(number, true, 2 * N));
    writer.bytes(&value);
    writer.bytes(&mask);
    Ok(())
}

/// Writes a field of less than eight bits.
fn write_small<W: Writer>(writer: &mut W, number: u8, value: u8, max: u8) -> Result<(), W::Error> {
    writer.check(value <= max, || format!("field {number} is {value}, above {max}"))?;
    write_field(writer, number, [value]);
    Ok(())
}

fn write_vid<W: Writer>(writer: &mut W, id: u16) -> Result<(), W::Error> {
    writer.check(id < VID_PRESENT, || format!("VLAN id {id} is above 4095"))?;
    write_field(writer, number::VLAN_VID, (VID_PRESENT | id).to_be_bytes());
    Ok(())
}

fn write_vlan<W: Writer>(writer: &mut W, vlan: VlanMatch) -> Result<(), W::Error> {
    let present = VID_PRESENT.to_be_bytes();
    match vlan {
        VlanMatch::Untagged => write_field(writer, number::VLAN_VID, [0, 0]),
        VlanMatch::Tagged => write_masked(writer, number::VLAN_VID, present, present)?,
        VlanMatch::Id(id) => write_vid(writer, id)?,
    }
    Ok(())
}

/// Writes `ofp_match` with its padding, and returns its length without. Fields are in the order of
/// their numbers, so that prerequisites come first; `other_fields` follow as they are.
pub(in crate::wire) fn write_match<W: Writer>(writer: &mut W, m: &Match, other_fields: &[u8]) -> Result<u16, W::Error> {
    let start = writer.len();
    writer.u32(u32::from(OXM) << 16);
    if let Some(port) = m.in_port {
        write_field(writer, number::IN_PORT, port.0.to_be_bytes());
    }
    if let Some(Masked { value, mask }) = m.metadata {
        write_masked(writer, number::METADATA, value.to_be_bytes(), mask.to_be_bytes())?;
    }
    for (number, address) in [(number::ETH_DST, m.eth_dst), (number::ETH_SRC, m.eth_src)] {
        if let Some(Masked { value, mask }) = address {
            write_masked(writer, number, value.0, mask.0)?;
        }
    }
    write_u16s(writer, &[(number::ETH_TYPE, m.eth_type)]);
    if let Some(vlan) = m.vlan {
        write_vlan(writer, vlan)?;
    }
    let small = [
        (number::VLAN_PCP, m.vlan_pcp, 7),
        (number::IP_DSCP, m.ip_dscp, 63),
        (number::IP_ECN, m.ip_ecn, 3),
        (number::IP_PROTO, m.ip_proto, 255),
    ];
    for (number, value, max) in small {
        if let Some(value) = value {
            write_small(writer, number, value, max)?;
        }
    }
    write_ipv4s(writer, &[(number::IPV4_SRC, m.ipv4_src), (number::IPV4_DST, m.ipv4_dst)])?;
    write_u16s(writer, &[(number::TCP_SRC, m.tcp_src), (number::TCP_DST, m.tcp_dst)]);
    write_u16s(writer, &[(number::UDP_SRC, m.udp_src), (number::UDP_DST, m.udp_dst)]);
    for (number, value) in [(number::ICMPV4_TYPE, m.icmpv4_type), (number::ICMPV4_CODE, m.icmpv4_code)] {
        if let Some(value) = value {
            write_field(writer, number, [value]);
        }
    }
    write_u16s(writer, &[(number::ARP_OP, m.arp_op)]);
    write_ipv4s(writer, &[(number::ARP_SPA, m.arp_spa), (number::ARP_TPA, m.arp_tpa)])?;
    if let Some(flags) = m.tcp_flags {
        write_tcp_flags(writer, flags)?;
    }
    writer.bytes(other_fields);
    // The length of a match does not include its padding.
    writer.patch_len(start, 2, "a match")?;
    let length = writer.len() - start;
    writer.pad_to_8(start);
    Ok(length as u16)
}

fn write_u16s(writer: &mut impl Writer, fields: &[(u8, Option<u16>)]) {
    for &(number, value) in fields {
        if let Some(value) = value {
            write_field(writer, number, value.to_be_bytes());
        }
    }
}

fn write_ipv4s<W: Writer>(writer: &mut W, fields: &[(u8, Option<Masked<Ipv4Addr>>)]) -> Result<(), W::Error> {
    for &(number, address) in fields {
        if let Some(Masked { value, mask }) = address {
            write_masked(writer, number, value.octets(), mask.octets())?;
        }
    }
    Ok(())
}

/// Writes the Foundation's field; its mask is omitted if it is all twelve bits.
fn write_tcp_flags<W: Writer>(writer: &mut W, flags: Masked<u16>) -> Result<(), W::Error> {
    let Masked { value, mask } = flags;
    let is_valid = (value | mask) & !TCP_FLAGS == 0 && value & !mask == 0;
    writer.check(is_valid, || format!("control bits of TCP {value:#06x} with mask {mask:#06x}"))?;
    let has_mask = mask != TCP_FLAGS;
    let payload = 4 + 2 * (1 + usize::from(has_mask));
    let number = number::TCP_FLAGS & !number::OF_FOUNDATION;
    writer.u32(u32::from(EXPERIMENTER) << 16 | header(number, has_mask, payload) & 0xffff);
    writer.u32(FOUNDATION);
    writer.u16(value);
    if has_mask {
        writer.u16(mask);
    }
    Ok(())
}

pub(in crate::wire) fn write_set_field<W: Writer>(writer: &mut W, field: SetField) -> Result<(), W::Error> {
    match field {
        SetField::EthDst(address) => write_field(writer, number::ETH_DST, address.0),
        SetField::EthSrc(address) => write_field(writer, number::ETH_SRC, address.0),
        SetField::VlanVid(id) => write_vid(writer, id)?,
        SetField::VlanPcp(value) => write_small(writer, number::VLAN_PCP, value, 7)?,
        SetField::IpDscp(value) => write_small(writer, number::IP_DSCP, value, 63)?,
        SetField::IpEcn(value) => write_small(writer, number::IP_ECN, value, 3)?,
        SetField::Ipv4Src(address) => write_field(writer, number::IPV4_SRC, address.octets()),
        SetField::Ipv4Dst(address) => write_field(writer, number::IPV4_DST, address.octets()),
        SetField::TcpSrc(port) => write_field(writer, number::TCP_SRC, port.to_be_bytes()),
        SetField::TcpDst(port) => write_field(writer, number::TCP_DST, port.to_be_bytes()),
        SetField::UdpSrc(port) => write_field(writer, number::UDP_SRC, port.to_be_bytes()),
        SetField::UdpDst(port) => write_field(writer, number::UDP_DST, port.to_be_bytes()),
    }
    Ok(())
}
