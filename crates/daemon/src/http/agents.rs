//! Agents on hosts: they report flows and server statistics and receive commands.

use std::net::Ipv4Addr;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use balance::central::AgentReport;
use net::FiveTuple;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::Body;
use super::problem::Problem;
use super::stream::FlowTuple;
use crate::engine::Engine;
use crate::server::Handle;
use crate::services::{FieldError, require};

/// Validity of server statistics, in seconds.
const VALIDITY_S: f64 = 15.0;

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportedFlow {
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
        flow: ReportedFlow,
        /// Bytes sent so far.
        bytes: u64,
        /// Total size in bytes, if the application knows it.
        #[serde(default)]
        size: Option<u64>,
    },
    /// A reported flow has ended.
    Ended {
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
pub(super) struct AgentCommands {
    /// Report threshold: report flows that have sent more bytes. With null, report none: the
    /// balancer does not use agents.
    report_threshold_bytes: Option<u64>,
    /// Rate limits of flows of this host. Other flows have no limit.
    rate_limits: Vec<RateLimit>,
}

#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct RateLimit {
    flow: FlowTuple,
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

fn commands_for(engine: &Engine, host: Ipv4Addr) -> AgentCommands {
    let rate_limit = |(tuple, rate): (&FiveTuple, net::Bandwidth)| RateLimit {
        flow: FlowTuple::new(tuple),
        rate_bps: rate.as_bps(),
    };
    AgentCommands {
        report_threshold_bytes: engine.agent_commands.report_threshold_bytes,
        rate_limits: engine.agent_commands.rate_limits_of(host).map(rate_limit).collect(),
    }
}

/// Returns the current commands for the agent of a host. Changes are also sent as events
/// (`report_threshold`, `rate_limit`).
#[utoipa::path(
    get, path = "/v1/agents/{host}/commands", tag = "traffic",
    responses((status = 200, body = AgentCommands))
)]
pub(super) async fn commands(
    State(handle): State<Handle>,
    Path(text): Path<String>,
) -> Result<Json<AgentCommands>, Problem> {
    let host = address(&text)?;
    Ok(Json(handle.ask(move |engine| commands_for(engine, host)).await?))
}

/// Accepts flow reports of the agent of a host and returns its commands. Reports that were not
/// requested, of known flows or of unknown hosts are accepted and change nothing: an agent that
/// restarts reports everything.
#[utoipa::path(
    post, path = "/v1/agents/{host}/reports", tag = "traffic",
    request_body = Reports,
    responses((status = 200, description = "Accepted; the current commands", body = AgentCommands))
)]
pub(super) async fn reports(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Json<Reports>, JsonRejection>,
) -> Result<Json<AgentCommands>, Problem> {
    let host = address(&text)?;
    let Json(received) = body?;
    let reports: Vec<AgentReport> = received.reports.into_iter().map(|report| report.into_report(host)).collect();
    let take = move |engine: &mut Engine| {
        reports.into_iter().for_each(|report| engine.report(report));
        commands_for(engine, host)
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
    rate_bps: u64,
}

/// Statistics of a server. Omitted values are unknown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerStats {
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
    #[serde(default)]
    #[schema(max_items = 64)]
    pub(crate) probes: Vec<Probe>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct StatsAccepted {
    /// Whether the host is a member of a pool; otherwise its statistics are ignored.
    is_member: bool,
}

impl ServerStats {
    fn checked(&self) -> Result<balance::server::ServerStats, FieldError> {
        for (field, value, most) in [("cpu", self.cpu, 1.0), ("response_ms", self.response_ms, 1e9)] {
            let value = value.unwrap_or_default();
            require((0.0..=most).contains(&value), field, format_args!("{value} is not from 0 to {most}"))?;
        }
        require(self.cores != Some(0), "cores", "must be above 0")?;
        require(self.probes.len() <= 64, "probes", "must be at most 64")?;
        let response = self.response_ms.map(|ms| net::Time::from_s_f64(ms / 1e3));
        let ServerStats { connections, cpu, cores, .. } = *self;
        Ok(balance::server::ServerStats { connections, cpu, cores, response, ..Default::default() })
    }
}

/// Accepts the statistics of a server from its agent. They are valid for 15 s.
#[utoipa::path(
    post, path = "/v1/agents/{host}/stats", tag = "services",
    request_body(content = ServerStats, content_type = "application/json"),
    responses((status = 200, description = "Accepted", body = StatsAccepted))
)]
pub(super) async fn stats(
    State(handle): State<Handle>,
    Path(text): Path<String>,
    body: Result<Body, Problem>,
) -> Result<Json<StatsAccepted>, Problem> {
    let host = address(&text)?;
    let received = body?.read::<ServerStats>()?;
    let stats = received.checked()?;
    let take = move |engine: &mut Engine| engine.handle_server_stats(host, stats, received);
    Ok(Json(StatsAccepted { is_member: handle.ask(take).await? }))
}

/// Latest statistics of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(super) struct AgentStatus {
    host: String,
    /// Age of the statistics, in seconds.
    age_s: f64,
    /// Whether the statistics are still valid.
    is_current: bool,
    stats: ServerStats,
}

/// Returns the latest statistics that agents of members sent over HTTP, by address. Statistics sent
/// in band are not included.
#[utoipa::path(get, path = "/v1/agents", tag = "services", responses((status = 200, body = Vec<AgentStatus>)))]
pub(super) async fn agents(State(handle): State<Handle>) -> Result<Json<Vec<AgentStatus>>, Problem> {
    let all = |engine: &mut Engine| {
        let now = engine.clock.now();
        let statuses = engine.agent_stats.iter().map(|(host, (at, stats))| {
            let age_s = now.saturating_sub(*at).as_s_f64();
            AgentStatus { host: host.to_string(), age_s, is_current: age_s < VALIDITY_S, stats: stats.clone() }
        });
        statuses.collect()
    };
    Ok(Json(handle.ask(all).await?))
}
