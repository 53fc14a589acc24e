//! The features of flow tables.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `ofp_table_features`")]

use crate::ids::TableId;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableFeatures {
    pub table: TableId,
    /// Name, at most 31 bytes.
    pub name: String,
    /// Bits of the metadata that entries can match.
    pub metadata_match: u64,
    /// Bits of the metadata that entries can write.
    pub metadata_write: u64,
    /// Configuration bits; all are deprecated in 1.3.
    pub config: u32,
    pub max_entries: u32,
    /// Properties in the order of the switch.
    pub properties: Vec<TableProperty>,
}

/// A property of a table: a set of instructions, tables, actions or match fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableProperty {
    /// Type: one of [`table_property`], without those of experimenters.
    pub kind: u16,
    pub ids: Vec<FeatureId>,
}

/// An element of a [`TableProperty`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FeatureId {
    /// Type of an instruction or action, header of a match field, or number of a table.
    pub id: u32,
    /// Experimenter of the instruction, action or match field; `None` if it is of the specification.
    pub experimenter: Option<u32>,
}

impl FeatureId {
    /// Returns an element that the specification defines.
    pub const fn plain(id: u32) -> FeatureId {
        FeatureId { id, experimenter: None }
    }
}

/// Types of properties (`ofp_table_feature_prop_type`). The odd one of each pair is about the
/// table-miss entry; a table without it treats that entry like the others.
pub mod table_property {
    pub const INSTRUCTIONS: u16 = 0;
    pub const INSTRUCTIONS_MISS: u16 = 1;
    pub const NEXT_TABLES: u16 = 2;
    pub const NEXT_TABLES_MISS: u16 = 3;
    pub const WRITE_ACTIONS: u16 = 4;
    pub const WRITE_ACTIONS_MISS: u16 = 5;
    pub const APPLY_ACTIONS: u16 = 6;
    pub const APPLY_ACTIONS_MISS: u16 = 7;
    pub const MATCH: u16 = 8;
    pub const WILDCARDS: u16 = 10;
    pub const WRITE_SETFIELD: u16 = 12;
    pub const WRITE_SETFIELD_MISS: u16 = 13;
    pub const APPLY_SETFIELD: u16 = 14;
    pub const APPLY_SETFIELD_MISS: u16 = 15;
}
