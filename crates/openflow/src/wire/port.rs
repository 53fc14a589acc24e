//! Port descriptions (`ofp_port`).

use super::reader::{ReadError, Reader};
use super::writer::Writer;
use crate::address::MacAddr;
use crate::ids::PortNo;
use crate::message::PortDesc;

/// `OFPPC_PORT_DOWN`.
const PORT_DOWN: u32 = 1;
/// `OFPPS_LINK_DOWN`.
const LINK_DOWN: u32 = 1;
/// `OFPPS_LIVE`.
const LIVE: u32 = 1 << 2;
/// Bytes of a name with its zero (`OFP_MAX_PORT_NAME_LEN`).
const NAME_LEN: usize = 16;

/// Rates of the bits of `ofp_port_features` in kbit/s; the first two bits of each are half and full
/// duplex.
const RATES: [(u32, u32); 7] = [
    (0b11, 10_000),
    (0b11 << 2, 100_000),
    (0b11 << 4, 1_000_000),
    (1 << 6, 10_000_000),
    (1 << 7, 40_000_000),
    (1 << 8, 100_000_000),
    (1 << 9, 1_000_000_000),
];

pub(super) fn read_port(reader: &mut Reader<'_>) -> Result<PortDesc, ReadError> {
    let port = PortNo(reader.u32()?);
    reader.skip(4)?;
    let hw_addr = MacAddr(reader.array()?);
    reader.skip(2)?;
    let name = reader.string::<NAME_LEN>()?;
    let (config, state, current) = (reader.u32()?, reader.u32()?, reader.u32()?);
    // Advertised, supported and peer features.
    reader.skip(3 * 4)?;
    let current_speed = reader.u32()?;
    // Maximum rate.
    reader.skip(4)?;
    Ok(PortDesc {
        port,
        hw_addr,
        name,
        is_admin_down: config & PORT_DOWN != 0,
        is_link_down: state & LINK_DOWN != 0,
        speed_kbps: if current_speed == 0 { rate_of(current) } else { current_speed },
    })
}

/// Returns the rate of feature bits; 0 if no bit is set.
fn rate_of(features: u32) -> u32 {
    RATES.iter().rev().find(|(bits, _)| features & bits != 0).map_or(0, |&(_, rate)| rate)
}

pub(super) fn write_port<W: Writer>(writer: &mut W, port: &PortDesc) -> Result<(), W::Error> {
    writer.u32(port.port.0);
    writer.zeros(4);
    writer.bytes(&port.hw_addr.0);
    writer.zeros(2);
    writer.string(&port.name, NAME_LEN, "the name of a port")?;
    writer.u32(if port.is_admin_down { PORT_DOWN } else { 0 });
    let link = if port.is_link_down { LINK_DOWN } else { 0 };
    writer.u32(link | if port.is_live() { LIVE } else { 0 });
    writer.zeros(4 * 4);
    writer.u32(port.speed_kbps);
    writer.zeros(4);
    Ok(())
}
