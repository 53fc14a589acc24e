//! What Open vSwitch, written by others, makes of our bytes, and we of its.

use std::io::ErrorKind::NotFound;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::goldens;

/// Whether a program of Open vSwitch is there. In continuous integration it must be.
pub fn is_installed(program: &str) -> bool {
    match Command::new(program).arg("--version").output() {
        Ok(output) => output.status.success(),
        Err(error) if error.kind() == NotFound => {
            let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!is_ci, "{program} is missing: install Debian's openvswitch-switch (scripts/setup)");
            eprintln!("skipped: {program} is not installed");
            false
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// What `ovs-ofctl ofp-parse` prints of a file of messages: unlike `ofp-print` it takes raw bytes.
fn parse(bytes: &[u8]) -> String {
    let mut child = Command::new("ovs-ofctl")
        .args(["ofp-parse", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

/// What Open vSwitch calls each golden, with a part of its content.
const SHOWN: [(&str, &str, &str); 47] = [
    ("hello", "OFPT_HELLO (OF1.3) (xid=0x1020304)", "version bitmap: 0x04"),
    ("error", "OFPT_ERROR", "OFPFMFC_TABLE_FULL"),
    ("echo request", "OFPT_ECHO_REQUEST", "3 bytes of payload"),
    ("echo reply", "OFPT_ECHO_REPLY", "0 bytes of payload"),
    ("experimenter", "NXT_SET_PACKET_IN_FORMAT", "format=standard"),
    ("features request", "OFPT_FEATURES_REQUEST", ""),
    ("features reply", "OFPT_FEATURES_REPLY", "dpid:00000a0b0c0d0e0f\nn_tables:254, n_buffers:256"),
    ("get config request", "OFPT_GET_CONFIG_REQUEST", ""),
    ("get config reply", "OFPT_GET_CONFIG_REPLY", "frags=normal miss_send_len=128"),
    ("set config", "OFPT_SET_CONFIG", "frags=normal miss_send_len=128"),
    ("barrier request", "OFPT_BARRIER_REQUEST", ""),
    ("barrier reply", "OFPT_BARRIER_REPLY", ""),
    ("role request", "OFPT_ROLE_REQUEST", "generation_id=9"),
    ("role reply", "OFPT_ROLE_REPLY", "role=nochange generation_id=0"),
    ("get async request", "OFPT_GET_ASYNC_REQUEST", ""),
    ("get async reply", "OFPT_GET_ASYNC_REPLY", "FLOW_REMOVED: idle hard delete group_delete"),
    ("set async", "OFPT_SET_ASYNC", "PORT_STATUS: modify"),
    (
        "packet-in",
        "OFPT_PACKET_IN",
        "table_id=3 cookie=0x55 total_len=16 in_port=7 (via action) data_len=16 (unbuffered)",
    ),
    (
        "flow-removed",
        "OFPT_FLOW_REMOVED",
        "dl_dst=02:00:00:00:00:09 reason=hard table_id=1 cookie:0x66 duration2.000000003s idle5 hard10 pkts1000",
    ),
    ("port-status", "OFPT_PORT_STATUS", "MOD: 2(s1-eth2): addr:02:00:00:00:01:02\n     config:     PORT_DOWN"),
    (
        "flow-mod add",
        "OFPT_FLOW_MOD",
        "nw_dst=10.1.0.0/16,tp_dst=53 cookie:0x77 idle:30 send_flow_rem actions=pop_vlan,dec_ttl,\
         set_field:02:00:00:00:00:03->eth_dst,clear_actions,write_actions(group:6),write_metadata:0x1/0xff,goto_table:2",
    ),
    ("flow-mod bundle", "OFPT_FLOW_MOD", "actions=bundle(symmetric_l3l4+udp,77,hrw,ofport,members:1,2,2)"),
    (
        "flow-mod syn",
        "OFPT_FLOW_MOD",
        "priority=530,tcp,nw_dst=10.0.0.1,tp_dst=80,tcp_flags=+syn-ack actions=CONTROLLER",
    ),
    ("flow-mod delete strict", "OFPT_FLOW_MOD", "DEL_STRICT priority=1,arp,arp_spa=10.0.0.1,arp_op=1"),
    ("group-mod", "OFPT_GROUP_MOD", "MOD group_id=6,type=select,bucket=weight:2,watch_port:1,actions=output:1"),
    ("port-mod", "OFPT_PORT_MOD", "port: 2: addr:02:00:00:00:01:02"),
    ("table-mod", "OFPT_TABLE_MOD", "ALL_TABLES"),
    ("packet-out", "OFPT_PACKET_OUT", "actions=push_vlan:0x8100,set_field:4101->vlan_vid,set_queue:1,CONTROLLER:65535"),
    ("desc request", "OFPST_DESC request", ""),
    ("flow request", "OFPST_FLOW request", ""),
    ("aggregate request", "OFPST_AGGREGATE request", "table=0 out_port=3"),
    ("table request", "OFPST_TABLE request", ""),
    ("port request", "OFPST_PORT request", "port_no=ANY"),
    ("group request", "OFPST_GROUP request", "group_id=ALL"),
    ("group-desc request", "OFPST_GROUP_DESC request", ""),
    ("group-features request", "OFPST_GROUP_FEATURES request", ""),
    ("port-desc request", "OFPST_PORT_DESC request", ""),
    ("other request", "OFPST_METER_FEATURES request", ""),
    ("flow reply, more to come", "OFPST_FLOW reply", "duration=5.000000006s, table=1, n_packets=11, n_bytes=12"),
    ("aggregate reply", "OFPST_AGGREGATE reply", "packet_count=1 byte_count=2 flow_count=3"),
    ("table reply", "OFPST_TABLE reply", "active=1, lookup=2, matched=3"),
    ("port reply", "OFPST_PORT reply", "rx pkts=1, bytes=3, drop=5, errs=?"),
    ("group reply", "OFPST_GROUP reply", "ref_count=1,packet_count=2,byte_count=3,bucket0:packet_count=1,byte_count=2"),
    ("group-desc reply", "OFPST_GROUP_DESC reply", "group_id=6,type=ff,bucket=watch_port:1,actions=output:1"),
    ("group-features reply", "OFPST_GROUP_FEATURES reply", "actions: output group"),
    ("port-desc reply", "OFPST_PORT_DESC reply", "LOCAL(s1): addr:02:00:00:00:00:01"),
    ("other reply", "OFPST_METER_FEATURES reply", "max_meter:16 max_bands:1"),
];

#[test]
fn open_vswitch_understands_every_golden() {
    if !is_installed("ovs-ofctl") {
        return;
    }
    let goldens = goldens::all();
    assert_eq!(goldens.len(), SHOWN.len());
    for golden in goldens {
        let printed = parse(&crate::bytes_of(&golden.envelope()));
        let (_, title, content) = SHOWN.iter().find(|(name, ..)| *name == golden.name).expect(golden.name);
        assert!(printed.starts_with(title) && printed.contains(content), "{}: {printed}", golden.name);
        for complaint in ["decode", "OFPBRC", "OFPBMC", "OFPBAC", "OFPBIC", "***"] {
            assert!(!printed.contains(complaint), "{}: {printed}", golden.name);
        }
    }
}
