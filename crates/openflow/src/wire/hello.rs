//! Version negotiation (`ofp_hello`).

use super::VERSION;
use super::reader::{ReadError, Reader};
use super::writer::Writer;

/// `OFPHET_VERSIONBITMAP`.
const VERSION_BITMAP: u16 = 1;

/// Reads the versions of a hello: those of its bitmap; without a bitmap all up to the version of
/// its header.
pub(super) fn read_hello(version: u8, mut body: Reader<'_>) -> Result<u32, ReadError> {
    match read_bitmap(&mut body) {
        Ok(Some(versions)) => Ok(versions),
        Ok(None) => Ok(up_to(version)),
        // Before 1.3 a hello could contain anything, which receivers ignore.
        Err(_) if version < VERSION => Ok(up_to(version)),
        Err(fault) => Err(fault),
    }
}

/// Returns a bit for each version from 1 to this one.
fn up_to(version: u8) -> u32 {
    let above = 1u64 << (version.min(31) + 1);
    (above - 2) as u32
}

/// Reads the first bitmap among the elements; other elements are for later versions and skipped.
fn read_bitmap(body: &mut Reader<'_>) -> Result<Option<u32>, ReadError> {
    let mut versions = None;
    while !body.is_empty() {
        let (kind, length) = (body.u16()?, usize::from(body.u16()?));
        let Some(content_len) = length.checked_sub(4) else {
            return Err(body.bad_len(format!("element of {length} bytes")));
        };
        let mut content = body.part(content_len)?;
        // Some senders omit the padding at the end.
        let padding = length.next_multiple_of(8) - length;
        body.skip(padding.min(body.len()))?;
        if kind == VERSION_BITMAP && versions.is_none() && content_len >= 4 {
            // Versions above 31 are in the words after the first one.
            versions = Some(content.u32()?);
        }
    }
    Ok(versions)
}

/// Returns the version in the header of a hello: the highest of its sender.
pub(super) fn header_version(versions: u32) -> u8 {
    versions.checked_ilog2().map_or(VERSION, |highest| highest as u8)
}

pub(super) fn write_hello(writer: &mut impl Writer, versions: u32) {
    writer.u16(VERSION_BITMAP);
    writer.u16(8);
    writer.u32(versions);
}
