//! Decoder of the BGP Monitoring Protocol (BMP, RFC 7854): bytes of a session to route events.
//!
//! The decoder reads IPv4 unicast routes in the Adj-RIB-In of peers with IPv4 addresses, before or
//! after the inbound policy of the router. It skips other address families, VRFs, the Loc-RIB and
//! statistics.
//!
//! A malformed message is an error, and the session must be closed: the router then connects again
//! and reports all routes, which repairs any difference. No event of a malformed message is
//! returned. A route without a mandatory attribute counts as withdrawn (RFC 7606), and so does a
//! route whose path contains the AS of the router itself behind another one.

use std::collections::BTreeMap;

use core::net::{IpAddr, Ipv4Addr};

use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::capabilities::BgpCapability;
use netgauze_bgp_pkt::nlri::Ipv4UnicastAddress;
use netgauze_bgp_pkt::open::BgpOpenMessage;
use netgauze_bgp_pkt::path_attribute::{AsPath, AsPathSegmentType, MpReach, MpUnreach, PathAttributeValue};
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use netgauze_bmp_pkt::v3::BmpMessageValue;
use netgauze_bmp_pkt::wire::deserializer::BmpParsingContext;
use netgauze_bmp_pkt::{BmpMessage, BmpPeerType, PeerHeader};
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput;

use crate::{Prefix, Route, RouteEvent};

/// Length of the header of all messages: version, length, type.
const HEADER_BYTES: usize = 6;
/// Maximum length of a message: a peer-up notification with two extended OPEN messages (RFC 8654).
const MESSAGE_BYTES_MAX: usize = 192 << 10;
/// Maximum number of peers of a session, in all tables together.
const PEERS_MAX: usize = 4096;
const VERSION: u8 = 3;
/// Preference of a route without the attribute (RFC 4271 leaves it to the router).
const DEFAULT_LOCAL_PREF: u32 = 100;

/// Which routes of a peer are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Policy {
    /// As the peer sent them, also those that the router rejects.
    Pre,
    /// After the inbound policy of the router: it may reject routes and set preferences.
    #[default]
    Post,
}

/// The reason why a session must be closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BmpError {
    #[error("the version of a message is {0}, not 3")]
    Version(u8),
    #[error("the length of a message is {0} bytes, not 6 to {MESSAGE_BYTES_MAX}")]
    Length(u32),
    #[error("malformed message: {0}")]
    Malformed(String),
    #[error("routes of peer {0} precede the notification that it is up")]
    UnknownPeer(Ipv4Addr),
    #[error("peer {0} may send several routes to a prefix (ADD-PATH), which is not supported")]
    AddPath(Ipv4Addr),
    #[error("more than {PEERS_MAX} peers")]
    TooManyPeers,
}

/// The decoder of one session.
#[derive(Debug, Default)]
pub struct Decoder {
    policy: Policy,
    context: BmpParsingContext,
    /// The beginning of a message.
    buffer: Vec<u8>,
    /// Peers that are up, with the AS of the router on this BGP session.
    peers: BTreeMap<Ipv4Addr, u32>,
}

impl Decoder {
    pub fn new(policy: Policy) -> Decoder {
        Decoder { policy, ..Decoder::default() }
    }

    /// Decodes the next bytes of the session. Adds the events of complete messages.
    ///
    /// # Errors
    /// Returns why the session must be closed. Events of earlier messages are added.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<RouteEvent>) -> Result<(), BmpError> {
        self.buffer.extend_from_slice(bytes);
        let buffer = core::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        while let Some(length) = message_length(rest)?.filter(|length| *length <= rest.len()) {
            let (message, others) = rest.split_at(length);
            rest = others;
            self.message(message, events)?;
        }
        self.buffer = rest.to_vec();
        Ok(())
    }

    fn message(&mut self, bytes: &[u8], events: &mut Vec<RouteEvent>) -> Result<(), BmpError> {
        let mut reader = SliceReader::new(bytes);
        let parsed = BmpMessage::parse(&mut reader, &mut self.context);
        let parsed = parsed.map_err(|error| BmpError::Malformed(error.to_string()))?;
        if self.context.peer_count() > PEERS_MAX {
            return Err(BmpError::TooManyPeers);
        }
        let BmpMessage::V3(message) = parsed else { return Err(BmpError::Version(4)) };
        match message {
            BmpMessageValue::PeerUpNotification(up) => {
                let Some((peer, _)) = adj_rib_in(up.peer_header()) else { return Ok(()) };
                let (BgpMessage::Open(sent), BgpMessage::Open(received)) = (up.sent_message(), up.received_message())
                else {
                    return Err(BmpError::Malformed("a peer is up without OPEN messages".to_owned()));
                };
                if is_add_path(sent, received) {
                    return Err(BmpError::AddPath(peer));
                }
                self.peers.insert(peer, as_number(sent));
                events.push(RouteEvent::PeerUp(peer));
            }
            BmpMessageValue::PeerDownNotification(down) => {
                let Some((peer, _)) = adj_rib_in(down.peer_header()) else { return Ok(()) };
                if self.peers.remove(&peer).is_some() {
                    events.push(RouteEvent::PeerDown(peer));
                }
            }
            BmpMessageValue::RouteMonitoring(routes) => {
                let of_peer = adj_rib_in(routes.peer_header()).filter(|(_, policy)| *policy == self.policy);
                let Some((peer, _)) = of_peer else { return Ok(()) };
                let own_as = *self.peers.get(&peer).ok_or(BmpError::UnknownPeer(peer))?;
                if let BgpMessage::Update(update) = routes.update_message() {
                    Update { peer, own_as, update }.events(events);
                }
            }
            // What does not change routes.
            _ => {}
        }
        Ok(())
    }
}

/// Returns the length of the first message, if its header is complete.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, BmpError> {
    if let Some(version) = bytes.first().filter(|version| **version != VERSION) {
        return Err(BmpError::Version(*version));
    }
    let Some([_, length @ ..]) = bytes.first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    let is_valid = |length: &usize| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(length);
    usize::try_from(length).ok().filter(is_valid).map(Some).ok_or(BmpError::Length(length))
}

/// Returns the address of a peer and the policy, if the header is of the Adj-RIB-In of a peer with
/// an IPv4 address in the default VRF.
fn adj_rib_in(header: &PeerHeader) -> Option<(Ipv4Addr, Policy)> {
    let BmpPeerType::GlobalInstancePeer { ipv6: false, adj_rib_out: false, post_policy, .. } = header.peer_type()
    else {
        return None;
    };
    let Some(IpAddr::V4(peer)) = header.address() else { return None };
    Some((peer, if post_policy { Policy::Post } else { Policy::Pre }))
}

/// Returns whether the peer sends several routes to a prefix: it may send, and the router accepts.
fn is_add_path(sent: &BgpOpenMessage, received: &BgpOpenMessage) -> bool {
    let has = |open: &BgpOpenMessage, is_sender: bool| {
        open.capabilities().into_iter().any(|capability| match capability {
            BgpCapability::AddPath(add_path) => add_path.address_families().iter().any(|family| {
                family.address_type() == AddressType::Ipv4Unicast
                    && if is_sender { family.send() } else { family.receive() }
            }),
            _ => false,
        })
    };
    has(received, true) && has(sent, false)
}

fn as_number(open: &BgpOpenMessage) -> u32 {
    let long = open.capabilities().into_iter().find_map(|capability| match capability {
        BgpCapability::FourOctetAs(four) => Some(four.asn4()),
        _ => None,
    });
    long.unwrap_or(u32::from(open.my_as()))
}

struct Update<'a> {
    peer: Ipv4Addr,
    /// AS of the router on the BGP session to this peer.
    own_as: u32,
    update: &'a BgpUpdateMessage,
}

impl Update<'_> {
    fn events(&self, events: &mut Vec<RouteEvent>) {
        let Update { peer, update, .. } = *self;
        if update.end_of_rib() == Some(AddressType::Ipv4Unicast) {
            events.push(RouteEvent::EndOfRib(peer));
            return;
        }
        let attributes = || update.path_attributes().iter().map(|attribute| attribute.value());
        let unreachable = attributes().flat_map(|value| match value {
            PathAttributeValue::MpUnreach(MpUnreach::Ipv4Unicast { nlri }) => &nlri[..],
            _ => &[],
        });
        let withdrawn = update.withdraw_routes().iter().chain(unreachable);
        events.extend(withdrawn.map(|nlri| RouteEvent::Withdraw { peer, prefix: prefix_of(nlri) }));
        // IPv4 routes may also be in the multiprotocol attribute, which has its own next hop.
        let reachable = attributes().filter_map(|value| match value {
            PathAttributeValue::MpReach(MpReach::Ipv4Unicast { next_hop: IpAddr::V4(next_hop), nlri, .. }) => {
                Some((Some(*next_hop), &nlri[..]))
            }
            _ => None,
        });
        let next_hop = attributes().find_map(|value| match value {
            PathAttributeValue::NextHop(next_hop) => Some(next_hop.next_hop()),
            _ => None,
        });
        for (next_hop, nlri) in core::iter::once((next_hop, update.nlri())).chain(reachable) {
            let route = self.route(next_hop);
            events.extend(nlri.iter().map(prefix_of).map(|prefix| match route {
                Some(route) => RouteEvent::Announce { peer, prefix, route },
                None => RouteEvent::Withdraw { peer, prefix },
            }));
        }
    }

    /// Returns the route to the announced prefixes, unless it cannot be used.
    fn route(&self, next_hop: Option<Ipv4Addr>) -> Option<Route> {
        let (mut path, mut local_pref) = (None, DEFAULT_LOCAL_PREF);
        for attribute in self.update.path_attributes() {
            match attribute.value() {
                PathAttributeValue::AsPath(as_path) => path = Some(as_path),
                PathAttributeValue::LocalPreference(preference) => local_pref = preference.metric(),
                _ => {}
            }
        }
        let path = path?;
        let numbers = Vec::<u32>::from(path.clone());
        // FRR reports routes as it would send them to an external peer, with its own AS in front.
        let own = usize::from(numbers.first() == Some(&self.own_as));
        let is_loop = numbers[own..].contains(&self.own_as);
        let as_path_len = length_of(path).saturating_sub(own as u16);
        (!is_loop).then_some(Route { next_hop: next_hop?, as_path_len, local_pref })
    }
}

fn prefix_of(nlri: &Ipv4UnicastAddress) -> Prefix {
    let network = nlri.network().address();
    Prefix::around(network.addr(), network.prefix_len())
}

fn length_of(path: &AsPath) -> u16 {
    let count = |kind: AsPathSegmentType, length: usize| match kind {
        AsPathSegmentType::AsSequence => length,
        AsPathSegmentType::AsSet => 1,
    };
    let length: usize = match path {
        AsPath::As2PathSegments(segments) => {
            segments.iter().map(|segment| count(segment.segment_type(), segment.as_numbers().len())).sum()
        }
        AsPath::As4PathSegments(segments) => {
            segments.iter().map(|segment| count(segment.segment_type(), segment.as_numbers().len())).sum()
        }
    };
    u16::try_from(length).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
