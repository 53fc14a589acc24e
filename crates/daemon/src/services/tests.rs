//! Names and ids, origins, and conflicts.

use serde_json::{Value, json};

use super::*;

fn name(text: &str) -> Name {
    Name::try_from(text.to_owned()).expect("a name")
}

fn service(value: Value) -> ServiceSpec {
    read(value).expect("a service")
}

fn pool(members: &[(&str, &str)]) -> PoolSpec {
    let member = |(name, address): &(&str, &str)| json!({"name": name, "address": address});
    read(json!({"members": members.iter().map(member).collect::<Vec<_>>()})).expect("a pool")
}

/// Returns a service with a pool of two members.
pub(super) fn some() -> Desired {
    let mut desired = Desired::default();
    desired.put_pool(Origin::Api, &name("web"), pool(&[("a", "10.0.0.1"), ("b", "10.0.0.2")])).expect("a pool");
    let web = service(json!({"address": "10.0.0.100", "port": 80, "pool": "web"}));
    desired.put_service(Origin::Api, &name("web"), web).expect("a service");
    desired
}

/// Returns a state with one service of this name.
pub(super) fn named(text: &str) -> Desired {
    let mut desired = Desired::default();
    let spec = service(json!({"address": "10.0.0.100", "port": 80}));
    desired.put_service(Origin::Api, &name(text), spec).expect("a service");
    desired
}

#[test]
fn ids_stay_with_names_and_are_reused_last() {
    let mut desired = some();
    let numbers = |desired: &Desired| {
        desired.pools[&name("web")].members.iter().map(|(name, number)| (name.to_string(), *number)).collect::<Vec<_>>()
    };
    let owned = |list: &[(&str, u32)]| list.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(numbers(&desired), owned(&[("a", 1), ("b", 2)]));
    // `a` gets another address and so is another member; `b` is removed and returns.
    desired.put_pool(Origin::Api, &name("web"), pool(&[("a", "10.0.0.3"), ("b", "10.0.0.2")])).expect("a pool");
    assert_eq!(numbers(&desired), owned(&[("a", 3), ("b", 2)]));
    desired.put_pool(Origin::Api, &name("web"), pool(&[("a", "10.0.0.3")])).expect("a pool");
    desired.put_pool(Origin::Api, &name("web"), pool(&[("a", "10.0.0.3"), ("b", "10.0.0.2")])).expect("a pool");
    assert_eq!(numbers(&desired), owned(&[("a", 3), ("b", 4)]));
    assert_eq!(desired.remove_service(Origin::Api, &name("web")), Ok(true));
    let web = service(json!({"address": "10.0.0.100", "port": 80}));
    assert_eq!(desired.put_service(Origin::Api, &name("web"), web), Ok(true));
    assert_eq!(desired.services[&name("web")].id, 2, "a new service gets a new id");
    assert_eq!(next_free(3, 4, |number| number > 2), Some(1));
    assert_eq!(next_free(4, 4, |number| number == 1), Some(2));
    assert_eq!(next_free(2, 4, |number| number != 2), Some(2));
    assert_eq!(next_free(0, 2, |_| true), None);
}

#[test]
fn origin_protects_definitions_from_other_origins() {
    let mut desired = some();
    for (refused, reason) in [
        (desired.remove_service(Origin::File, &name("web")), "defined by the API"),
        (desired.remove_pool(Origin::Api, &name("web")), "used by service `web`"),
    ] {
        assert!(matches!(&refused, Err(ChangeError::Conflict(text)) if text.contains(reason)), "{refused:?}");
    }
    let file = |port: u16| service(json!({"address": "10.0.0.101", "port": port}));
    let defined = |list: &[(&str, u16)]| {
        let services = list.iter().map(|(text, port)| (name(text), file(*port))).collect();
        ConfiguredServices { services, ..ConfiguredServices::default() }
    };
    desired.follow(Origin::File, &defined(&[("x", 1), ("y", 2)])).expect("they are free");
    desired.follow(Origin::File, &defined(&[("y", 3), ("z", 4)])).expect("they are free");
    let found: Vec<_> = desired.services.iter().map(|(name, service)| (name.to_string(), service.id)).collect();
    assert_eq!(
        found,
        [("web", 1), ("y", 3), ("z", 4)].map(|(name, n)| (name.to_owned(), n)),
        "`y` keeps its id, definitions of the API are unchanged"
    );
    let refused = desired.follow(Origin::File, &defined(&[("web", 3)]));
    assert!(matches!(&refused, Err(ChangeError::Conflict(_))), "{refused:?}");
}

#[test]
fn conflicts_name_the_field() {
    let checker = Some("10.0.0.254".parse().expect("an address"));
    assert_eq!(some().check(None, ErrorScope::All), Ok(()));
    let fault = |value: Value| {
        let mut desired = some();
        desired.put_service(Origin::Api, &name("a"), service(value)).expect("a service");
        desired.check(checker, ErrorScope::Service(&name("a"))).expect_err("a fault").field
    };
    for (field, value) in [
        ("address", json!({"address": "224.0.0.1", "port": 80})),
        ("address", json!({"address": "10.0.0.254", "port": 80})),
        ("address", json!({"address": "10.0.0.2", "port": 80})),
        ("port", json!({"address": "10.0.0.100", "port": 80})),
        ("port", json!({"address": "10.0.0.100"})),
        ("port", json!({"address": "10.0.0.100", "protocol": "icmp", "port": 8})),
        ("pool", json!({"address": "10.0.0.100", "port": 81, "pool": "absent"})),
        ("mac", json!({"address": "10.0.0.100", "port": 81, "mac": "02:00:00:00:00:01"})),
        ("mac", json!({"address": "10.0.0.101", "port": 81, "mac": "01:00:00:00:00:01"})),
        ("idle_timeout_s", json!({"address": "10.0.0.101", "port": 81, "idle_timeout_s": 0})),
        ("client_slots", json!({"address": "10.0.0.101", "port": 81, "client_slots": 48})),
        ("client_slots", json!({"address": "10.0.0.101", "port": 81, "client_slots": 1})),
        ("rules", json!({"address": "10.0.0.101", "port": 81, "pool": "web", "rules": "wildcard"})),
        ("rules", json!({"address": "10.0.0.101", "protocol": "icmp", "rules": "wildcard"})),
    ] {
        assert_eq!(fault(value.clone()), field, "{value}");
    }
    let fault = |value: Value| {
        let mut desired = some();
        desired.put_pool(Origin::Api, &name("web"), read(value).expect("a pool")).expect("a pool");
        desired.check(checker, ErrorScope::Pool(&name("web"))).expect_err("a fault").field
    };
    for (field, value) in [
        ("balancer", json!({"balancer": "server-rrr"})),
        ("balancer", json!({"balancer": "ecmp"})),
        ("balancer", json!({"balancer": "maglev:size=7x"})),
        ("members[0].address", json!({"members": [{"name": "a", "address": "10.0.0.100"}]})),
        ("members[0].address", json!({"members": [{"name": "a", "address": "127.0.0.1"}]})),
        ("members[0].port", json!({"members": [{"name": "a", "address": "10.0.0.1", "port": 0}]})),
        (
            "members[1].name",
            json!({"members": [{"name": "a", "address": "10.0.0.1"}, {"name": "a", "address": "10.0.0.2"}]}),
        ),
        ("monitor.interval_s", json!({"monitor": {"check": "icmp", "interval_s": 1e300}})),
        ("monitor.timeout_s", json!({"monitor": {"check": "icmp", "timeout_s": 3.0}})),
        ("monitor.rise", json!({"monitor": {"check": "icmp", "rise": 0}})),
        ("monitor.port", json!({"monitor": {"check": "tcp", "port": 0}})),
        ("monitor.path", json!({"monitor": {"check": "http", "path": "a b"}})),
        ("monitor.statuses", json!({"monitor": {"check": "http", "statuses": [300, 200]}})),
    ] {
        assert_eq!(fault(value.clone()), field, "{value}");
    }
    let mut desired = some();
    let monitored = read(json!({"monitor": {"check": "icmp"}})).expect("a pool");
    desired.put_pool(Origin::Api, &name("web"), monitored).expect("a pool");
    let fault = desired.check(None, ErrorScope::All).expect_err("no checker");
    assert_eq!(fault.field, "pools.web.monitor");
    assert_eq!(desired.check(checker, ErrorScope::All), Ok(()));
}
