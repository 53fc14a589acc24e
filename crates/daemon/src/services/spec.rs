//! Virtual services and pools in the form of the API, the configuration file and the store.

use std::fmt;
use std::net::Ipv4Addr;

use balance::registry::SERVER;
use control::vip;
use openflow::MacAddr;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, Object, ObjectBuilder, Schema, Type};

use super::monitor::MonitorSpec;
use crate::config;

const NAME_CHARS: usize = 63;

/// A name chosen by the user: letters, digits, `.`, `_` and `-`, beginning with a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", example = "web")]
pub(crate) struct Name(String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        let is_valid = text.len() <= NAME_CHARS
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let rule = "1 to 63 letters, digits, `.`, `_` and `-`, beginning with a letter or digit";
        if is_valid { Ok(Name(text)) } else { Err(format!("`{text}` is not a valid name: {rule}")) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Transport protocol of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Protocol {
    #[default]
    Tcp,
    Udp,
    Icmp,
}

impl From<Protocol> for vip::Protocol {
    fn from(protocol: Protocol) -> vip::Protocol {
        match protocol {
            Protocol::Tcp => vip::Protocol::Tcp,
            Protocol::Udp => vip::Protocol::Udp,
            Protocol::Icmp => vip::Protocol::Icmp,
        }
    }
}

/// An Ethernet address as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$", example = "06:a7:0a:00:00:64")]
pub(crate) struct Mac(pub(crate) MacAddr);

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Mac, String> {
        config::mac_address(&text).map(Mac).ok_or_else(|| format!("`{text}` is not an Ethernet address"))
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.0.to_string()
    }
}

/// A virtual service: an address (and port) at which clients reach the members of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceSpec {
    /// Virtual IPv4 address. It must not belong to a host.
    #[schema(schema_with = station_schema)]
    pub(crate) address: Ipv4Addr,
    /// Transport protocol; TCP by default.
    #[serde(default)]
    pub(crate) protocol: Protocol,
    /// Port, above 0; 0 or omitted for ICMP.
    #[serde(default)]
    #[schema(example = 80, required = true)]
    pub(crate) port: u16,
    /// Name of the pool of members. Without a pool, clients are refused.
    #[serde(default)]
    pub(crate) pool: Option<Name>,
    /// Ethernet address in ARP replies, the same for all services of an address. Derived from the
    /// address by default.
    #[serde(default)]
    pub(crate) mac: Option<Mac>,
    /// Idle timeout of a connection, in seconds.
    #[serde(default = "number::<300, _>")]
    #[schema(minimum = 1)]
    pub(crate) idle_timeout_s: u16,
    /// Which rules lead to members.
    #[serde(default)]
    pub(crate) rules: Rules,
    /// Number of client slots with `rules` = `wildcard` or `mux`: a power of two.
    #[serde(default = "client_slots")]
    #[schema(schema_with = client_slots_schema)]
    pub(crate) client_slots: u16,
    /// Expected traffic with `rules` = `mux`, in Mbit/s, above 0: services with more traffic get
    /// their switch first.
    #[serde(default = "number::<1, _>", skip_serializing_if = "is_one")]
    #[schema(minimum = 1, default = 1)]
    pub(crate) expected_mbps: u32,
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Returns the default of a numeric field.
pub(super) fn number<const N: u16, T: From<u16>>() -> T {
    N.into()
}
/// Default number of client slots: up to eight members get their shares within a few percent, and
/// the tables of a switch hold a few services.
pub(in crate::services) fn client_slots() -> u16 {
    64
}

/// Kind of the rules of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rules {
    /// Reactive: the controller installs two rules for every connection after its first packet.
    #[default]
    Connection,
    /// Proactive: wildcard rules divide clients among members by the lowest bits of their
    /// addresses, and connections need no controller. TCP and UDP only, with balancers that use
    /// weights alone: maglev, server-random.
    Wildcard,
    /// Proactive at one switch, which the controller assigns by memory and link rates. The others
    /// lead packets there. Without such a switch, the controller picks members as with `connection`.
    Mux,
}

/// A member of a pool: a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberSpec {
    /// IPv4 address of the server.
    #[schema(schema_with = station_schema)]
    pub(crate) address: Ipv4Addr,
    /// Port of the server, above 0; the port of the service by default.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) port: Option<u16>,
    /// Share of new connections relative to the weights of the other members; 0 for none.
    #[serde(default = "number::<1, _>")]
    pub(crate) weight: u32,
    /// Whether the member gets new connections. False drains it: existing connections stay.
    #[serde(default = "is_enabled")]
    pub(crate) is_enabled: bool,
}

fn is_enabled() -> bool {
    true
}

/// A member of a pool with its name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedMember {
    /// Name of the member, unique in the pool.
    pub(crate) name: Name,
    /// IPv4 address of the server.
    #[schema(schema_with = station_schema)]
    address: Ipv4Addr,
    /// Port of the server, above 0; the port of the service by default.
    #[serde(default)]
    #[schema(minimum = 1)]
    port: Option<u16>,
    /// Share of new connections relative to the weights of the other members; 0 for none.
    #[serde(default = "number::<1, _>")]
    weight: u32,
    /// Whether the member gets new connections. False drains it: existing connections stay.
    #[serde(default = "is_enabled")]
    is_enabled: bool,
}

impl NamedMember {
    pub(crate) fn new(name: Name, spec: MemberSpec) -> NamedMember {
        let MemberSpec { address, port, weight, is_enabled } = spec;
        NamedMember { name, address, port, weight, is_enabled }
    }
    pub(crate) fn spec(&self) -> MemberSpec {
        let NamedMember { address, port, weight, is_enabled, .. } = *self;
        MemberSpec { address, port, weight, is_enabled }
    }
}

/// Treatment of the connections of a failed member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnMemberFailure {
    /// Keep them: the member may recover.
    #[default]
    Keep,
    /// Send their next packet to another member.
    Move,
    /// Reset them: clients get a TCP reset or, with other protocols, an ICMP error.
    Reset,
}

/// Reply to clients when no member is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnUnavailable {
    /// A TCP reset, for UDP "port unreachable", for ICMP "host unreachable".
    #[default]
    Reset,
    Unreachable,
    Drop,
}

/// A pool: members and the balancer that picks among them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolSpec {
    /// Balancer that picks members for new connections, with its parameters. A changed text resets
    /// its state.
    #[serde(default = "balancer")]
    #[schema(schema_with = balancer_schema)]
    pub(crate) balancer: String,
    /// Health check of the members. With null, a member is up while its switch port is up.
    #[serde(default)]
    pub(crate) monitor: Option<MonitorSpec>,
    #[serde(default)]
    pub(crate) members: Vec<NamedMember>,
    /// Treatment of the connections of a failed member.
    #[serde(default)]
    pub(crate) on_member_failure: OnMemberFailure,
    /// Reply to clients when no member is available.
    #[serde(default)]
    pub(crate) on_unavailable: OnUnavailable,
}

fn balancer() -> String {
    "server-rr".to_owned()
}

/// Schema of the address of one host, as a pattern: a format would allow multicast addresses.
fn station_schema() -> Object {
    let first = "([1-9]|[1-9][0-9]|1[01][0-9]|12[0-689]|1[3-9][0-9]|2[01][0-9]|22[0-3])";
    let other = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!(r"^{first}(\.{other}){{3}}$")))
        .description(Some("IPv4 address of one host"))
        .examples([serde_json::json!("10.0.0.100")])
        .build()
}

fn client_slots_schema() -> Object {
    let counts = std::iter::successors(Some(*vip::BUCKETS.start()), |count| count.checked_mul(2));
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some(counts.take_while(|count| vip::BUCKETS.contains(count)).map(u64::from)))
        .default(Some(client_slots().into()))
        .description(Some("Number of client slots with `rules` = `wildcard` or `mux`: a power of two"))
        .build()
}

fn balancer_schema() -> RefOr<Schema> {
    let names = SERVER.iter().map(|entry| entry.name);
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let with = text()
        .pattern(Some(r"^(server-wrr:path=sph|maglev:size=(1009|10007|65537))$"))
        .description(Some("A name, `:` and parameters such as `maglev:size=65537`; only examples fit this pattern"));
    AnyOfBuilder::new()
        .item(text().enum_values(Some(names)))
        .item(with)
        .description(Some(
            "Balancer that picks members for new connections (GET /v1/server-balancers), with its \
             parameters. A changed text resets its state",
        ))
        .into()
}

impl PoolSpec {
    pub(crate) fn member(&self, name: &Name) -> Option<&NamedMember> {
        self.members.iter().find(|member| member.name == *name)
    }
}

impl From<OnMemberFailure> for vip::Established {
    fn from(on_failure: OnMemberFailure) -> vip::Established {
        match on_failure {
            OnMemberFailure::Keep => vip::Established::Keep,
            OnMemberFailure::Move => vip::Established::Move,
            OnMemberFailure::Reset => vip::Established::Reset,
        }
    }
}

impl From<OnUnavailable> for vip::Refusal {
    fn from(on_unavailable: OnUnavailable) -> vip::Refusal {
        match on_unavailable {
            OnUnavailable::Reset => vip::Refusal::Reset,
            OnUnavailable::Unreachable => vip::Refusal::Unreachable,
            OnUnavailable::Drop => vip::Refusal::Drop,
        }
    }
}
