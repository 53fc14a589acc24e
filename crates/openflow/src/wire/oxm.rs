//! Matches, and the fields that actions set (specification 7.2.3).

use core::net::Ipv4Addr;

use super::EncodeError;
use super::reader::{Fault, Reader};
use super::writer::Writer;
use crate::action::SetField;
use crate::address::MacAddr;
use crate::error::{BadAction, BadMatch, ErrorKind};
use crate::ids::PortNo;
use crate::matching::{Masked, Match, VlanMatch};

/// `OFPMT_OXM`.
const OXM: u16 = 1;
/// `OFPXMC_OPENFLOW_BASIC`.
const BASIC: u16 = 0x8000;
/// `OFPVID_PRESENT`: there is a tag.
const VID_PRESENT: u16 = 0x1000;
/// The bits of a VLAN id with the one above.
const VID_BITS: u16 = 0x1fff;

/// Numbers of the fields (`OFPXMT_OFB_*`).
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
}

/// What becomes of fields that no value can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unknown {
    /// The match would be another one without them.
    Refuse,
    /// They only describe a packet.
    Skip,
}

/// One field, its bytes not yet understood.
struct Field<'a> {
    /// Where it is in the message.
    offset: usize,
    number: u8,
    value: &'a [u8],
    mask: Option<&'a [u8]>,
    /// The errors to answer.
    errors: &'static Errors,
}

/// The same faults have other names in matches than in actions.
struct Errors {
    field: ErrorKind,
    len: ErrorKind,
    value: ErrorKind,
    mask: ErrorKind,
    wildcards: ErrorKind,
}

static IN_MATCH: Errors = Errors {
    field: ErrorKind::BadMatch(BadMatch::BadField),
    len: ErrorKind::BadMatch(BadMatch::BadLen),
    value: ErrorKind::BadMatch(BadMatch::BadValue),
    mask: ErrorKind::BadMatch(BadMatch::BadMask),
    wildcards: ErrorKind::BadMatch(BadMatch::BadWildcards),
};

static IN_ACTION: Errors = Errors {
    field: ErrorKind::BadAction(BadAction::BadSetType),
    len: ErrorKind::BadAction(BadAction::BadSetLen),
    value: ErrorKind::BadAction(BadAction::BadSetArgument),
    mask: ErrorKind::BadAction(BadAction::BadSetArgument),
    wildcards: ErrorKind::BadAction(BadAction::BadSetArgument),
};

impl<'a> Field<'a> {
    /// The next field; `None` if it is of a class that is not known.
    fn read(reader: &mut Reader<'a>, errors: &'static Errors) -> Result<Option<Field<'a>>, Fault> {
        let offset = reader.offset();
        let (class, number, length) = (reader.u16()?, reader.u8()?, usize::from(reader.u8()?));
        let mut payload = reader.part(length)?;
        if class != BASIC {
            return Ok(None);
        }
        let has_mask = number & 1 != 0;
        if has_mask && length % 2 != 0 {
            return Err(Fault::new(offset, errors.len, format!("value and mask of {length} bytes")));
        }
        let value = payload.bytes(if has_mask { length / 2 } else { length })?;
        let mask = has_mask.then(|| payload.remainder());
        Ok(Some(Field { offset, number: number >> 1, value, mask, errors }))
    }

    fn fault(&self, kind: ErrorKind, words: String) -> Fault {
        Fault::new(self.offset, kind, words)
    }

    fn bytes_of<const N: usize>(&self, bytes: &[u8]) -> Result<[u8; N], Fault> {
        bytes.try_into().map_err(|_| {
            self.fault(self.errors.len, format!("field {} has {} bytes and not {N}", self.number, bytes.len()))
        })
    }

    /// The value with its mask; all ones if there is none.
    fn masked<const N: usize>(&self) -> Result<([u8; N], [u8; N]), Fault> {
        let value = self.bytes_of(self.value)?;
        let Some(mask) = self.mask else { return Ok((value, [0xff; N])) };
        let mask = self.bytes_of(mask)?;
        if (0..N).any(|at| value[at] & !mask[at] != 0) {
            let words = format!("field {} has bits that its mask leaves out", self.number);
            return Err(self.fault(self.errors.wildcards, words));
        }
        Ok((value, mask))
    }

    /// The value of a field that has no masks; one that leaves nothing out is as good as none.
    fn exact<const N: usize>(&self) -> Result<[u8; N], Fault> {
        let (value, mask) = self.masked()?;
        if mask == [0xff; N] {
            return Ok(value);
        }
        Err(self.fault(self.errors.mask, format!("field {} cannot be masked", self.number)))
    }

    fn u16(&self) -> Result<u16, Fault> {
        self.exact().map(u16::from_be_bytes)
    }

    /// A number of less than eight bits.
    fn u8_up_to(&self, greatest: u8) -> Result<u8, Fault> {
        let [value] = self.exact()?;
        if value <= greatest {
            return Ok(value);
        }
        Err(self.fault(self.errors.value, format!("field {} is {value}, above {greatest}", self.number)))
    }

    fn ethernet(&self) -> Result<Masked<MacAddr>, Fault> {
        let (value, mask) = self.masked()?;
        Ok(Masked { value: MacAddr(value), mask: MacAddr(mask) })
    }

    fn ipv4(&self) -> Result<Masked<Ipv4Addr>, Fault> {
        let (value, mask) = self.masked::<4>()?;
        Ok(Masked { value: value.into(), mask: mask.into() })
    }

    fn vlan(&self) -> Result<VlanMatch, Fault> {
        let (value, mask) = self.masked()?;
        let (value, mask) = (u16::from_be_bytes(value), u16::from_be_bytes(mask));
        match (value, mask & VID_BITS) {
            (0, VID_BITS | VID_PRESENT) => Ok(VlanMatch::Untagged),
            (VID_PRESENT, VID_PRESENT) => Ok(VlanMatch::Tagged),
            (VID_PRESENT..=VID_BITS, VID_BITS) => Ok(VlanMatch::Id(value & !VID_PRESENT)),
            (_, VID_BITS) => Err(self.fault(self.errors.value, format!("VLAN id {value:#06x}"))),
            _ => Err(self.fault(self.errors.mask, format!("VLAN id {value:#06x} with mask {mask:#06x}"))),
        }
    }

    fn unknown(&self) -> Fault {
        Fault::unknown(self.offset, self.errors.field, format!("match field {} is not known", self.number))
    }
}

/// Reads `ofp_match` with its padding.
pub(super) fn read_match(reader: &mut Reader<'_>, unknown: Unknown) -> Result<Match, Fault> {
    let offset = reader.offset();
    let mut reader_ = reader.short_as(IN_MATCH.len);
    let (kind, length) = (reader_.u16()?, usize::from(reader_.u16()?));
    if kind != OXM {
        let kind_error = ErrorKind::BadMatch(BadMatch::BadType);
        return Err(Fault::new(offset, kind_error, format!("match of type {kind}")));
    }
    let Some(fields_len) = length.checked_sub(4) else {
        return Err(reader_.bad_len(format!("match of {length} bytes")));
    };
    let mut fields = reader_.part(fields_len)?;
    reader_.skip(length.next_multiple_of(8) - length)?;
    reader.skip(reader_.offset() - offset)?;
    let mut found = Match::default();
    while !fields.is_empty() {
        let at = fields.offset();
        match Field::read(&mut fields, &IN_MATCH)? {
            Some(field) => match set(&mut found, &field) {
                Err(fault) if fault.is_unknown && unknown == Unknown::Skip => {}
                other => other?,
            },
            None if unknown == Unknown::Skip => {}
            None => return Err(Fault::unknown(at, IN_MATCH.field, "match field of a class that is not known")),
        }
    }
    Ok(found)
}

/// Notes a field in a match.
fn set(found: &mut Match, field: &Field<'_>) -> Result<(), Fault> {
    let once = |is_new: bool| {
        let dup = ErrorKind::BadMatch(BadMatch::DupField);
        if is_new { Ok(()) } else { Err(field.fault(dup, format!("match field {} given twice", field.number))) }
    };
    match field.number {
        number::IN_PORT => once(found.in_port.replace(PortNo(u32::from_be_bytes(field.exact()?))).is_none()),
        number::METADATA => {
            let (value, mask) = field.masked()?;
            let metadata = Masked { value: u64::from_be_bytes(value), mask: u64::from_be_bytes(mask) };
            once(found.metadata.replace(metadata).is_none())
        }
        number::ETH_DST => once(found.eth_dst.replace(field.ethernet()?).is_none()),
        number::ETH_SRC => once(found.eth_src.replace(field.ethernet()?).is_none()),
        number::ETH_TYPE => once(found.eth_type.replace(field.u16()?).is_none()),
        number::VLAN_VID => once(found.vlan.replace(field.vlan()?).is_none()),
        number::VLAN_PCP => once(found.vlan_pcp.replace(field.u8_up_to(7)?).is_none()),
        number::IP_DSCP => once(found.ip_dscp.replace(field.u8_up_to(63)?).is_none()),
        number::IP_ECN => once(found.ip_ecn.replace(field.u8_up_to(3)?).is_none()),
        number::IP_PROTO => once(found.ip_proto.replace(field.u8_up_to(255)?).is_none()),
        number::IPV4_SRC => once(found.ipv4_src.replace(field.ipv4()?).is_none()),
        number::IPV4_DST => once(found.ipv4_dst.replace(field.ipv4()?).is_none()),
        number::TCP_SRC => once(found.tcp_src.replace(field.u16()?).is_none()),
        number::TCP_DST => once(found.tcp_dst.replace(field.u16()?).is_none()),
        number::UDP_SRC => once(found.udp_src.replace(field.u16()?).is_none()),
        number::UDP_DST => once(found.udp_dst.replace(field.u16()?).is_none()),
        number::ICMPV4_TYPE => once(found.icmpv4_type.replace(field.u8_up_to(255)?).is_none()),
        number::ICMPV4_CODE => once(found.icmpv4_code.replace(field.u8_up_to(255)?).is_none()),
        number::ARP_OP => once(found.arp_op.replace(field.u16()?).is_none()),
        number::ARP_SPA => once(found.arp_spa.replace(field.ipv4()?).is_none()),
        number::ARP_TPA => once(found.arp_tpa.replace(field.ipv4()?).is_none()),
        _ => Err(field.unknown()),
    }
}

/// Reads the field of a set-field action.
pub(super) fn read_set_field(reader: &mut Reader<'_>) -> Result<SetField, Fault> {
    let offset = reader.offset();
    let Some(field) = Field::read(reader, &IN_ACTION)? else {
        return Err(Fault::unknown(offset, IN_ACTION.field, "field to set of a class that is not known"));
    };
    if field.mask.is_some() {
        return Err(field.fault(IN_ACTION.mask, format!("field {} is set with a mask", field.number)));
    }
    let ipv4 = || field.exact::<4>().map(Ipv4Addr::from);
    match field.number {
        number::ETH_DST => Ok(SetField::EthDst(MacAddr(field.exact()?))),
        number::ETH_SRC => Ok(SetField::EthSrc(MacAddr(field.exact()?))),
        number::VLAN_VID => match field.vlan()? {
            VlanMatch::Id(id) => Ok(SetField::VlanVid(id)),
            _ => Err(field.fault(IN_ACTION.value, "VLAN id to set without OFPVID_PRESENT".to_owned())),
        },
        number::VLAN_PCP => Ok(SetField::VlanPcp(field.u8_up_to(7)?)),
        number::IP_DSCP => Ok(SetField::IpDscp(field.u8_up_to(63)?)),
        number::IP_ECN => Ok(SetField::IpEcn(field.u8_up_to(3)?)),
        number::IPV4_SRC => ipv4().map(SetField::Ipv4Src),
        number::IPV4_DST => ipv4().map(SetField::Ipv4Dst),
        number::TCP_SRC => Ok(SetField::TcpSrc(field.u16()?)),
        number::TCP_DST => Ok(SetField::TcpDst(field.u16()?)),
        number::UDP_SRC => Ok(SetField::UdpSrc(field.u16()?)),
        number::UDP_DST => Ok(SetField::UdpDst(field.u16()?)),
        _ => Err(field.unknown()),
    }
}

/// One field with its header.
fn write_field(writer: &mut Writer<'_>, number: u8, value: &[u8]) {
    writer.u16(BASIC);
    writer.u8(number << 1);
    writer.u8(value.len() as u8);
    writer.bytes(value);
}

/// One field whose mask is left out if it is all ones.
fn write_masked<const N: usize>(
    writer: &mut Writer<'_>,
    number: u8,
    value: [u8; N],
    mask: [u8; N],
) -> Result<(), EncodeError> {
    if mask == [0xff; N] {
        write_field(writer, number, &value);
        return Ok(());
    }
    if (0..N).any(|at| value[at] & !mask[at] != 0) {
        return Err(EncodeError::new(format!("match field {number} has bits that its mask leaves out")));
    }
    writer.u16(BASIC);
    writer.u8(number << 1 | 1);
    writer.u8(2 * N as u8);
    writer.bytes(&value);
    writer.bytes(&mask);
    Ok(())
}

/// One field of less than eight bits.
fn write_small(writer: &mut Writer<'_>, number: u8, value: u8, greatest: u8) -> Result<(), EncodeError> {
    if value > greatest {
        return Err(EncodeError::new(format!("field {number} is {value}, above {greatest}")));
    }
    write_field(writer, number, &[value]);
    Ok(())
}

fn vid(id: u16) -> Result<[u8; 2], EncodeError> {
    if id >= VID_PRESENT {
        return Err(EncodeError::new(format!("VLAN id {id} is above 4095")));
    }
    Ok((VID_PRESENT | id).to_be_bytes())
}

fn write_vlan(writer: &mut Writer<'_>, vlan: VlanMatch) -> Result<(), EncodeError> {
    let present = VID_PRESENT.to_be_bytes();
    match vlan {
        VlanMatch::Untagged => write_field(writer, number::VLAN_VID, &[0, 0]),
        VlanMatch::Tagged => write_masked(writer, number::VLAN_VID, present, present)?,
        VlanMatch::Id(id) => write_field(writer, number::VLAN_VID, &vid(id)?),
    }
    Ok(())
}

/// Writes `ofp_match` with its padding, the fields in the order of their numbers, so that prerequisites come first.
pub(super) fn write_match(writer: &mut Writer<'_>, m: &Match) -> Result<(), EncodeError> {
    let start = writer.start();
    writer.u16(OXM);
    writer.u16(0);
    if let Some(port) = m.in_port {
        write_field(writer, number::IN_PORT, &port.0.to_be_bytes());
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
    for (number, value, greatest) in small {
        if let Some(value) = value {
            write_small(writer, number, value, greatest)?;
        }
    }
    write_ipv4s(writer, &[(number::IPV4_SRC, m.ipv4_src), (number::IPV4_DST, m.ipv4_dst)])?;
    write_u16s(writer, &[(number::TCP_SRC, m.tcp_src), (number::TCP_DST, m.tcp_dst)]);
    write_u16s(writer, &[(number::UDP_SRC, m.udp_src), (number::UDP_DST, m.udp_dst)]);
    for (number, value) in [(number::ICMPV4_TYPE, m.icmpv4_type), (number::ICMPV4_CODE, m.icmpv4_code)] {
        if let Some(value) = value {
            write_field(writer, number, &[value]);
        }
    }
    write_u16s(writer, &[(number::ARP_OP, m.arp_op)]);
    write_ipv4s(writer, &[(number::ARP_SPA, m.arp_spa), (number::ARP_TPA, m.arp_tpa)])?;
    // The length of a match does not count its padding.
    writer.patch_len(start, 2, "a match")?;
    writer.pad_to_8(start);
    Ok(())
}

fn write_u16s(writer: &mut Writer<'_>, fields: &[(u8, Option<u16>)]) {
    for &(number, value) in fields {
        if let Some(value) = value {
            write_field(writer, number, &value.to_be_bytes());
        }
    }
}

fn write_ipv4s(writer: &mut Writer<'_>, fields: &[(u8, Option<Masked<Ipv4Addr>>)]) -> Result<(), EncodeError> {
    for &(number, address) in fields {
        if let Some(Masked { value, mask }) = address {
            write_masked(writer, number, value.octets(), mask.octets())?;
        }
    }
    Ok(())
}

/// Writes the field of a set-field action.
pub(super) fn write_set_field(writer: &mut Writer<'_>, field: SetField) -> Result<(), EncodeError> {
    match field {
        SetField::EthDst(address) => write_field(writer, number::ETH_DST, &address.0),
        SetField::EthSrc(address) => write_field(writer, number::ETH_SRC, &address.0),
        SetField::VlanVid(id) => write_field(writer, number::VLAN_VID, &vid(id)?),
        SetField::VlanPcp(value) => write_small(writer, number::VLAN_PCP, value, 7)?,
        SetField::IpDscp(value) => write_small(writer, number::IP_DSCP, value, 63)?,
        SetField::IpEcn(value) => write_small(writer, number::IP_ECN, value, 3)?,
        SetField::Ipv4Src(address) => write_field(writer, number::IPV4_SRC, &address.octets()),
        SetField::Ipv4Dst(address) => write_field(writer, number::IPV4_DST, &address.octets()),
        SetField::TcpSrc(port) => write_field(writer, number::TCP_SRC, &port.to_be_bytes()),
        SetField::TcpDst(port) => write_field(writer, number::TCP_DST, &port.to_be_bytes()),
        SetField::UdpSrc(port) => write_field(writer, number::UDP_SRC, &port.to_be_bytes()),
        SetField::UdpDst(port) => write_field(writer, number::UDP_DST, &port.to_be_bytes()),
    }
    Ok(())
}
