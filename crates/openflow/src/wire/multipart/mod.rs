//! Multipart messages: state and statistics (`ofp_multipart_request`, `ofp_multipart_reply`).

mod read;
mod request;
mod write;

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
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const PORT_DESC: u16 = 13;
}
