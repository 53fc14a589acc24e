//! Sessions: any sequence of connections, messages, losses and times leaves the controller with
//! bounded state and output. It never panics, no timer stays due, and it settles when all peers are
//! gone.
//!
//! Each step is an opcode, a connection, and data: a message of an arbitrary length, or a time.
#![no_main]

use anabranch_balance::{Build, Spec, central::CentralEnv};
use anabranch_control::{Config, Controller};
use anabranch_net::Time;
use anabranch_openflow::wire::decode;
use anabranch_openflow::{ConnectionId, ToController};

/// Maximum number of outputs that one input may cause.
const OUTPUTS_MAX: usize = 100_000;
/// Maximum number of timers at one time.
const TIMERS_MAX: usize = 100;

fn controller() -> Controller {
    let spec = Spec::parse("sdn-ecmp").unwrap();
    let Build::Central(build) = spec.entry.build else { panic!("a central balancer") };
    let config = Config {
        requests_mastership: true,
        audit_interval: Some(Time::from_s(1)),
        hosts_max: 100,
        flows_max: 100,
        read_back_bytes_max: 1 << 20,
        ..Config::default()
    };
    Controller::new(config, build(&CentralEnv { seed: 1 }, &spec.params))
}

fn drain(controller: &mut Controller) {
    let count = std::iter::from_fn(|| controller.poll_output()).take(OUTPUTS_MAX).count();
    assert!(count < OUTPUTS_MAX, "one input causes too many outputs");
}

fn run_until(controller: &mut Controller, end: Time) {
    let (mut at, mut timers) = (Time::ZERO, 0);
    while let Some(due) = controller.poll_timeout().filter(|due| *due <= end) {
        timers = if due <= at { timers + 1 } else { 0 };
        at = at.max(due);
        assert!(timers < TIMERS_MAX, "a timer stays due");
        controller.handle_timeout(at);
        drain(controller);
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut controller = controller();
    let (mut now, mut rest) = (Time::ZERO, bytes);
    while let Some(([opcode, number], data)) = rest.split_first_chunk::<2>() {
        let connection = ConnectionId(u32::from(number % 8));
        rest = data;
        match opcode % 4 {
            0 => controller.handle(now, ToController::Connected(connection)),
            1 => controller.handle(now, ToController::Disconnected(connection)),
            2 => {
                now = now + Time::from_ms(u64::from(*number) * 20);
                run_until(&mut controller, now);
            }
            _ => {
                let Ok(Some((envelope, length))) = decode(rest) else { continue };
                rest = &rest[length..];
                controller.handle(now, ToController::Message(connection, envelope));
            }
        }
        drain(&mut controller);
        assert!(controller.inspect().session_count() <= 8 && controller.inspect().hosts().count() <= 100);
    }
    (0..8).for_each(|number| controller.handle(now, ToController::Disconnected(ConnectionId(number))));
    drain(&mut controller);
    run_until(&mut controller, now + Time::from_s(120));
    assert!(controller.is_settled(), "the controller does not settle without peers");
});
