//! Rules deleted behind the backs of controllers that notice it, or do not.

use std::time::Duration;

use crate::common::{Behaviour, Controller, discovery_rule, star, start, target};
use anabranch_ofload::{AuditRequests, Deletion, Error, Load, Options, RepairReport, RepairSchedule, measure_repair};

fn measure(controller: &Controller, has_flow_monitors: bool) -> Result<RepairReport, Error> {
    let schedule = RepairSchedule {
        install_max: Duration::from_secs(10),
        idle: Duration::from_millis(300),
        repair_max: Duration::from_secs(2),
    };
    let options = Options { has_flow_monitors, ..star(controller, 5, 3, Load::Window(1)) };
    measure_repair(target("test", options), &[Deletion::One, Deletion::All], schedule, &mut |_| {})
}

#[test]
fn deleted_rules_come_back_where_a_monitor_reports_them() {
    let report = measure(&start(Behaviour::Repairs), true).expect("the controller installs rules");
    assert_eq!(report.faults(), Vec::<String>::new(), "{report:?}");
    assert_eq!((report.idle.rules, report.idle.requests), (5, AuditRequests::default()));
    assert_eq!(report.idle.requests_before, AuditRequests { flow_statistics: 0, flow_monitors: 5 });
    let [one, all] = &report.repairs[..] else { panic!("two deletions: {report:?}") };
    for (repair, switches) in [(one, 1), (all, 5)] {
        assert_eq!((repair.switches, repair.rules, repair.missing), (switches, switches as u64, 0), "{repair:?}");
        assert_eq!(repair.flow_mods, switches as u64, "{repair:?}");
        let [p50, p99, max] = repair.seconds.expect("all were repaired");
        assert!(p50 <= p99 && p99 <= max && max < 2.0, "{repair:?}");
    }
    assert!(report.idle.resident_bytes > Some(0) && one.controller_cpu_s.is_some(), "{report:?}");
}

#[test]
fn rules_that_stay_away_are_a_fault() {
    let controller = start(Behaviour::Requests(|| vec![discovery_rule()]));
    let report = measure(&controller, false).expect("the controller installs rules");
    assert_eq!(report.repairs.len(), 2);
    assert_eq!((report.repairs[0].missing, report.repairs[0].seconds), (1, None), "{report:?}");
    assert!(report.faults()[0].contains("1 of 1 deleted rules"), "{report:?}");
}

#[test]
fn controller_without_rules_is_named() {
    let error = measure(&start(Behaviour::Requests(Vec::new)), false).unwrap_err();
    assert!(matches!(error, Error::NoRules { .. }), "{error}");
}
