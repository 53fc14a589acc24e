//! Strategies for multipart messages about queues, meters, features of tables and flow monitors.

use anabranch_openflow::table_features::table_property;
use anabranch_openflow::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::parts::{bytes, duration, instructions, match_, port, table, text};

fn meter() -> impl Strategy<Value = MeterId> {
    any::<u32>().prop_map(MeterId)
}

fn band() -> impl Strategy<Value = MeterBand> {
    let kind = prop_oneof![Just(MeterBandKind::Drop), any::<u8>().prop_map(MeterBandKind::DscpRemark)];
    (any::<(u32, u32)>(), kind).prop_map(|((rate, burst), kind)| MeterBand { rate, burst, kind })
}

prop_compose! {
    fn meter_stats()(
        (meter, duration_ns, bands) in (meter(), duration(), vec(any::<(u64, u64)>(), 0..4)),
        (flows, packets, bytes) in any::<(u32, u64, u64)>(),
    ) -> MeterStats {
        MeterStats { meter, flows, packets, bytes, duration_ns, bands }
    }
}

prop_compose! {
    fn queue_stats()(
        (port, queue, duration_ns) in (port(), any::<u32>(), duration()),
        (tx_bytes, tx_packets, tx_errors) in any::<(u64, u64, u64)>(),
    ) -> QueueStats {
        QueueStats { port, queue: QueueId(queue), tx_bytes, tx_packets, tx_errors, duration_ns }
    }
}

fn property() -> impl Strategy<Value = TableProperty> {
    use table_property as p;
    let plain = |kinds: std::ops::Range<u16>, ids: std::ops::Range<u32>| {
        (kinds, vec(ids.prop_map(FeatureId::plain), 0..6)).prop_map(|(kind, ids)| TableProperty { kind, ids })
    };
    let types = |kinds: std::ops::Range<u16>| {
        let experimenter = any::<u32>().prop_map(|id| FeatureId { id: 0xffff, experimenter: Some(id) });
        let id = prop_oneof![(0..0xffffu32).prop_map(FeatureId::plain), experimenter];
        (kinds, vec(id, 0..6)).prop_map(|(kind, ids)| TableProperty { kind, ids })
    };
    let experimenter = any::<(u16, u32)>()
        .prop_map(|(field, id)| FeatureId { id: 0xffff_0000 | u32::from(field), experimenter: Some(id) });
    let fields = vec(prop_oneof![(0..0xffff_0000u32).prop_map(FeatureId::plain), experimenter], 0..6);
    prop_oneof![
        plain(p::NEXT_TABLES..p::WRITE_ACTIONS, 0..256),
        types(p::INSTRUCTIONS..p::NEXT_TABLES),
        types(p::WRITE_ACTIONS..p::MATCH),
        (prop_oneof![Just(p::MATCH), Just(p::WILDCARDS), p::WRITE_SETFIELD..16u16], fields)
            .prop_map(|(kind, ids)| TableProperty { kind, ids }),
    ]
}

prop_compose! {
    fn features_of_table()(
        (table, name, properties) in (table(), text(32), vec(property(), 0..6)),
        (metadata_match, metadata_write, config, max_entries) in any::<(u64, u64, u32, u32)>(),
    ) -> TableFeatures {
        TableFeatures { table, name, metadata_match, metadata_write, config, max_entries, properties }
    }
}

prop_compose! {
    fn monitor()(
        (id, out_port, table, match_) in (any::<u32>(), port(), table(), match_()),
        [initial, add, delete, modify, instructions, own] in any::<[bool; 6]>(),
    ) -> FlowMonitorRequest {
        let flags = FlowMonitorFlags { initial, add, delete, modify, instructions, own };
        FlowMonitorRequest { id, flags, out_port, table, match_ }
    }
}

prop_compose! {
    fn change()(
        event in prop_oneof![
            Just(FlowEvent::Added),
            Just(FlowEvent::Modified),
            super::removed_reason().prop_map(FlowEvent::Deleted),
        ],
        (table, match_, instructions) in (table(), match_(), instructions()),
        (priority, idle_timeout_s, hard_timeout_s, cookie) in any::<(u16, u16, u16, u64)>(),
    ) -> FlowChange {
        FlowChange { event, table, priority, idle_timeout_s, hard_timeout_s, cookie, match_, instructions }
    }
}

fn update() -> impl Strategy<Value = FlowUpdate> {
    prop_oneof![
        3 => change().prop_map(FlowUpdate::Full),
        1 => any::<u32>().prop_map(|xid| FlowUpdate::Abbreviated(Xid(xid))),
    ]
}

pub fn monitor_control() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<u32>().prop_map(FlowMonitorControl::Cancel),
        Just(FlowMonitorControl::Paused),
        Just(FlowMonitorControl::Resumed),
    ]
    .prop_map(Message::FlowMonitor)
}

pub fn request() -> impl Strategy<Value = MultipartRequest> {
    let experimenter = (any::<(u32, u32)>(), bytes());
    prop_oneof![
        (port(), any::<u32>()).prop_map(|(port, queue)| MultipartRequest::Queue { port, queue: QueueId(queue) }),
        meter().prop_map(MultipartRequest::Meter),
        meter().prop_map(MultipartRequest::MeterConfig),
        Just(MultipartRequest::MeterFeatures),
        vec(features_of_table(), 0..3).prop_map(MultipartRequest::TableFeatures),
        vec(monitor(), 0..3).prop_map(MultipartRequest::FlowMonitor),
        experimenter.prop_map(|((experimenter, kind), data)| MultipartRequest::Experimenter {
            experimenter,
            kind,
            data
        }),
    ]
}

pub fn reply() -> impl Strategy<Value = MultipartReply> {
    let config = (meter(), any::<u16>(), vec(band(), 0..4));
    let experimenter = (any::<(u32, u32)>(), bytes());
    prop_oneof![
        vec(queue_stats(), 0..4).prop_map(MultipartReply::Queue),
        vec(meter_stats(), 0..4).prop_map(MultipartReply::Meter),
        vec(config.prop_map(|(meter, flags, bands)| MeterConfig { meter, flags, bands }), 0..4)
            .prop_map(MultipartReply::MeterConfig),
        any::<(u32, u32, u32, u8, u8)>().prop_map(|(max_meters, band_types, capabilities, max_bands, max_color)| {
            MultipartReply::MeterFeatures(MeterFeatures { max_meters, band_types, capabilities, max_bands, max_color })
        }),
        vec(features_of_table(), 0..3).prop_map(MultipartReply::TableFeatures),
        vec(update(), 0..4).prop_map(MultipartReply::FlowMonitor),
        experimenter.prop_map(|((experimenter, kind), data)| MultipartReply::Experimenter { experimenter, kind, data }),
    ]
}
