//! Multipart messages: state and statistics (`ofp_multipart_request`, `ofp_multipart_reply`).

mod flow_monitor;
mod meters;
mod read;
mod request;
mod table_features;
mod write;

pub(super) use flow_monitor::{read_experimenter, write_control};
pub(super) use read::read_reply;
pub(super) use request::{read_request, write_request};
pub(super) use write::write_reply;

/// `OFPMPF_REQ_MORE`, `OFPMPF_REPLY_MORE`.
const MORE: u16 = 1;

mod multipart_type {
    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESC: u16 = 13;
    pub const EXPERIMENTER: u16 = 0xffff;
}
