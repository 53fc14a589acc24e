//! The flows of one run as fixed-width numbers, kept with the records until all runs have ended.

use std::io;

use crate::results::flow_row::{FlowRow, RowEnd};

/// 64-bit little-endian numbers per flow.
const FIELDS: usize = 17;
/// Marks a missing quantity; no time or ratio has these bits (a NaN).
const NONE: u64 = u64::MAX;

pub(super) fn encode(rows: &[FlowRow]) -> Vec<u8> {
    let optional = |value: Option<f64>| value.map_or(NONE, f64::to_bits);
    let mut bytes = Vec::with_capacity(rows.len() * FIELDS * 8);
    for row in rows {
        let fields: [u64; FIELDS] = [
            row.flow.into(),
            row.src.into(),
            row.dst.into(),
            row.size_bytes,
            row.group.into(),
            optional(row.start_us),
            row.end as u64,
            optional(row.fct_us),
            optional(row.sender_fct_us),
            row.ideal_us.to_bits(),
            optional(row.slowdown),
            row.delivered_bytes,
            row.packets.into(),
            row.retransmitted.into(),
            row.timeouts.into(),
            row.reordered.into(),
            row.path_changes.into(),
        ];
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
    }
    bytes
}

pub(super) fn decode(bytes: &[u8], like: &FlowRow) -> io::Result<Vec<FlowRow>> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "the file is truncated or damaged; remove it");
    let rows = bytes.chunks_exact(FIELDS * 8);
    if !rows.remainder().is_empty() {
        return Err(broken());
    }
    rows.map(|row| {
        let field = |ix: usize| {
            let bytes: [u8; 8] = row[ix * 8..ix * 8 + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let small = |ix: usize| u32::try_from(field(ix)).map_err(|_| broken());
        let optional = |ix: usize| Some(field(ix)).filter(|bits| *bits != NONE).map(f64::from_bits);
        let ends = [RowEnd::Completed, RowEnd::Failed, RowEnd::Running, RowEnd::NotStarted];
        Ok(FlowRow {
            flow: small(0)?,
            src: small(1)?,
            dst: small(2)?,
            size_bytes: field(3),
            group: small(4)?,
            start_us: optional(5),
            end: ends.into_iter().find(|end| *end as u64 == field(6)).ok_or_else(broken)?,
            fct_us: optional(7),
            sender_fct_us: optional(8),
            ideal_us: f64::from_bits(field(9)),
            slowdown: optional(10),
            delivered_bytes: field(11),
            packets: small(12)?,
            retransmitted: small(13)?,
            timeouts: small(14)?,
            reordered: small(15)?,
            path_changes: small(16)?,
            ..like.clone()
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_equal_and_damage_is_an_error() {
        let row = FlowRow {
            run: 3,
            balancer: "ecmp".into(),
            load: Some(0.5),
            variant: "".into(),
            seed: 9,
            flow: 1,
            src: 2,
            dst: 3,
            size_bytes: 10_000,
            group: 0,
            start_us: Some(0.0),
            end: RowEnd::Running,
            fct_us: None,
            sender_fct_us: Some(4.5),
            ideal_us: 10.25,
            slowdown: None,
            delivered_bytes: 7,
            packets: 8,
            retransmitted: 1,
            timeouts: 0,
            reordered: 2,
            path_changes: 5,
        };
        let bytes = encode(&[row.clone(), row.clone()]);
        assert_eq!(decode(&bytes, &row).unwrap(), [row.clone(), row.clone()]);
        assert!(decode(&bytes[..bytes.len() - 3], &row).is_err());
        assert!(decode(&[0xff; FIELDS * 8], &row).is_err());
    }
}
