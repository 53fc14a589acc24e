//! Response times by class, and the load of servers.

use net::Topology;
use sim::{FlowEnd, FlowRecord, Outcome, ServicesConfig, ServicesRecord};
use traffic::{Flow, FlowList};

use crate::results::quantiles::{self, quantile, sorted};
use crate::summary::{ClassSummary, ConnectionSummary, Quantiles, Requests, ServerSummary, Spread};

pub(super) fn requests(
    topology: &Topology,
    flows: &FlowList,
    config: Option<&ServicesConfig>,
    outcome: &Outcome,
) -> Option<Requests> {
    let (config, record) = (config?, outcome.services.as_ref()?);
    let records = || flows.flows.iter().zip(&outcome.flows);
    let class = |(ix, class): (u32, &sim::RequestClass)| {
        let pages = record.servers.iter().map(|server| server.pages[ix as usize]).collect();
        summary(&class.name, records().filter(|(flow, _)| flow.group == ix + 1), pages)
    };
    let pages = record.servers.iter().map(|server| server.pages.iter().sum()).collect();
    let counts = record.connections;
    Some(Requests {
        all: summary("all", records(), pages),
        classes: (0u32..).zip(&config.classes).map(class).collect(),
        servers: servers(topology, config, record, outcome),
        connections: ConnectionSummary {
            opened: counts.opened,
            completed: counts.answered,
            failed: counts.failed,
            open: counts.open,
        },
        misaddressed: record.misaddressed,
    })
}

fn summary<'a>(name: &str, records: impl Iterator<Item = (&'a Flow, &'a FlowRecord)>, pages: Vec<u64>) -> ClassSummary {
    let mut class = ClassSummary { class: name.to_owned(), pages, ..ClassSummary::default() };
    let (mut times, mut rates) = (Vec::new(), 0.0);
    for (flow, record) in records {
        class.started += u64::from(record.end != FlowEnd::NotStarted);
        match record.end {
            FlowEnd::Completed => {
                class.completed += 1;
                times.push(record.fct.as_us_f64());
                rates += flow.size_bytes as f64 / record.fct.as_s_f64().max(1e-12);
            }
            FlowEnd::Failed => class.failed += 1,
            FlowEnd::Running => class.running += 1,
            FlowEnd::NotStarted => {}
        }
    }
    class.download_bytes_per_s = if times.is_empty() { 0.0 } else { rates / times.len() as f64 };
    class.response_us = spread(&sorted(times));
    class
}

fn spread(sorted: &[f64]) -> Spread {
    let Quantiles { count, mean, p50, p99, max, .. } = quantiles::summary(sorted);
    Spread { count, mean, p10: quantile(sorted, 0.1), p50, p90: quantile(sorted, 0.9), p99, max }
}

fn servers(
    topology: &Topology,
    config: &ServicesConfig,
    record: &ServicesRecord,
    outcome: &Outcome,
) -> Vec<ServerSummary> {
    let server = |(config, record): (&sim::ServerConfig, &sim::ServerRecord)| {
        let all = outcome.end.as_s_f64() * f64::from(config.cores);
        ServerSummary {
            host: topology.node(topology.host(config.host)).name.clone(),
            cores: config.cores,
            connections: record.connections,
            busy_share: if all > 0.0 { record.busy.as_s_f64() / all } else { 0.0 },
            jobs_max: record.jobs_max,
        }
    };
    config.servers.iter().zip(&record.servers).map(server).collect()
}
