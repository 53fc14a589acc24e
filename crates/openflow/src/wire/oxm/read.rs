//! Decoding of match fields.

use core::net::Ipv4Addr;

use super::{BASIC, EXPERIMENTER, FOUNDATION, OXM, TCP_FLAGS, VID_BITS, VID_PRESENT, number};
use crate::action::SetField;
use crate::address::MacAddr;
use crate::error::{BadAction, BadMatch, ErrorKind};
use crate::ids::PortNo;
use crate::matching::{Masked, Match, VlanMatch};
use crate::wire::reader::{ReadError, Reader};

/// The treatment of fields that no value represents.
pub(in crate::wire) enum Unknown<'a> {
    /// Refuse the match, which would have another meaning without them.
    Refuse,
    /// Append their bytes here. The message only reports what is the case, so refusing it would lose
    /// the report.
    Keep(&'a mut Vec<u8>),
}

struct Field<'a> {
    offset: usize,
    number: u8,
    value: &'a [u8],
    mask: Option<&'a [u8]>,
    errors: &'static Errors,
}

/// A field that occurs twice, whose first value would be lost.
const DUPLICATE: ErrorKind = ErrorKind::BadMatch(BadMatch::DupField);

/// Matches and actions have different error codes for the same fault.
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
    /// Reads the next field. The outer error is one of its length, the inner one of its content.
    // Inline: copying the result immediately after it was written would stall the processor.
    #[inline(always)]
    fn read(reader: &mut Reader<'a>, errors: &'static Errors) -> Result<Result<Field<'a>, ReadError>, ReadError> {
        let offset = reader.offset();
        let (class, number, length) = (reader.u16()?, reader.u8()?, usize::from(reader.u8()?));
        let mut payload = reader.part(length)?;
        let (owner, length) = match class {
            BASIC => (0, length),
            EXPERIMENTER if length >= 4 && payload.u32()? == FOUNDATION => (number::OF_FOUNDATION, length - 4),
            _ => {
                return Ok(Err(ReadError::new(
                    offset,
                    errors.field,
                    format!("match field of unknown class {class:#06x}"),
                )));
            }
        };
        let has_mask = number & 1 != 0;
        if has_mask && length % 2 != 0 {
            return Ok(Err(ReadError::new(offset, errors.len, format!("value and mask of {length} bytes"))));
        }
        let value = payload.bytes(if has_mask { length / 2 } else { length })?;
        let mask = has_mask.then(|| payload.remainder());
        Ok(Ok(Field { offset, number: owner | number >> 1, value, mask, errors }))
    }

    fn fault(&self, kind: ErrorKind, words: String) -> ReadError {
        ReadError::new(self.offset, kind, words)
    }

    #[inline]
    fn bytes_of<const N: usize>(&self, bytes: &[u8]) -> Result<[u8; N], ReadError> {
        bytes.try_into().map_err(|_| {
            self.fault(self.errors.len, format!("field {} has {} bytes and not {N}", self.number, bytes.len()))
        })
    }

    /// Returns the value with its mask; all ones without a mask.
    #[inline]
    fn masked<const N: usize>(&self) -> Result<([u8; N], [u8; N]), ReadError> {
        let value = self.bytes_of(self.value)?;
        let Some(mask) = self.mask else { return Ok((value, [0xff; N])) };
        let mask = self.bytes_of(mask)?;
        if (0..N).any(|at| value[at] & !mask[at] != 0) {
            let words = format!("field {} has bits that its mask leaves out", self.number);
            return Err(self.fault(self.errors.wildcards, words));
        }
        Ok((value, mask))
    }

    /// Returns the value of a field without masks; a mask of all ones is accepted.
    #[inline]
    fn exact<const N: usize>(&self) -> Result<[u8; N], ReadError> {
        let (value, mask) = self.masked()?;
        if mask == [0xff; N] {
            return Ok(value);
        }
        Err(self.fault(self.errors.mask, format!("field {} cannot be masked", self.number)))
    }

    fn u16(&self) -> Result<u16, ReadError> {
        self.exact().map(u16::from_be_bytes)
    }

    /// Returns a number of less than eight bits.
    fn u8_up_to(&self, max: u8) -> Result<u8, ReadError> {
        let [value] = self.exact()?;
        if value <= max {
            return Ok(value);
        }
        Err(self.fault(self.errors.value, format!("field {} is {value}, above {max}", self.number)))
    }

    fn ethernet(&self) -> Result<Masked<MacAddr>, ReadError> {
        let (value, mask) = self.masked()?;
        Ok(Masked { value: MacAddr(value), mask: MacAddr(mask) })
    }

    fn ipv4(&self) -> Result<Masked<Ipv4Addr>, ReadError> {
        let (value, mask) = self.masked::<4>()?;
        Ok(Masked { value: value.into(), mask: mask.into() })
    }

    /// Returns TCP flags; higher bits are not part of the field, whether or not the mask omits
    /// them.
    fn tcp_flags(&self) -> Result<Masked<u16>, ReadError> {
        let (value, mask) = self.masked()?;
        let (value, mask) = (u16::from_be_bytes(value), u16::from_be_bytes(mask) & TCP_FLAGS);
        if value & !TCP_FLAGS != 0 {
            return Err(self.fault(self.errors.value, format!("control bits of TCP {value:#06x}, above twelve")));
        }
        Ok(Masked { value, mask })
    }

    fn vlan(&self) -> Result<VlanMatch, ReadError> {
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

    fn unknown(&self) -> ReadError {
        ReadError::new(self.offset, self.errors.field, format!("match field {} is not known", self.number))
    }
}

/// A match with its padding that only names a port.
const ONLY_PORT: [u8; 8] = [0, OXM as u8, 0, 12, (BASIC >> 8) as u8, BASIC as u8, number::IN_PORT << 1, 4];

pub(in crate::wire) fn read_match(reader: &mut Reader<'_>, unknown: Unknown<'_>) -> Result<Match, ReadError> {
    // Nearly all packet-ins have this match, so it has a fast path.
    if let Some(bytes) = reader.peek::<16>()
        && bytes[..8] == ONLY_PORT
    {
        reader.skip(16)?;
        let port = PortNo(u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]));
        return Ok(Match { in_port: Some(port), ..Match::default() });
    }
    read_fields(reader, unknown)
}

fn read_fields(reader: &mut Reader<'_>, mut unknown: Unknown<'_>) -> Result<Match, ReadError> {
    let offset = reader.offset();
    let mut reader_ = reader.short_as(IN_MATCH.len);
    let (kind, length) = (reader_.u16()?, usize::from(reader_.u16()?));
    if kind != OXM {
        let kind_error = ErrorKind::BadMatch(BadMatch::BadType);
        return Err(ReadError::new(offset, kind_error, format!("match of type {kind}")));
    }
    let Some(fields_len) = length.checked_sub(4) else {
        return Err(reader_.bad_len(format!("match of {length} bytes")));
    };
    let mut fields = reader_.part(fields_len)?;
    reader_.skip(length.next_multiple_of(8) - length)?;
    reader.skip(reader_.offset() - offset)?;
    let mut found = Match::default();
    while !fields.is_empty() {
        let mut whole = fields;
        let result = match Field::read(&mut fields, &IN_MATCH)? {
            Ok(field) => set(&mut found, &field),
            Err(fault) => Err(fault),
        };
        match (result, &mut unknown) {
            (Ok(()), _) => {}
            (Err(fault), Unknown::Keep(others)) if !fault.is(DUPLICATE) => {
                others.extend(whole.bytes(whole.len() - fields.len())?);
            }
            (Err(fault), _) => return Err(fault),
        }
    }
    Ok(found)
}

fn set(found: &mut Match, field: &Field<'_>) -> Result<(), ReadError> {
    let once = |is_new: bool| {
        if is_new { Ok(()) } else { Err(field.fault(DUPLICATE, format!("match field {} given twice", field.number))) }
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
        number::TCP_FLAGS => once(found.tcp_flags.replace(field.tcp_flags()?).is_none()),
        _ => Err(field.unknown()),
    }
}

pub(in crate::wire) fn read_set_field(reader: &mut Reader<'_>) -> Result<SetField, ReadError> {
    let field = Field::read(reader, &IN_ACTION)??;
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
