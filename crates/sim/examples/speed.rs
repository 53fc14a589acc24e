//! Runs one peer scenario and prints its figures: `cargo run --release --example speed S1`.
use std::time::Instant;
fn main() {
    let id = std::env::args().nth(1).unwrap_or("S1".into());
    let s = anabranch_sim::peers::scenario(&id).unwrap().unwrap();
    let t = Instant::now();
    let o = anabranch_sim::run(
        &anabranch_sim::Scenario {
            topology: &s.topology,
            flows: &s.flows,
            balancer: &s.balancer,
            seed: 1,
            config: &s.config,
        },
        &mut |_| true,
    )
    .unwrap();
    let w = t.elapsed().as_secs_f64();
    println!("{} {:?}\n{:?}", s.title, o.books, o.engine);
    println!("end {} wall {w:.3} hops/s {:.2} M", o.end, o.engine.packet_hops as f64 / w / 1e6);
    let n = o.flows.len() as f64;
    println!(
        "mean fct {:.1} us timeouts {} retx {}",
        o.flows.iter().map(|f| f.fct.as_us_f64()).sum::<f64>() / n,
        o.flows.iter().map(|f| f.timeouts).sum::<u32>(),
        o.flows.iter().map(|f| f.retransmitted).sum::<u32>()
    );
    println!(
        "{}",
        std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap()
    );
}
