//! Results of requests, in the form of the simulator's records.

use std::collections::BTreeMap;

use experiment::runner::{ConnectionCounts, Scenario, ServerRecord, ServicesRecord};
use net::Time;

use super::Plan;
use super::clients::{Page, Request};
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::services::requests::Failure;

#[derive(Debug, Default)]
pub struct Served {
    pub traffic: TrafficMeasurement,
    pub record: ServicesRecord,
    pub failures: BTreeMap<String, u64>,
    /// Maximum delay of a job, milliseconds.
    pub compute_overrun_ms: f64,
}

/// Summarises requests. `busy_s`: processor time of each server, in seconds of its cores.
pub fn served(plan: &Plan<'_>, scenario: &Scenario<'_>, requests: &[Request], busy_s: &[f64]) -> Served {
    let flows = &scenario.flows.flows;
    let servers = plan.services.servers.len();
    let mut served = Served {
        traffic: TrafficMeasurement { flows: vec![FlowMeasurement::default(); flows.len()], ..Default::default() },
        record: ServicesRecord {
            servers: vec![ServerRecord { pages: vec![0; plan.services.classes.len()], ..Default::default() }; servers],
            served_by: vec![None; flows.len()],
            ..ServicesRecord::default()
        },
        ..Served::default()
    };
    let mut spans: Vec<Vec<(u64, i32)>> = vec![Vec::new(); servers];
    for request in requests {
        let class = flows[request.flow].group as usize - 1;
        served.add_request(request, plan.services.classes[class].pages);
        for page in &request.pages {
            if let Some(server) = served.add_page(plan, class, page) {
                served.record.served_by[request.flow] = Some(server as u32);
                spans[server].extend([(page.start_ns, 1), (page.end_ns, -1)]);
            }
        }
    }
    for ((record, spans), busy) in served.record.servers.iter_mut().zip(spans).zip(busy_s) {
        record.busy = Time::from_s_f64(busy.max(0.0));
        record.jobs_max = max_simultaneous(spans);
    }
    served
}

impl Served {
    fn add_request(&mut self, request: &Request, pages: u32) {
        let (Some(first), Some(last)) = (request.pages.first(), request.pages.last()) else { return };
        let has_ended = !matches!(last.result, Err(Failure::Stopped));
        let bytes = request.pages.iter().filter_map(|page| Some(page.result.as_ref().ok()?.bytes)).sum();
        self.traffic.flows[request.flow] = FlowMeasurement {
            first_ns: first.start_ns,
            last_ns: last.end_ns,
            // A request that has ended sends nothing more.
            is_all_sent: has_ended,
            is_complete: last.result.is_ok() && request.pages.len() == pages as usize,
            bytes,
            ..FlowMeasurement::default()
        };
        if let (Err(failure), true) = (&last.result, has_ended) {
            *self.failures.entry(failure.to_string()).or_insert(0) += 1;
        }
    }

    fn add_page(&mut self, plan: &Plan<'_>, class: usize, page: &Page) -> Option<usize> {
        let ConnectionCounts { opened, answered, failed, open } = &mut self.record.connections;
        *opened += 1;
        match &page.result {
            Ok(_) => *answered += 1,
            Err(Failure::Stopped) => *open += 1,
            Err(_) => *failed += 1,
        }
        let answer = page.result.as_ref().ok()?;
        self.compute_overrun_ms = self.compute_overrun_ms.max(answer.late_us as f64 / 1e3);
        let server = plan.server_named(answer.server.as_deref()?)?;
        let record = &mut self.record.servers[server];
        record.pages[class] += 1;
        record.connections += 1;
        Some(server)
    }
}

/// Returns the maximum number of simultaneous spans; spans that only touch do not overlap.
fn max_simultaneous(mut edges: Vec<(u64, i32)>) -> u32 {
    edges.sort_unstable();
    let (mut now, mut most) = (0i32, 0i32);
    for (_, change) in edges {
        now += change;
        most = most.max(now);
    }
    most.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_spans_do_not_overlap() {
        assert_eq!(max_simultaneous(vec![(1, 1), (5, -1), (5, 1), (9, -1)]), 1);
        assert_eq!(max_simultaneous(vec![(1, 1), (6, -1), (5, 1), (9, -1), (2, 1), (3, -1)]), 2);
        assert_eq!(max_simultaneous(Vec::new()), 0);
    }
}
