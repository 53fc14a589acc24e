//! Features, configuration, roles and asynchronous configuration.

use super::reader::{ReadError, Reader};
use super::writer::Writer;
use crate::error::{ErrorKind, RoleRequestFailed};
use crate::ids::DatapathId;
use crate::message::{AsyncConfig, ControllerRole, Features, Role, SwitchConfig};

const ROLES: [ControllerRole; 4] =
    [ControllerRole::NoChange, ControllerRole::Equal, ControllerRole::Master, ControllerRole::Slave];

pub(super) fn read_features(mut body: Reader<'_>) -> Result<Features, ReadError> {
    let (datapath, buffers) = (DatapathId(body.u64()?), body.u32()?);
    let (tables, auxiliary) = (body.u8()?, body.u8()?);
    body.skip(2)?;
    let capabilities = body.u32()?;
    // Reserved.
    body.skip(4)?;
    body.end()?;
    Ok(Features { datapath, buffers, tables, auxiliary, capabilities })
}

pub(super) fn write_features(writer: &mut impl Writer, features: &Features) {
    writer.u64(features.datapath.0);
    writer.u32(features.buffers);
    writer.u8(features.tables);
    writer.u8(features.auxiliary);
    writer.zeros(2);
    writer.u32(features.capabilities);
    writer.zeros(4);
}

pub(super) fn read_config(mut body: Reader<'_>) -> Result<SwitchConfig, ReadError> {
    let config = SwitchConfig { flags: body.u16()?, miss_send_len: body.u16()? };
    body.end()?;
    Ok(config)
}

pub(super) fn write_config(writer: &mut impl Writer, config: SwitchConfig) {
    writer.u16(config.flags);
    writer.u16(config.miss_send_len);
}

pub(super) fn read_role(mut body: Reader<'_>) -> Result<Role, ReadError> {
    let offset = body.offset();
    let number = body.u32()?;
    body.skip(4)?;
    let generation = body.u64()?;
    body.end()?;
    let error = ErrorKind::RoleRequestFailed(RoleRequestFailed::BadRole);
    let role = Reader::known(offset, number, &ROLES, error, "role")?;
    Ok(Role { role, generation })
}

pub(super) fn write_role(writer: &mut impl Writer, role: Role) {
    writer.u32(role.role as u32);
    writer.zeros(4);
    writer.u64(role.generation);
}

pub(super) fn read_async(mut body: Reader<'_>) -> Result<AsyncConfig, ReadError> {
    let mut of_each_role = || Ok([body.u32()?, body.u32()?]);
    let config =
        AsyncConfig { packet_in: of_each_role()?, port_status: of_each_role()?, flow_removed: of_each_role()? };
    body.end()?;
    Ok(config)
}

pub(super) fn write_async(writer: &mut impl Writer, config: &AsyncConfig) {
    let words = config.packet_in.iter().chain(&config.port_status).chain(&config.flow_removed);
    words.for_each(|&word| writer.u32(word));
}
