//! Requests to services: when each client sends, as flows whose groups are request classes.

use net::random::RandomStream;
use net::{HostIx, Time};

use crate::flow::{Flow, FlowList, Start};

/// When the requests of a class are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// Equal gaps over this time per client, from a random time within the first gap.
    Paced(Time),
    /// Exponential gaps between all of them, so that all come within this time on average.
    Poisson(Time),
    /// The first at the beginning, each after this gap, clients in turn; zero for all at once.
    Gap(Time),
}

#[derive(Clone, PartialEq, Debug)]
pub struct RequestSpec {
    /// The clients, in turn.
    pub clients: Vec<HostIx>,
    /// Candidates for the destination: a client sends to the first that is another host.
    pub servers: Vec<HostIx>,
    /// Requests of all clients together.
    pub count: u32,
    pub size_bytes: u64,
    /// When the first may be made.
    pub start: Time,
    /// The beginning is later by a random time below this, which differs by seed: other periodic
    /// activity must not always meet the same phase.
    pub start_within: Time,
    pub pacing: Pacing,
}

/// The requests of all classes in order of time; the group of each is the position of its class
/// plus 1. A client makes no requests if every server is the client itself.
pub fn requests(classes: &[RequestSpec], seed: u64, description: String) -> FlowList {
    let mut flows = Vec::new();
    for (number, class) in (1u32..).zip(classes) {
        let mut stream = RandomStream::new(seed, &format!("requests {number}"));
        let times = times(class, &mut stream);
        for (client, at) in class.clients.iter().cycle().zip(times) {
            let Some(dst) = class.servers.iter().find(|server| *server != client) else { continue };
            let size_bytes = class.size_bytes;
            flows.push(Flow { src: *client, dst: *dst, size_bytes, start: Start::At(at), group: number });
        }
    }
    flows.sort_by_key(|flow| flow.start.time());
    FlowList { flows, description, ..FlowList::default() }
}

/// Times of a class; clients take turns.
fn times(class: &RequestSpec, stream: &mut RandomStream) -> Vec<Time> {
    let count = u64::from(class.count);
    let later = if class.start_within == Time::ZERO { 0.0 } else { class.start_within.as_s_f64() * stream.next_f64() };
    let start = class.start.saturating_add(Time::from_s_f64(later));
    let after = |offset: f64| start.saturating_add(Time::from_s_f64(offset));
    match class.pacing {
        Pacing::Gap(gap) => {
            (0..count).map(|ix| start.saturating_add(Time::from_ps(gap.as_ps().saturating_mul(ix)))).collect()
        }
        Pacing::Poisson(over) => {
            let mean = over.as_s_f64() / count as f64;
            let mut at = 0.0;
            let next = |_| {
                at += stream.exponential(mean);
                after(at)
            };
            (0..count).map(next).collect()
        }
        Pacing::Paced(over) => {
            let clients = class.clients.len() as u64;
            let phases: Vec<f64> = (0..clients).map(|_| stream.next_f64()).collect();
            let time = |ix: u64| {
                let client = ix % clients;
                // The first clients have one more where they do not come out even.
                let own = count / clients + u64::from(client < count % clients);
                after(over.as_s_f64() * ((ix / clients) as f64 + phases[client as usize]) / own as f64)
            };
            (0..count).map(time).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(count: u32, pacing: Pacing) -> RequestSpec {
        let (clients, servers) = (vec![HostIx(0), HostIx(1)], vec![HostIx(1), HostIx(2)]);
        RequestSpec {
            clients,
            servers,
            count,
            size_bytes: 100,
            start: Time::from_s(10),
            start_within: Time::ZERO,
            pacing,
        }
    }

    fn starts(list: &FlowList, client: u32) -> Vec<f64> {
        let own = list.flows.iter().filter(|flow| flow.src.0 == client);
        own.filter_map(|flow| Some(flow.start.time()?.as_s_f64())).collect()
    }

    #[test]
    fn paced_requests_have_equal_gaps_and_clients_begin_apart() {
        let list = requests(&[class(9, Pacing::Paced(Time::from_s(20)))], 3, String::new());
        let (first, second) = (starts(&list, 0), starts(&list, 1));
        assert_eq!((first.len(), second.len()), (5, 4));
        assert!(first.windows(2).all(|pair| (pair[1] - pair[0] - 4.0).abs() < 1e-9), "{first:?}");
        assert!(second.windows(2).all(|pair| (pair[1] - pair[0] - 5.0).abs() < 1e-9), "{second:?}");
        assert!((10.0..14.0).contains(&first[0]) && (10.0..15.0).contains(&second[0]) && first[0] != second[0]);
        let other = requests(&[class(9, Pacing::Paced(Time::from_s(20)))], 4, String::new());
        assert_ne!(other, list);
    }

    #[test]
    fn gaps_are_exact_and_classes_are_merged_by_time() {
        let (slow, fast) = (class(3, Pacing::Gap(Time::from_s(2))), class(2, Pacing::Gap(Time::ZERO)));
        let list = requests(&[slow, fast], 1, String::new());
        let seen: Vec<(u32, u32, u32)> = list.flows.iter().map(|flow| (flow.group, flow.src.0, flow.dst.0)).collect();
        assert_eq!(seen, [(1, 0, 1), (2, 0, 1), (2, 1, 2), (1, 1, 2), (1, 0, 1)]);
    }

    #[test]
    fn seeds_begin_at_times_of_their_own_where_they_are_to() {
        let within = RequestSpec { start_within: Time::from_s(20), ..class(2, Pacing::Gap(Time::from_s(1))) };
        let first = |seed| starts(&requests(std::slice::from_ref(&within), seed, String::new()), 0)[0];
        let begins: Vec<f64> = (1..20).map(first).collect();
        assert!(begins.iter().all(|at| (10.0..30.0).contains(at)), "{begins:?}");
        assert!(begins.iter().any(|at| *at < 17.0) && begins.iter().any(|at| *at > 23.0), "{begins:?}");
        let list = requests(&[within], 1, String::new());
        assert!((starts(&list, 1)[0] - starts(&list, 0)[0] - 1.0).abs() < 1e-9, "the gap stays");
    }

    #[test]
    fn poisson_requests_come_at_their_mean_rate() {
        let list = requests(&[class(10_000, Pacing::Poisson(Time::from_s(100)))], 1, String::new());
        let last = starts(&list, 0).last().copied().unwrap_or_default();
        assert!((107.0..113.0).contains(&last), "{last}");
    }
}
