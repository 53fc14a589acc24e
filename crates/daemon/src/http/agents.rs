//! Agents on hosts: they report flows, and are told what to report and how fast to send.

use std::net::Ipv4Addr;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use balance::central::AgentReport;
use balance::server::Facts;
use net::FiveTuple;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, BodyFaults};
use super::problem::Problem;
use super::stream::FlowName;
use crate::engine::Engine;
use crate::server::Handle;
use crate::services::Fault;

/// The controller minds what agents told for this long, s.
const FRESH_S: f64 = 15.0;

/// A flow, as an agent names it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportedFlow {
    /// Receiver's address.
    #[schema(value_type = String, format = Ipv4)]
    dst: Ipv4Addr,
    /// IP protocol: 6 for TCP, 17 for UDP.
    protocol: u8,
    /// Sender's port; 0 for protocols without ports.
    #[serde(default)]
    src_port: u16,
    /// Receiver's port; 0 for protocols without ports.
    #[serde(default)]
    dst_port: u16,
}

/// What an agent has to tell.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Report {
    /// A flow of this host has sent more than the threshold.
    Started {
        /// Which flow.
        flow: ReportedFlow,
        /// Bytes it has sent.
        bytes: u64,
        /// Bytes it will have sent in all, where the application knows.
        #[serde(default)]
        size: Option<u64>,
    },
    /// A flow reported before has ended.
    Ended {
        /// Which flow.
        flow: ReportedFlow,
        /// Bytes it sent in all.
        bytes: u64,
    },
}

/// Reports of an agent, in the order they happened.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reports {
    reports: Vec<Report>,
}

/// What an agent is to do from now on.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct StandingOrders {
    /// Report flows that have sent more bytes than this; null to report none: the balancer does not ask agents.
    report_above: Option<u64>,
    /// Limits of this host's flows. A flow that is not named has none.
    paces: Vec<Pace>,
}

/// The limit of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct Pace {
    flow: FlowName,
    /// Greatest rate on the wire, bit/s.
    rate_bps: u64,
}

impl Report {
    fn into_report(self, src: Ipv4Addr) -> AgentReport {
        let tuple = |flow: ReportedFlow| {
            let ReportedFlow { dst, protocol, src_port, dst_port } = flow;
            FiveTuple { src, dst, protocol, src_port, dst_port }
        };
        match self {
            Report::Started { flow, bytes, size } => AgentReport::Started { tuple: tuple(flow), bytes, size },
            Report::Ended { flow, bytes } => AgentReport::Ended { tuple: tuple(flow), bytes },
        }
    }
}

fn address(text: &str) -> Result<Ipv4Addr, Problem> {
    let wrong = || Problem::not_found(format!("`{text}` is not the IPv4 address of a host, such as 10.0.0.1"));
    text.parse().map_err(|_| wrong())
}

fn orders(engine: &Engine, host: Ipv4Addr) -> StandingOrders {
    let pace =
        |(tuple, rate): (&FiveTuple, net::Bandwidth)| Pace { flow: FlowName::new(tuple), rate_bps: rate.as_bps() };
    StandingOrders { report_above: engine.orders.report_above, paces: engine.orders.paces_of(host).map(pace).collect() }
}

/// What the agent of a host is to do. Changes are also sent as events (`report_above`, `pace`).
#[utoipa::path(
    get,
    path = "/v1/agents/{host}/orders",
    tag = "traffic",
    params(("host" = String, Path, format = Ipv4, description = "IPv4 address of the host")),
    responses(
        (status = 200, body = StandingOrders),
        (status = 404, description = "No address", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn standing_orders(
    State(handle): State<Handle>,
    Path(text): Path<String>,
) -> Result<Json<StandingOrders>, Problem> {
    let host = address(&text)?;
    Ok(Json(handle.ask(move |engine| orders(engine, host)).await?))
}

/// The agent of a host reports flows of that host, and hears what it is to do. Reports nobody asked for, of flows known
/// already, and of hosts that are not known are taken and change nothing: an agent that starts again reports everything.
#[utoipa::path(
    post,
    path = "/v1/agents/{host}/reports",
    tag = "traffic",
    params(("host" = String, Path, format = Ipv4, description = "IPv4 address of the host: the source of every flow reported")),
    request_body = Reports,
    responses(
        (status = 200, description = "Taken; what stands after them", body = StandingOrders),
        (status = 404, description = "No address", body = Problem, content_type = "application/problem+json"),
        BodyFaults,
        (status = 422, description = "No reports", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn reports(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    told: Result<Json<Reports>, JsonRejection>,
) -> Result<Json<StandingOrders>, Problem> {
    let host = address(&text)?;
    let Json(told) = told?;
    let told: Vec<AgentReport> = told.reports.into_iter().map(|report| report.into_report(host)).collect();
    let take = move |engine: &mut Engine| {
        told.into_iter().for_each(|report| engine.report(report));
        orders(engine, host)
    };
    Ok(Json(handle.ask(take).await?))
}

/// Throughput to another host, as a probe found it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// The other host.
    #[schema(value_type = String, format = Ipv4, example = "10.0.0.2")]
    to: Ipv4Addr,
    /// What got there, bit/s.
    rate_bps: u64,
}

/// How a server does. What is not said is not known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerFacts {
    /// Connections it has.
    #[serde(default)]
    pub(crate) connections: Option<u32>,
    /// Share of all its cores that is busy, from 0 to 1.
    #[serde(default)]
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub(crate) cpu: Option<f64>,
    /// Its cores, at least 1.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) cores: Option<u32>,
    /// How long it takes to answer, ms: from 0 to 10^9.
    #[serde(default)]
    #[schema(minimum = 0.0, maximum = 1e9)]
    pub(crate) response_ms: Option<f64>,
    /// What probes from it have found.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub(crate) probes: Vec<Probe>,
}

/// What became of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct FactsTaken {
    /// Whether the host is a member of a pool: else nobody minds them.
    is_member: bool,
}

impl ServerFacts {
    fn facts(&self) -> Result<Facts, Fault> {
        let within = |field: &str, value: Option<f64>, most: f64| match value {
            Some(value) if !(0.0..=most).contains(&value) => {
                Err(Fault::at(field, format!("{value} is not from 0 to {most}")))
            }
            _ => Ok(()),
        };
        within("cpu", self.cpu, 1.0)?;
        within("response_ms", self.response_ms, 1e9)?;
        if self.cores == Some(0) {
            return Err(Fault::at("cores", "must be above 0"));
        }
        if self.probes.len() > 64 {
            return Err(Fault::at("probes", "there are more than 64"));
        }
        let response = self.response_ms.map(|ms| net::Time::from_s_f64(ms / 1e3));
        let ServerFacts { connections, cpu, cores, .. } = *self;
        Ok(Facts { connections, cpu, cores, response, ..Facts::default() })
    }
}

/// The agent of a server tells how it does. It counts for 15 s.
#[utoipa::path(
    post,
    path = "/v1/agents/{host}/facts",
    tag = "services",
    params(("host" = String, Path, format = Ipv4, description = "IPv4 address of the server")),
    request_body(content = ServerFacts, content_type = "application/json"),
    responses(
        (status = 200, description = "Taken", body = FactsTaken),
        (status = 404, description = "No address", body = Problem, content_type = "application/problem+json"),
        BodyFaults
    )
)]
pub(super) async fn facts(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<FactsTaken>, Problem> {
    let host = address(&text)?;
    let told = body?.read::<ServerFacts>()?;
    let facts = told.facts()?;
    let take = move |engine: &mut Engine| engine.facts(host, facts, told);
    Ok(Json(FactsTaken { is_member: handle.ask(take).await? }))
}

/// What an agent told last.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct Told {
    /// Address of the server.
    host: String,
    /// How long ago, s.
    age_s: f64,
    /// Whether it still counts.
    is_fresh: bool,
    /// What it told.
    facts: ServerFacts,
}

/// What agents of members have told over HTTP, by address. What came in band is not among it.
#[utoipa::path(get, path = "/v1/agents", tag = "services", responses((status = 200, body = Vec<Told>)))]
pub(super) async fn agents(State(handle): State<Handle>) -> Result<Json<Vec<Told>>, Problem> {
    let all = |engine: &mut Engine| {
        let now = engine.clock.now();
        let told = engine.told.iter().map(|(host, (at, facts))| {
            let age_s = now.saturating_sub(*at).as_s_f64();
            Told { host: host.to_string(), age_s, is_fresh: age_s < FRESH_S, facts: facts.clone() }
        });
        told.collect()
    };
    Ok(Json(handle.ask(all).await?))
}
