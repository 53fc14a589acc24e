//! Features of tables (`ofp_table_features`).

use crate::error::{ErrorKind, TableFeaturesFailed};
use crate::ids::TableId;
use crate::table_features::{FeatureId, TableFeatures, TableProperty, table_property};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

/// Bytes of a name with its zero (`OFP_MAX_TABLE_NAME_LEN`).
const NAME_LEN: usize = 32;
/// Type of the instructions and actions of experimenters.
const EXPERIMENTER_TYPE: u32 = 0xffff;
/// Class of the match fields of experimenters, in the upper half of a header.
const EXPERIMENTER_CLASS: u32 = 0xffff;

/// The form of the elements of a property.
#[derive(Clone, Copy)]
enum Form {
    Tables,
    /// Instructions or actions: type and length, then the experimenter.
    Types,
    /// Headers of match fields, without values and masks.
    Fields,
}

fn form_of(kind: u16) -> Option<Form> {
    use table_property as p;
    match kind {
        p::NEXT_TABLES | p::NEXT_TABLES_MISS => Some(Form::Tables),
        p::INSTRUCTIONS..=p::INSTRUCTIONS_MISS | p::WRITE_ACTIONS..=p::APPLY_ACTIONS_MISS => Some(Form::Types),
        p::MATCH | p::WILDCARDS | p::WRITE_SETFIELD..=p::APPLY_SETFIELD_MISS => Some(Form::Fields),
        _ => None,
    }
}

pub(super) fn read_table_features(record: Reader<'_>) -> Result<TableFeatures, ReadError> {
    let mut record = record.short_as(ErrorKind::TableFeaturesFailed(TableFeaturesFailed::BadLen));
    record.skip(2)?;
    let table = TableId(record.u8()?);
    record.skip(5)?;
    let name = record.string::<NAME_LEN>()?;
    let (metadata_match, metadata_write) = (record.u64()?, record.u64()?);
    let (config, max_entries) = (record.u32()?, record.u32()?);
    let mut properties = Vec::new();
    while !record.is_empty() {
        properties.push(read_property(&mut record)?);
    }
    Ok(TableFeatures { table, name, metadata_match, metadata_write, config, max_entries, properties })
}

fn read_property(record: &mut Reader<'_>) -> Result<TableProperty, ReadError> {
    let offset = record.offset();
    let (kind, length) = (record.u16()?, usize::from(record.u16()?));
    let Some(ids_len) = length.checked_sub(4) else {
        return Err(record.bad_len(format!("property of {length} bytes")));
    };
    let mut body = record.part(ids_len)?;
    // The padding of the last property may be missing.
    record.skip((length.next_multiple_of(8) - length).min(record.len()))?;
    let Some(form) = form_of(kind) else {
        let error = ErrorKind::TableFeaturesFailed(TableFeaturesFailed::BadType);
        return Err(ReadError::new(offset, error, format!("property of type {kind}")));
    };
    let mut ids = Vec::new();
    while !body.is_empty() {
        ids.push(read_id(&mut body, form)?);
    }
    Ok(TableProperty { kind, ids })
}

fn read_id(body: &mut Reader<'_>, form: Form) -> Result<FeatureId, ReadError> {
    match form {
        Form::Tables => Ok(FeatureId::plain(u32::from(body.u8()?))),
        Form::Fields => {
            let id = body.u32()?;
            let experimenter = if id >> 16 == EXPERIMENTER_CLASS { Some(body.u32()?) } else { None };
            Ok(FeatureId { id, experimenter })
        }
        Form::Types => {
            let (id, length) = (u32::from(body.u16()?), body.u16()?);
            match (id, length) {
                (EXPERIMENTER_TYPE, 8) => Ok(FeatureId { id, experimenter: Some(body.u32()?) }),
                (0..EXPERIMENTER_TYPE, 4) => Ok(FeatureId::plain(id)),
                _ => Err(body.bad_len(format!("type {id} of {length} bytes"))),
            }
        }
    }
}

pub(super) fn write_table_features<W: Writer>(writer: &mut W, table: &TableFeatures) -> Result<(), W::Error> {
    let start = writer.len();
    writer.zeros(2);
    writer.u8(table.table.0);
    writer.zeros(5);
    writer.string(&table.name, NAME_LEN, "the name of a table")?;
    writer.u64(table.metadata_match);
    writer.u64(table.metadata_write);
    writer.u32(table.config);
    writer.u32(table.max_entries);
    table.properties.iter().try_for_each(|property| write_property(writer, property))?;
    writer.patch_len(start, 0, "the features of a table")
}

fn write_property<W: Writer>(writer: &mut W, property: &TableProperty) -> Result<(), W::Error> {
    let start = writer.len();
    writer.u16(property.kind);
    writer.zeros(2);
    let form = form_of(property.kind);
    writer.check(form.is_some(), || format!("a property of a table has the unknown type {}", property.kind))?;
    let form = form.unwrap_or(Form::Tables);
    property.ids.iter().try_for_each(|id| write_id(writer, form, id))?;
    writer.patch_len(start, 2, "a property of a table")?;
    writer.pad_to_8(start);
    Ok(())
}

fn write_id<W: Writer>(writer: &mut W, form: Form, element: &FeatureId) -> Result<(), W::Error> {
    let FeatureId { id, experimenter } = *element;
    let is_valid = match form {
        Form::Tables => id <= 0xff && experimenter.is_none(),
        Form::Types => id <= EXPERIMENTER_TYPE && experimenter.is_some() == (id == EXPERIMENTER_TYPE),
        Form::Fields => experimenter.is_some() == (id >> 16 == EXPERIMENTER_CLASS),
    };
    writer.check(is_valid, || format!("{element:?} cannot be an element of this property of a table"))?;
    match form {
        Form::Tables => writer.u8(id as u8),
        Form::Fields => writer.u32(id),
        Form::Types => {
            writer.u16(id as u16);
            writer.u16(if experimenter.is_some() { 8 } else { 4 });
        }
    }
    if let Some(experimenter) = experimenter {
        writer.u32(experimenter);
    }
    Ok(())
}
