//! Agents on hosts: they report flows and server statistics and receive commands.

use std::net::Ipv4Addr;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use balance::central::AgentReport;
use balance::server::ServerStats;
use net::FiveTuple;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, BodyFaults};
use super::problem::Problem;
use super::stream::FlowName;
use crate::engine::Engine;
use crate::server::Handle;
use crate::services::FieldError;

/// Validity of server statistics, in seconds.
const FRESH_S: f64 = 15.0;

/// A flow of an agent's host.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportedFlow {
    /// Destination address.
    #[schema(value_type = String, format = Ipv4)]
    dst: Ipv4Addr,
    /// IP protocol: 6 for TCP, 17 for UDP.
    protocol: u8,
    /// Source port; 0 for protocols without ports.
    #[serde(default)]
    src_port: u16,
    /// Destination port; 0 for protocols without ports.
    #[serde(default)]
    dst_port: u16,
}

/// A report of an agent.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Report {
    /// A flow of this host has sent more than the report threshold.
    Started {
        /// The flow.
        flow: ReportedFlow,
        /// Bytes sent so far.
        bytes: u64,
        /// Total size in bytes, if the application knows it.
        #[serde(default)]
        size: Option<u64>,
    },
    /// A reported flow has ended.
    Ended {
        /// The flow.
        flow: ReportedFlow,
        /// Bytes sent in total.
        bytes: u64,
    },
}

/// Reports of an agent, in chronological order.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reports {
    reports: Vec<Report>,
}

/// Current commands for an agent.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct StandingOrders {
    /// Report threshold: report flows that have sent more bytes. With null, report none: the
    /// balancer does not use agents.
    report_above: Option<u64>,
    /// Rate limits of flows of this host. Other flows have no limit.
    paces: Vec<Pace>,
}

/// The rate limit of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct Pace {
    flow: FlowName,
    /// Maximum rate on the wire, in bit/s.
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
    let not_found = || Problem::not_found(format!("`{text}` is not the IPv4 address of a host, such as 10.0.0.1"));
    text.parse().map_err(|_| not_found())
}

fn orders(engine: &Engine, host: Ipv4Addr) -> StandingOrders {
    let pace =
        |(tuple, rate): (&FiveTuple, net::Bandwidth)| Pace { flow: FlowName::new(tuple), rate_bps: rate.as_bps() };
    StandingOrders {
        report_above: engine.agent_commands.report_threshold_bytes,
        paces: engine.agent_commands.rate_limits_of(host).map(pace).collect(),
    }
}

/// Returns the current commands for the agent of a host. Changes are also sent as events
/// (`report_above`, `pace`).
#[utoipa::path(
    get,
    path = "/v1/agents/{host}/orders",
    tag = "traffic",
    params(("host" = String, Path, format = Ipv4, description = "IPv4 address of the host")),
    responses(
        (status = 200, body = StandingOrders),
        (status = 404, description = "Not the IPv4 address of a host", body = Problem, content_type = "application/problem+json")
    )
)]
pub(super) async fn standing_orders(
    State(handle): State<Handle>,
    Path(text): Path<String>,
) -> Result<Json<StandingOrders>, Problem> {
    let host = address(&text)?;
    Ok(Json(handle.ask(move |engine| orders(engine, host)).await?))
}

/// Accepts flow reports of the agent of a host and returns its commands. Reports that were not
/// requested, of known flows or of unknown hosts are accepted and change nothing: an agent that
/// restarts reports everything.
#[utoipa::path(
    post,
    path = "/v1/agents/{host}/reports",
    tag = "traffic",
    params(("host" = String, Path, format = Ipv4, description = "IPv4 address of the host, the source of all reported flows")),
    request_body = Reports,
    responses(
        (status = 200, description = "Accepted; the current commands", body = StandingOrders),
        (status = 404, description = "Not the IPv4 address of a host", body = Problem, content_type = "application/problem+json"),
        BodyFaults,
        (status = 422, description = "Invalid reports", body = Problem, content_type = "application/problem+json")
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

/// Throughput to another host, as measured by a probe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// Address of the other host.
    #[schema(value_type = String, format = Ipv4, example = "10.0.0.2")]
    to: Ipv4Addr,
    /// Received rate, in bit/s.
    rate_bps: u64,
}

/// Statistics of a server. Omitted values are unknown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerFacts {
    /// Number of connections.
    #[serde(default)]
    pub(crate) connections: Option<u32>,
    /// Busy share of all cores, from 0 to 1.
    #[serde(default)]
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub(crate) cpu: Option<f64>,
    /// Number of cores, at least 1.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) cores: Option<u32>,
    /// Response time, in ms: from 0 to 10^9.
    #[serde(default)]
    #[schema(minimum = 0.0, maximum = 1e9)]
    pub(crate) response_ms: Option<f64>,
    /// Results of probes from this server.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub(crate) probes: Vec<Probe>,
}

/// Response to server statistics.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct FactsTaken {
    /// Whether the host is a member of a pool; otherwise its statistics are ignored.
    is_member: bool,
}

impl ServerFacts {
    fn facts(&self) -> Result<ServerStats, FieldError> {
        let within = |field: &str, value: Option<f64>, most: f64| match value {
            Some(value) if !(0.0..=most).contains(&value) => {
                Err(FieldError::new(field, format!("{value} is not from 0 to {most}")))
            }
            _ => Ok(()),
        };
        within("cpu", self.cpu, 1.0)?;
        within("response_ms", self.response_ms, 1e9)?;
        if self.cores == Some(0) {
            return Err(FieldError::new("cores", "must be above 0"));
        }
        if self.probes.len() > 64 {
            return Err(FieldError::new("probes", "must be at most 64"));
        }
        let response = self.response_ms.map(|ms| net::Time::from_s_f64(ms / 1e3));
        let ServerFacts { connections, cpu, cores, .. } = *self;
        Ok(ServerStats { connections, cpu, cores, response, ..ServerStats::default() })
    }
}

/// Accepts the statistics of a server from its agent. They are valid for 15 s.
#[utoipa::path(
    post,
    path = "/v1/agents/{host}/facts",
    tag = "services",
    params(("host" = String, Path, format = Ipv4, description = "IPv4 address of the server")),
    request_body(content = ServerFacts, content_type = "application/json"),
    responses(
        (status = 200, description = "Accepted", body = FactsTaken),
        (status = 404, description = "Not the IPv4 address of a host", body = Problem, content_type = "application/problem+json"),
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
    let take = move |engine: &mut Engine| engine.handle_server_stats(host, facts, told);
    Ok(Json(FactsTaken { is_member: handle.ask(take).await? }))
}

/// Latest statistics of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct Told {
    /// Address of the server.
    host: String,
    /// Age of the statistics, in seconds.
    age_s: f64,
    /// Whether the statistics are still valid.
    is_fresh: bool,
    /// The statistics.
    facts: ServerFacts,
}

/// Returns the latest statistics that agents of members sent over HTTP, by address. Statistics sent
/// in band are not included.
#[utoipa::path(get, path = "/v1/agents", tag = "services", responses((status = 200, body = Vec<Told>)))]
pub(super) async fn agents(State(handle): State<Handle>) -> Result<Json<Vec<Told>>, Problem> {
    let all = |engine: &mut Engine| {
        let now = engine.clock.now();
        let told = engine.agent_stats.iter().map(|(host, (at, facts))| {
            let age_s = now.saturating_sub(*at).as_s_f64();
            Told { host: host.to_string(), age_s, is_fresh: age_s < FRESH_S, facts: facts.clone() }
        });
        told.collect()
    };
    Ok(Json(handle.ask(all).await?))
}
