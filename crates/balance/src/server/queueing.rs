//! A queueing system for tests: Poisson arrivals, exponential service, one queue per member.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use net::{RandomStream, Time};

use super::Request;
use super::testing::Bench;

/// A service time of 1, as time of the bench.
const SERVICE: Time = Time::from_ms(1);
/// Duration of the requests that count, and of those before them, in service times. At a load of 90 % a
/// queue that requests reach by chance forgets its state in some 400; with two choices, in some 30.
pub const LONG: f64 = 8_000.0;
pub const SHORT: f64 = 1_600.0;
const WARM_UP_SHARE: f64 = 0.125;
/// Gain of the mean response time in reports.
const GAIN: f64 = 0.1;

/// Members with their speeds, and how they are used.
#[derive(Clone, Copy)]
pub struct System<'a> {
    pub speeds: &'a [f64],
    /// Share of the capacity of all.
    pub load: f64,
    /// Time between two reports of every member: its connections, and the mean time of its requests.
    pub report_every: Option<Time>,
    /// Service times that are measured.
    pub measured: f64,
}

pub struct Served {
    /// Mean time in the system, in service times.
    pub mean: f64,
    /// Share of each member in the requests.
    pub shares: Vec<f64>,
}

/// Returns the mean time of requests in a system of equal members, in service times.
pub fn mean_time(spec: &str, members: usize, load: f64, measured: f64) -> f64 {
    System { speeds: &vec![1.0; members], load, report_every: None, measured }.run(spec).mean
}

impl System<'_> {
    pub fn run(&self, spec: &str) -> Served {
        let mut bench = Bench::new(spec, &vec![1; self.speeds.len()]);
        let mut rng = RandomStream::new(7, "queueing");
        let service_ps = SERVICE.as_ps() as f64;
        let mut exponential = move |mean: f64| Time::from_ps((-(1.0 - rng.next_f64()).ln() * mean) as u64);
        let gap_ps = service_ps / self.load / self.speeds.iter().sum::<f64>();
        let mut queues: Vec<VecDeque<(Request, usize)>> = vec![VecDeque::new(); self.speeds.len()];
        let mut response_ps = vec![service_ps; self.speeds.len()];
        let mut hits = vec![0u32; self.speeds.len()];
        let mut departures: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
        let (mut total, mut arrival, mut next_report) = (0.0, Time::ZERO, Time::ZERO);
        let per_service_time = service_ps / gap_ps;
        let warm_up = (self.measured * WARM_UP_SHARE * per_service_time) as usize;
        let measured = (self.measured * per_service_time) as usize;
        for number in 0..warm_up + measured {
            arrival = arrival.saturating_add(exponential(gap_ps));
            loop {
                let departure = departures.peek().map(|Reverse((at, _))| *at).filter(|at| *at <= arrival);
                if let Some(every) = self.report_every
                    && next_report <= departure.unwrap_or(arrival)
                {
                    bench.network.now = next_report;
                    for (at, queue) in queues.iter().enumerate() {
                        bench.report(at as u32 + 1, |stats| {
                            (stats.connections, stats.response) =
                                (Some(queue.len() as u32), Some(Time::from_ps(response_ps[at] as u64)));
                        });
                    }
                    next_report = next_report.saturating_add(every);
                    continue;
                }
                if departure.is_none() {
                    break;
                }
                let Reverse((at, member)) = departures.pop().expect("it was seen");
                bench.network.now = at;
                let (request, number) = queues[member].pop_front().expect("one in service");
                bench.end(&request, member as u32 + 1, 0);
                let time_ps = at.saturating_sub(request.at).as_ps() as f64;
                response_ps[member] += (time_ps - response_ps[member]) * GAIN;
                if number >= warm_up {
                    total += time_ps;
                }
                if !queues[member].is_empty() {
                    departures
                        .push(Reverse((at.saturating_add(exponential(service_ps / self.speeds[member])), member)));
                }
            }
            bench.network.now = arrival;
            let request = bench.request();
            let member = bench.pick_for(&request).expect("a member").member.0 as usize - 1;
            hits[member] += 1;
            queues[member].push_back((request, number));
            if queues[member].len() == 1 {
                departures
                    .push(Reverse((arrival.saturating_add(exponential(service_ps / self.speeds[member])), member)));
            }
        }
        // The last ones, which are still in the system, count until now.
        let rest = queues.iter().flatten().filter(|(_, number)| *number >= warm_up);
        total += rest.map(|(request, _)| arrival.saturating_sub(request.at).as_ps() as f64).sum::<f64>();
        let requests = (warm_up + measured) as f64;
        Served {
            mean: total / measured as f64 / service_ps,
            shares: hits.iter().map(|hits| f64::from(*hits) / requests).collect(),
        }
    }
}
