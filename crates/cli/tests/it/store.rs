//! `anabranch serve` is killed at random times while clients change services: every acknowledged
//! change survives the restart, and no change is half done.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Served, request};

const KILLS: u64 = 60;
const CLIENTS: u64 = 3;
const POOLS: u64 = 4;
const MEMBERS: u64 = 8;

/// A small random generator: its draws only choose the order of actions.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Weight of all members of a pool, by pool: a change is complete if all members have it.
type Model = BTreeMap<String, u64>;

/// Changes pools until the daemon stops answering. Returns the acknowledged state, the
/// unacknowledged change and the number of acknowledged changes.
fn change(http: &str, client: u64, mut model: Model, mut draw: Draw) -> (Model, Option<(String, Option<u64>)>, u64) {
    let mut acknowledged = 0;
    loop {
        let name = format!("c{client}-p{}", draw.below(POOLS));
        if model.contains_key(&name) && draw.below(4) == 0 {
            match request(http, &format!("DELETE /v1/pools/{name}"), "", "") {
                Some((204, _)) => drop(model.remove(&name)),
                None => return (model, Some((name, None)), acknowledged),
                other => panic!("{other:?}"),
            }
        } else {
            let weight = 1 + draw.below(1_000_000);
            let members = (0..MEMBERS).map(|ix| json!({"name": format!("m{ix}"), "address": format!("10.{client}.0.{}", ix + 1), "weight": weight}));
            let body = json!({"members": members.collect::<Vec<_>>()}).to_string();
            match request(http, &format!("PUT /v1/pools/{name}"), "", &body) {
                Some((200 | 201, _)) => drop(model.insert(name, weight)),
                None => return (model, Some((name, Some(weight))), acknowledged),
                other => panic!("{other:?}"),
            }
        }
        acknowledged += 1;
    }
}

/// Returns the pools of a client in a daemon.
fn read(http: &str, client: u64) -> Model {
    let (status, body) = request(http, "GET /v1/pools", "", "").expect("an answer");
    assert_eq!(status, 200, "{body}");
    let pools: Value = serde_json::from_str(&body).expect("JSON");
    let of_client = format!("c{client}-");
    let mut model = Model::new();
    for pool in pools.as_array().expect("a list") {
        let name = pool["name"].as_str().expect("a name");
        if !name.starts_with(&of_client) {
            continue;
        }
        let weights: Vec<u64> = pool["members"]
            .as_array()
            .expect("members")
            .iter()
            .filter_map(|member| member["weight"].as_u64())
            .collect();
        assert!(
            weights.len() == MEMBERS as usize && weights.iter().all(|weight| *weight == weights[0]),
            "half a change: {pool}"
        );
        model.insert(name.to_owned(), weights[0]);
    }
    model
}

#[test]
fn acknowledged_changes_survive_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json");
    let start = || Served::start(&["--state", state.to_str().expect("a plain name")], Stdio::null());
    let mut models = vec![Model::new(); CLIENTS as usize];
    let (mut draw, mut changes, mut unacknowledged_done) = (Draw(20_261_122), 0, 0);
    for round in 0..KILLS {
        let served = start();
        let (sender, receiver) = mpsc::channel();
        let clients: Vec<_> = models
            .drain(..)
            .enumerate()
            .map(|(client, model)| {
                let (http, draw, started) =
                    (served.http().to_owned(), Draw(round * CLIENTS + client as u64), sender.clone());
                thread::spawn(move || {
                    let _ = started.send(());
                    change(&http, client as u64, model, draw)
                })
            })
            .collect();
        receiver.recv().expect("a client begins");
        thread::sleep(Duration::from_micros(2_000 + draw.below(300_000)));
        drop(served);
        let ended: Vec<_> = clients.into_iter().map(|client| client.join().expect("a client")).collect();

        let served = start();
        for (client, (mut model, unacknowledged, acknowledged)) in ended.into_iter().enumerate() {
            changes += acknowledged;
            let found = read(served.http(), client as u64);
            if found != model
                && let Some((name, weight)) = unacknowledged
            {
                unacknowledged_done += 1;
                match weight {
                    Some(weight) => drop(model.insert(name, weight)),
                    None => drop(model.remove(&name)),
                }
            }
            assert_eq!(found, model, "round {round}, client {client}");
            models.push(found);
        }
        drop(served);
    }
    println!(
        "{changes} changes acknowledged, {unacknowledged_done} more applied without acknowledgement, {KILLS} kills"
    );
    // On any disk, kills must have come between changes and in the middle of some.
    assert!(
        changes > KILLS && unacknowledged_done > 0,
        "too few changes: {changes} changes, {unacknowledged_done} more"
    );
}
