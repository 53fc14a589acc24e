//! A bench for unit tests of one instance: fixed candidates, fake ports, a known base RTT.

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, Stream, Tier, Time};

use super::{
    Cx, EdgeBalancer, EdgeEnv, Members, PacketView, PathFeedback, Paths, PortTelemetry, SwitchBalancer, SwitchEnv,
};
use crate::hash::flow_key;
use crate::registry::{Build, Spec};

const BASE_RTT: Time = Time::from_us(100);

/// A data packet of flow `flow`, each with its own source port.
pub(crate) fn packet(flow: u32) -> PacketView {
    let (src, dst) = (HostIx(0), HostIx(9));
    let hash = flow_key(src, dst, 6, flow as u16, (flow >> 16) as u16);
    PacketView { flow, hash, bytes: 1500, src, dst, to: ClassIx(1), is_data: true }
}

struct Idle;
impl PortTelemetry for Idle {
    fn queued_bytes(&self, _: LinkIx) -> u64 {
        0
    }
}

enum Subject {
    Switch(Box<dyn SwitchBalancer>),
    Edge(Box<dyn EdgeBalancer>),
}

/// One instance of a balancer and its surroundings.
pub(crate) struct Bench {
    subject: Subject,
    rng: Stream,
    links: Vec<LinkIx>,
    live: Vec<u16>,
    pub(crate) weights: Vec<u32>,
}

impl Bench {
    /// A switch with `ports` candidates.
    pub(crate) fn switch(spec: &str, ports: u32) -> Bench {
        let spec = Spec::parse(spec).unwrap();
        let Build::Switch(build) = spec.entry.build else { panic!("not a switch mechanism") };
        let env = SwitchEnv { seed: 1, switch: NodeIx(3), name: "s3", tier: Tier(1), class_count: 64 };
        let links: Vec<LinkIx> = (0..ports).map(|port| LinkIx(10 + 2 * port)).collect();
        let weights = vec![1; links.len()];
        Bench {
            subject: Subject::Switch(build(&env, &spec.params)),
            rng: Stream::new(1, "bench"),
            links,
            live: vec![],
            weights,
        }
    }
    /// An edge with `paths` paths to every class.
    pub(crate) fn edge(spec: &str, paths: u16) -> Bench {
        let spec = Spec::parse(spec).unwrap();
        let Build::Edge(build) = spec.entry.build else { panic!("not an edge mechanism") };
        let env = EdgeEnv { seed: 1, edge: NodeIx(3), path_counts: &[paths; 4], base_rtt: &[BASE_RTT; 4] };
        Bench {
            subject: Subject::Edge(build(&env, &spec.params)),
            rng: Stream::new(1, "bench"),
            links: vec![],
            live: (0..paths).collect(),
            weights: vec![],
        }
    }
    /// The chosen position.
    pub(crate) fn choose(&mut self, packet: &PacketView) -> usize {
        let Subject::Switch(subject) = &mut self.subject else { panic!("an edge bench") };
        let mut cx = Cx { now: Time::ZERO, rng: &mut self.rng, ports: &Idle };
        let choice = subject.choose(&mut cx, packet, Members { links: &self.links, weights: &self.weights });
        assert!(choice < self.links.len(), "answer out of range");
        choice
    }
    /// The chosen link.
    pub(crate) fn choose_link(&mut self, packet: &PacketView) -> LinkIx {
        let choice = self.choose(packet);
        self.links[choice]
    }
    /// The chosen path.
    pub(crate) fn choose_path(&mut self, packet: &PacketView, current: Option<u16>) -> u16 {
        let Subject::Edge(subject) = &mut self.subject else { panic!("a switch bench") };
        let mut cx = Cx { now: Time::ZERO, rng: &mut self.rng, ports: &Idle };
        let choice = subject.choose_path(&mut cx, packet, Paths { live: &self.live, current });
        assert!(self.live.contains(&choice), "answer is not a live path");
        choice
    }
    /// An RTT sample of `path`, in base RTTs.
    pub(crate) fn feedback(&mut self, path: u16, base_rtts: f64) {
        let Subject::Edge(subject) = &mut self.subject else { panic!("a switch bench") };
        let rtt = Time::from_ps((BASE_RTT.as_ps() as f64 * base_rtts) as u64);
        subject.on_feedback(Time::ZERO, &PathFeedback { flow: 1, to: ClassIx(1), path, rtt, marked: false });
    }
    /// Takes a candidate away.
    pub(crate) fn remove(&mut self, position: usize) -> LinkIx {
        self.weights.remove(position);
        self.links.remove(position)
    }
    /// Gives it back.
    pub(crate) fn restore(&mut self, position: usize, link: LinkIx) {
        self.weights.insert(position, 1);
        self.links.insert(position, link);
    }
}
