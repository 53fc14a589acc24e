//! Replies about table and meter features, which `switch` does not implement: controllers request
//! them when a switch connects.

pub const METER_FEATURES: u16 = 11;
pub const TABLE_FEATURES: u16 = 12;

/// Supported instruction types: go to table, write metadata, write, apply and clear actions.
const INSTRUCTIONS: [u16; 5] = [1, 2, 3, 4, 5];
/// Supported action types: output, push and pop VLAN, group, set field.
const ACTIONS: [u16; 5] = [0, 17, 18, 22, 25];
/// Matchable fields, by number and length, one byte each; see `openflow::Match`.
const FIELDS: [u16; 21] = [
    0x0004, 0x0208, 0x0306, 0x0406, 0x0502, 0x0602, 0x0701, 0x0801, 0x0901, 0x0a01, 0x0b04, 0x0c04, 0x0d02, 0x0e02,
    0x0f02, 0x1002, 0x1502, 0x1604, 0x1704, 0x1301, 0x1401,
];
/// Settable fields, likewise.
const SETTABLE: [u16; 10] = [0x0306, 0x0406, 0x0602, 0x0701, 0x0801, 0x0b04, 0x0c04, 0x0d02, 0x0e02, 0x0f02];

pub fn meters() -> Vec<u8> {
    vec![0; 16]
}

/// Returns the `ofp_table_features` of one table (specification 7.3.5.5).
pub fn table(table: u8, tables: u8, max_entries: u32) -> Vec<u8> {
    let mut out = vec![0; 64];
    out[2] = table;
    let name = format!("table{table}");
    out[8..8 + name.len()].copy_from_slice(name.as_bytes());
    // All bits of the metadata can be matched and written.
    out[40..56].fill(0xff);
    out[60..64].copy_from_slice(&max_entries.to_be_bytes());
    let next: Vec<u8> = (table + 1..tables).collect();
    let with_lengths = |types: &[u16]| -> Vec<u8> {
        types.iter().flat_map(|kind| [kind.to_be_bytes(), 4u16.to_be_bytes()].concat()).collect()
    };
    let fields = |fields: &[u16]| -> Vec<u8> {
        fields.iter().map(|field| field.to_be_bytes()).flat_map(|[field, len]| [0x80, 0x00, field << 1, len]).collect()
    };
    // Instructions, next tables, write actions, apply actions, match, wildcards, write and apply
    // set-field. The variants for table misses are omitted: they are the same.
    let properties = [
        (0, with_lengths(&INSTRUCTIONS)),
        (2, next),
        (4, with_lengths(&ACTIONS)),
        (6, with_lengths(&ACTIONS)),
        (8, fields(&FIELDS)),
        (10, fields(&FIELDS)),
        (12, fields(&SETTABLE)),
        (14, fields(&SETTABLE)),
    ];
    for (kind, body) in properties {
        let len = 4 + body.len();
        out.extend_from_slice(&u16::to_be_bytes(kind));
        out.extend_from_slice(&(len as u16).to_be_bytes());
        out.extend_from_slice(&body);
        out.resize(out.len() + len.next_multiple_of(8) - len, 0);
    }
    let len = out.len() as u16;
    out[0..2].copy_from_slice(&len.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_features_consist_of_complete_properties() {
        for number in [0, 3] {
            let bytes = table(number, 4, 1_000);
            assert_eq!(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), bytes.len());
            assert_eq!((bytes[2], &bytes[60..64]), (number, &1_000u32.to_be_bytes()[..]));
            let (mut at, mut kinds) = (64, Vec::new());
            while at < bytes.len() {
                kinds.push(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
                let len = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
                assert!(len >= 4);
                at += len.next_multiple_of(8);
            }
            assert_eq!((at, kinds), (bytes.len(), vec![0, 2, 4, 6, 8, 10, 12, 14]));
        }
    }
}
