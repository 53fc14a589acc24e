//! The features of tables, meters and queues.

use openflow::table_features::table_property;
use openflow::{
    ErrorKind, FeatureId, MeterId, MeterModFailed, MultipartReply, PortNo, QueueId, QueueOpFailed, TableFeatures,
    TableFeaturesFailed, TableId, TableProperty,
};

use crate::Switch;

/// Supported instruction types: go to table, write metadata, write, apply and clear actions.
const INSTRUCTIONS: [u32; 5] = [1, 2, 3, 4, 5];
/// Supported action types: output, push and pop VLAN, group, set field.
const ACTIONS: [u32; 5] = [0, 17, 18, 22, 25];
/// Action types of a switch without groups.
const ACTIONS_WITHOUT_GROUPS: [u32; 4] = [0, 17, 18, 25];
/// Matchable fields, by number and length, one byte each; see `openflow::Match`.
const FIELDS: [u32; 21] = [
    0x0004, 0x0208, 0x0306, 0x0406, 0x0502, 0x0602, 0x0701, 0x0801, 0x0901, 0x0a01, 0x0b04, 0x0c04, 0x0d02, 0x0e02,
    0x0f02, 0x1002, 0x1502, 0x1604, 0x1704, 0x1301, 0x1401,
];
/// Fields that actions can set, by number and length.
const SETTABLE: [u32; 10] = [0x0306, 0x0406, 0x0602, 0x0701, 0x0801, 0x0b04, 0x0c04, 0x0d02, 0x0e02, 0x0f02];

fn property(kind: u16, ids: &[u32]) -> TableProperty {
    TableProperty { kind, ids: ids.iter().copied().map(FeatureId::plain).collect() }
}

/// Returns a property whose elements are headers of match fields (`OFPXMC_OPENFLOW_BASIC`).
fn fields(kind: u16, fields: &[u32]) -> TableProperty {
    let header = |field: &u32| FeatureId::plain(0x8000_0000 | (field >> 8) << 9 | field & 0xff);
    TableProperty { kind, ids: fields.iter().map(header).collect() }
}

impl Switch {
    /// Returns the features of all tables. Changes are refused as by Open vSwitch.
    pub(crate) fn table_features(&self, wanted: &[TableFeatures]) -> Result<Vec<TableFeatures>, ErrorKind> {
        if !wanted.is_empty() {
            return Err(ErrorKind::TableFeaturesFailed(TableFeaturesFailed::Eperm));
        }
        Ok((0..self.config.tables).map(|table| self.features_of(table)).collect())
    }

    fn features_of(&self, table: u8) -> TableFeatures {
        use table_property as kind;
        let actions = if self.config.support.groups { &ACTIONS[..] } else { &ACTIONS_WITHOUT_GROUPS };
        let later: Vec<u32> = (table + 1..self.config.tables).map(u32::from).collect();
        // The variants for table misses are omitted: they are the same.
        let properties = vec![
            property(kind::INSTRUCTIONS, &INSTRUCTIONS),
            property(kind::NEXT_TABLES, &later),
            property(kind::WRITE_ACTIONS, actions),
            property(kind::APPLY_ACTIONS, actions),
            fields(kind::MATCH, &FIELDS),
            fields(kind::WILDCARDS, &FIELDS),
            fields(kind::WRITE_SETFIELD, &SETTABLE),
            fields(kind::APPLY_SETFIELD, &SETTABLE),
        ];
        TableFeatures {
            table: TableId(table),
            name: format!("table{table}"),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: 0,
            max_entries: self.config.max_entries,
            properties,
        }
    }

    /// Returns `empty` for all meters; every single one is unknown, because the switch has no meters.
    pub(crate) fn meters(wanted: MeterId, empty: MultipartReply) -> Result<MultipartReply, ErrorKind> {
        match wanted {
            MeterId::ALL => Ok(empty),
            _ => Err(ErrorKind::MeterModFailed(MeterModFailed::UnknownMeter)),
        }
    }

    /// Returns the statistics of no queue: ports have a single one, which has no number.
    pub(crate) fn queues(&self, port: PortNo, queue: QueueId) -> Result<MultipartReply, ErrorKind> {
        let failed = |why| Err(ErrorKind::QueueOpFailed(why));
        match (port, queue) {
            (port, _) if port != PortNo::ANY && self.ports.get(port).is_none() => failed(QueueOpFailed::BadPort),
            (_, QueueId::ALL) => Ok(MultipartReply::Queue(Vec::new())),
            _ => failed(QueueOpFailed::BadQueue),
        }
    }
}
