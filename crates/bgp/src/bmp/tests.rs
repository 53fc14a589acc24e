use netgauze_bgp_pkt::capabilities::{AddPathAddressFamily, AddPathCapability, FourOctetAsCapability};
use netgauze_bgp_pkt::nlri::Ipv4Unicast;
use netgauze_bgp_pkt::open::BgpOpenMessageParameter;
use netgauze_bgp_pkt::path_attribute::{As4PathSegment, LocalPreference, NextHop, Origin, PathAttribute};
use netgauze_bmp_pkt::v3::{
    PeerDownNotificationMessage, PeerDownNotificationReason, PeerUpNotificationMessage, RouteMonitoringMessage,
};
use netgauze_parse_utils::WritablePdu;
use proptest::prelude::*;

use super::*;

const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const OWN_AS: u32 = 64_500;

fn header(post_policy: bool) -> PeerHeader {
    let kind = BmpPeerType::GlobalInstancePeer { ipv6: false, post_policy, asn2: false, adj_rib_out: false };
    PeerHeader::new(kind, None, Some(IpAddr::V4(PEER)), 64_501, PEER, None)
}
fn bytes(value: BmpMessageValue) -> Vec<u8> {
    let mut out = Vec::new();
    BmpMessage::V3(value).write(&mut out).expect("memory accepts it");
    out
}
fn open(own_as: u32, add_path: Option<(bool, bool)>) -> BgpMessage {
    let family = |(send, receive)| AddPathAddressFamily::new(AddressType::Ipv4Unicast, send, receive);
    let add_path = add_path.map(|flags| BgpCapability::AddPath(AddPathCapability::new([family(flags)])));
    let long = BgpCapability::FourOctetAs(FourOctetAsCapability::new(own_as));
    let capabilities: Vec<BgpCapability> = add_path.into_iter().chain([long]).collect();
    let capabilities = BgpOpenMessageParameter::Capabilities(capabilities.into());
    BgpMessage::Open(BgpOpenMessage::new(23_456, 180, ROUTER, [capabilities]))
}
fn peer_up(sent: Option<(bool, bool)>, received: Option<(bool, bool)>) -> Vec<u8> {
    let (sent, received) = (open(OWN_AS, sent), open(64_501, received));
    let local = Some(IpAddr::V4(ROUTER));
    let up = PeerUpNotificationMessage::build(header(false), local, Some(179), Some(4000), sent, received, []);
    bytes(BmpMessageValue::PeerUpNotification(up.expect("valid")))
}
fn peer_down() -> Vec<u8> {
    let reason = PeerDownNotificationReason::RemoteSystemClosedNoData;
    bytes(BmpMessageValue::PeerDownNotification(PeerDownNotificationMessage::build(header(false), reason).unwrap()))
}
fn nlri(texts: &[&str]) -> Vec<Ipv4UnicastAddress> {
    let net = |text: &&str| Ipv4Unicast::from_net(text.parse().expect("a network")).expect("unicast");
    texts.iter().map(|text| Ipv4UnicastAddress::new_no_path_id(net(text))).collect()
}
fn routes(withdrawn: &[&str], attributes: Vec<PathAttribute>, announced: &[&str], post_policy: bool) -> Vec<u8> {
    let update = BgpUpdateMessage::new(nlri(withdrawn), attributes, nlri(announced));
    let message = RouteMonitoringMessage::build(header(post_policy), BgpMessage::Update(update));
    bytes(BmpMessageValue::RouteMonitoring(message.expect("valid")))
}
fn attribute(value: PathAttributeValue) -> PathAttribute {
    PathAttribute::from(false, true, false, false, value).expect("valid")
}
fn path(numbers: &[u32]) -> PathAttribute {
    let sequence = As4PathSegment::new(AsPathSegmentType::AsSequence, numbers);
    let set = As4PathSegment::new(AsPathSegmentType::AsSet, [7, 8]);
    attribute(PathAttributeValue::AsPath(AsPath::As4PathSegments([sequence, set].into())))
}
fn next_hop() -> PathAttribute {
    attribute(PathAttributeValue::NextHop(NextHop::new(PEER)))
}
fn complete() -> Vec<PathAttribute> {
    let preference = attribute(PathAttributeValue::LocalPreference(LocalPreference::new(130)));
    vec![attribute(PathAttributeValue::Origin(Origin::IGP)), path(&[64_501, 64_502]), next_hop(), preference]
}
fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}
fn withdraw(text: &str) -> RouteEvent {
    RouteEvent::Withdraw { peer: PEER, prefix: prefix(text) }
}
fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<RouteEvent>, BmpError> {
    let mut events = Vec::new();
    decoder.push(bytes, &mut events).map(|()| events)
}
/// A session with every kind of message that changes routes.
fn session() -> Vec<u8> {
    let all = [
        peer_up(None, None),
        routes(&[], complete(), &["0.0.0.0/0", "203.0.113.0/24", "198.51.100.7/32"], true),
        routes(&["203.0.113.0/24"], vec![], &[], true),
        routes(&[], vec![], &[], true),
        peer_down(),
    ];
    all.concat()
}

#[test]
fn session_becomes_route_events_at_any_chunk_size() {
    let route = Route { next_hop: PEER, as_path_len: 3, local_pref: 130 };
    let announce = |text| RouteEvent::Announce { peer: PEER, prefix: prefix(text), route };
    let expected = [
        RouteEvent::PeerUp(PEER),
        announce("0.0.0.0/0"),
        announce("203.0.113.0/24"),
        announce("198.51.100.7/32"),
        withdraw("203.0.113.0/24"),
        RouteEvent::EndOfRib(PEER),
        RouteEvent::PeerDown(PEER),
    ];
    for size in [1, 2, 7, 100, 100_000] {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        for chunk in session().chunks(size) {
            decoder.push(chunk, &mut events).expect("valid");
        }
        assert_eq!(events, expected, "chunks of {size}");
        assert!(decoder.buffer.is_empty());
    }
}

/// A recording of FRR 8.4.4 with two peers, of which one is killed. FRR puts its own AS in front of
/// the paths, and reports its own routes as those of the peer 0.0.0.0.
#[test]
fn session_of_frr_is_read() {
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bmp/frr-8.4")).expect("a file");
    let events = decode(&mut Decoder::default(), &bytes).expect("valid");
    let peers = [1, 2].map(|number| Ipv4Addr::new(10, 1, number, 2));
    for peer in peers {
        let up = events.iter().position(|event| *event == RouteEvent::PeerUp(peer)).expect("it comes up");
        let route = Route { next_hop: peer, as_path_len: 2, local_pref: 100 };
        for number in 0..5 {
            let prefix = Prefix::around(Ipv4Addr::new(20, 0, number, 0), 24);
            assert!(events[up..].contains(&RouteEvent::Announce { peer, prefix, route }), "{peer} {prefix}");
        }
    }
    assert_eq!(events.last(), Some(&RouteEvent::PeerDown(peers[0])));
}

#[test]
fn only_the_configured_policy_is_read() {
    let mut decoder = Decoder::new(Policy::Pre);
    let all = [peer_up(None, None), routes(&["203.0.113.0/24"], vec![], &[], true)].concat();
    assert_eq!(decode(&mut decoder, &all), Ok(vec![RouteEvent::PeerUp(PEER)]));
    let pre = routes(&["203.0.113.0/24"], vec![], &[], false);
    assert_eq!(decode(&mut decoder, &pre), Ok(vec![withdraw("203.0.113.0/24")]));
}

/// RFC 7606: such a route counts as withdrawn, and the session continues.
#[test]
fn incomplete_and_looping_routes_count_as_withdrawn() {
    let mut decoder = Decoder::default();
    decode(&mut decoder, &peer_up(None, None)).expect("valid");
    for attributes in [vec![], vec![path(&[64_501])], vec![next_hop()], vec![path(&[64_501, OWN_AS]), next_hop()]] {
        let message = routes(&[], attributes.clone(), &["203.0.113.0/24"], true);
        assert_eq!(decode(&mut decoder, &message), Ok(vec![withdraw("203.0.113.0/24")]), "{attributes:?}");
    }
}

#[test]
fn broken_sessions_are_errors_that_say_why() {
    for (bytes, expected) in [
        (b"GET / HTTP/1.0".to_vec(), "the version of a message is 71, not 3"),
        (vec![3, 0, 0, 0, 5, 4], "the length of a message is 5 bytes, not 6 to 196608"),
        (vec![3, 255, 255, 255, 255, 0], "the length of a message is 4294967295 bytes, not 6 to 196608"),
        (routes(&[], vec![], &[], true), "routes of peer 192.0.2.1 precede the notification that it is up"),
        (
            peer_up(Some((false, true)), Some((true, false))),
            "peer 192.0.2.1 may send several routes to a prefix (ADD-PATH), which is not supported",
        ),
    ] {
        let error = decode(&mut Decoder::default(), &bytes).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
    // Receivers on both sides, as FRR announces by default, send no path identifiers.
    assert!(decode(&mut Decoder::default(), &peer_up(Some((false, true)), Some((false, true)))).is_ok());
    // A prefix of 255 bits.
    let mut broken = routes(&[], complete(), &["203.0.113.0/24"], true);
    let at = broken.len() - 4;
    broken[at] = 0xff;
    let mut decoder = Decoder::default();
    decode(&mut decoder, &peer_up(None, None)).expect("valid");
    let mut events = Vec::new();
    let error = decoder.push(&broken, &mut events).expect_err("malformed");
    assert!(matches!(error, BmpError::Malformed(_)) && events.is_empty(), "{error} {events:?}");
}

#[test]
fn number_of_peers_is_bounded() {
    let mut decoder = Decoder::default();
    let mut message = routes(&[], vec![], &[], true);
    let result = (0..10_000u32).try_for_each(|number| {
        // The distinguisher of a VRF: these peers are skipped, but the parser keeps a context for each.
        message[6] = 1;
        message[10..14].copy_from_slice(&number.to_be_bytes());
        decoder.push(&message, &mut Vec::new())
    });
    assert_eq!(result, Err(BmpError::TooManyPeers));
}

/// Replays the seeds of the fuzz target `bmp`, and every input that once failed.
#[test]
fn corpus_of_the_fuzz_target_never_panics() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bmp");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the corpus").collect();
    assert!(files.len() >= 2, "the corpus has moved");
    for file in files {
        let bytes = std::fs::read(file.expect("an entry").path()).expect("readable");
        let _ = decode(&mut Decoder::default(), &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Valid sessions with changed, inserted and missing bytes: an error or events, never a panic;
    /// and no event of a peer that is not up.
    #[test]
    fn mutated_sessions_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..6),
        chunk in 1..200usize,
    ) {
        let mut bytes = session();
        for (at, value, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes.insert(at, value),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes[at] = bytes[at].wrapping_add(1),
                _ => bytes[at] = value,
            }
        }
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        for chunk in bytes.chunks(chunk) {
            if decoder.push(chunk, &mut events).is_err() {
                break;
            }
        }
        let mut up = std::collections::BTreeSet::new();
        for event in events {
            match event {
                RouteEvent::PeerUp(peer) => drop(up.insert(peer)),
                RouteEvent::PeerDown(peer) => prop_assert!(up.remove(&peer)),
                RouteEvent::EndOfRib(peer)
                | RouteEvent::Announce { peer, .. }
                | RouteEvent::Withdraw { peer, .. } => prop_assert!(up.contains(&peer)),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_behind_a_valid_header_never_panic(kind in 0..7u8, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let length = (HEADER_BYTES + body.len()) as u32;
        let message = [&[VERSION][..], &length.to_be_bytes(), &[kind], &body].concat();
        let _ = decode(&mut Decoder::default(), &message);
    }
}

/// Writes the seeds of the fuzz target.
#[test]
#[ignore = "writes fuzz/corpus/bmp: run it when the seeds must change"]
fn write_seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bmp");
    std::fs::create_dir_all(folder).expect("writable");
    std::fs::write(format!("{folder}/session"), session()).expect("writable");
    let add_path = peer_up(Some((true, true)), Some((true, true)));
    std::fs::write(format!("{folder}/add-path"), add_path).expect("writable");
}
