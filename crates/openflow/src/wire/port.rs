//! Port descriptions (`ofp_port`).

use super::reader::{ReadError, Reader};
use super::writer::Writer;
use crate::address::MacAddr;
use crate::ids::PortNo;
use crate::message::{PortDesc, PortFeatures};

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
    let (config, state) = (reader.u32()?, reader.u32()?);
    let (current, advertised) = (reader.u32()?, reader.u32()?);
    let (supported, peer) = (reader.u32()?, reader.u32()?);
    let (current_speed, max_speed_kbps) = (reader.u32()?, reader.u32()?);
    Ok(PortDesc {
        port,
        hw_addr,
        name,
        is_admin_down: config & PORT_DOWN != 0,
        is_link_down: state & LINK_DOWN != 0,
        speed_kbps: if current_speed == 0 { rate_of(current) } else { current_speed },
        max_speed_kbps,
        features: PortFeatures { current, advertised, supported, peer },
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
    let PortFeatures { current, advertised, supported, peer } = port.features;
    [current, advertised, supported, peer].into_iter().for_each(|bitmap| writer.u32(bitmap));
    writer.u32(port.speed_kbps);
    writer.u32(port.max_speed_kbps);
    Ok(())
}
