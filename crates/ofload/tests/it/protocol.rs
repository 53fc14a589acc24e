//! Protocol behaviour of the emulated switches.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::{Behaviour, Controller, ONE, measure_one, star as star_of, start};
use anabranch_ofload::{Error, Load, Options, Report, Shape};
use openflow::{
    BadRequest, Bucket, ControllerRole, ErrorKind, FlowMod, FlowSelection, GroupId, GroupKind, GroupMod,
    GroupModCommand, Instructions, Match, Message, MultipartReply, MultipartRequest, PortNo, Role, TableId,
};

fn run(controller: &Controller, shape: Shape) -> Result<Report, Error> {
    let handshake = Duration::from_millis(800);
    measure_one(Options { shape, handshake, ..star_of(controller, 1, 3, Load::Window(1)) }, ONE)
}

fn star(switches: u32) -> Shape {
    Shape::Star { switches, hosts: 3 }
}

#[test]
fn missing_controller_is_named() {
    let controller = start(Behaviour::Closes);
    let unused = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let error = run(&Controller { address: unused, ..controller }, star(2)).unwrap_err();
    assert!(matches!(error, Error::Lost { .. } | Error::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&unused.to_string()) && error.to_string().contains("refused"), "{error}");
}

#[test]
fn closing_and_silent_controllers_distinguished() {
    let closed = run(&start(Behaviour::Closes), star(2)).unwrap_err();
    assert!(closed.to_string().contains("lost its connection"), "{closed}");
    let silent = run(&start(Behaviour::Silent), star(2)).unwrap_err();
    assert!(matches!(silent, Error::Silent { silent: 2, switches: 2, .. }), "{silent}");
}

#[test]
fn garbage_closes_connection_with_reason() {
    // An HTTP server; an impossible length; OpenFlow 1.0 without a bitmap; 1.3 features in place of
    // a hello, then noise.
    let cases: [&[u8]; 4] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[4, 0, 0, 3, 0, 0, 0, 0],
        &[1, 0, 0, 8, 0, 0, 0, 1],
        &[4, 5, 0, 8, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ];
    for bytes in cases {
        // Constant slices, which the controller's thread can keep.
        let outcome = run(&start(Behaviour::SendsBytes(bytes)), star(1));
        assert!(matches!(outcome, Err(Error::Lost { .. } | Error::Silent { .. })), "{bytes:?}: {outcome:?}");
    }
}

#[test]
fn lost_connection_counted_and_others_continue() {
    let controller = start(Behaviour::ClosesAfter(20));
    let error = run(&controller, star(1)).unwrap_err();
    assert!(matches!(error, Error::Lost { switch: 1, .. }), "{error}");
}

fn requests() -> Vec<Message> {
    vec![
        Message::GetConfigRequest,
        Message::RoleRequest(Role { role: ControllerRole::Master, generation: 1 }),
        Message::MultipartRequest(MultipartRequest::Desc),
        Message::MultipartRequest(MultipartRequest::PortDesc),
        Message::MultipartRequest(MultipartRequest::GroupFeatures),
        Message::MultipartRequest(MultipartRequest::MeterFeatures),
        Message::MultipartRequest(MultipartRequest::TableFeatures(vec![])),
        Message::GroupMod(GroupMod {
            command: GroupModCommand::Add,
            kind: GroupKind::Indirect,
            group: GroupId(7),
            buckets: vec![Bucket { watch_port: PortNo::ANY, ..Bucket::watching(PortNo(1), 0) }],
        }),
        Message::MultipartRequest(MultipartRequest::GroupDesc),
        Message::FlowMod(FlowMod::add(TableId(0), 5, Match::default(), Instructions::default())),
        Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all())),
        Message::BarrierRequest,
        Message::EchoRequest(b"hello".to_vec()),
        Message::Experimenter { experimenter: 0x1234, kind: 1, data: vec![1, 2, 3, 4] },
    ]
}

#[test]
fn handshake_requests_all_answered() {
    let controller = start(Behaviour::Requests(requests));
    let report = run(&controller, star(1)).unwrap();
    assert!(report.counts.answered > 10 && report.counts.unanswered == 0, "{report:?}");
    let refusals: Vec<(&str, u64)> = report.refusals.iter().map(|(error, count)| (error.as_str(), *count)).collect();
    assert_eq!(refusals, [("BadRequest(BadExperimenter) (message type 4)", 1)]);
    let heard = controller.heard.lock().unwrap();
    let has = |is: &dyn Fn(&Message) -> bool| assert!(heard.iter().any(is), "{heard:?}");
    has(&|m| matches!(m, Message::FeaturesReply(features) if features.datapath.0 == 1 && features.tables == 16));
    has(&|m| matches!(m, Message::GetConfigReply(_)));
    has(&|m| matches!(m, Message::RoleReply(Role { role: ControllerRole::Master, generation: 1 })));
    has(&|m| matches!(m, Message::EchoReply(data) if data == b"hello"));
    has(&|m| matches!(m, Message::BarrierReply));
    let refusal = ErrorKind::BadRequest(BadRequest::BadExperimenter);
    // The error contains the start of the rejected message: version, type and experimenter id.
    has(&|m| matches!(m, Message::Error { kind, data } if *kind == refusal && data[..2] == [4, 4] && data.len() == 20));
    let replies: Vec<&MultipartReply> = heard
        .iter()
        .filter_map(|message| match message {
            Message::MultipartReply { reply, .. } => Some(reply),
            _ => None,
        })
        .collect();
    let has = |is: &dyn Fn(&&&MultipartReply) -> bool| replies.iter().filter(is).count();
    assert_eq!(replies.len(), 7, "{replies:?}");
    assert_eq!(has(&|r| matches!(r, MultipartReply::Desc(desc) if desc.datapath == "s1")), 1);
    assert_eq!(has(&|r| matches!(r, MultipartReply::PortDesc(ports) if ports.len() == 3)), 1);
    assert_eq!(has(&|r| matches!(r, MultipartReply::GroupFeatures(_))), 1);
    assert_eq!(has(&|r| matches!(r, MultipartReply::GroupDesc(groups) if groups.len() == 1)), 1, "{replies:?}");
    assert_eq!(
        has(&|r| matches!(r, MultipartReply::Flow(flows) if flows.len() == 1 && flows[0].priority == 5)),
        1,
        "{replies:?}"
    );
    assert_eq!(has(&|r| matches!(r, MultipartReply::MeterFeatures(_))), 1);
    assert_eq!(has(&|r| matches!(r, MultipartReply::TableFeatures(tables) if tables.len() == 16)), 1);
}

#[test]
fn discovery_frames_cross_links() {
    let topology = Box::new(net::spec::parse("fat-tree:k=4").unwrap());
    let controller = start(Behaviour::Discovers);
    let report = run(&controller, Shape::Fabric(topology)).unwrap();
    let links = report.links.unwrap();
    assert_eq!((links.directed, links.found), (64, 64));
    assert!(links.after_connections_s > 0.0 && links.after_connections_s < 5.0, "{links:?}");
    // A frame is received as often as it arrives: at least once per link, at most once in each of
    // eight rounds.
    let discovered = controller.discovered.load(std::sync::atomic::Ordering::Relaxed);
    assert!((64..=8 * 64).contains(&discovered), "{discovered}");
}
