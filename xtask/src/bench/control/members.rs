//! The cost of a large fleet: this program is another controller, which tells one of all agents' turns.
//!
//! The connections of the agents that the controller would have itself are not in the figure, and neither are its probes: the
//! members are in no inventory.

use std::time::Duration;

use anyhow::{Context, Result};
use control::{ControlClient, ControlPlace};
use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet};
use end_to_end::process::cpu_time;
use serde_json::{Value, json};

use super::figure::ControlFigure;
use super::operator::credentials;
use super::rest::anonymous_mb;

/// All agents have their turn in this time.
const TURNS_IN_S: usize = 15;
/// Rounds of turns that are measured, after one that is not.
const ROUNDS: usize = 3;
/// Messages of a second.
const MESSAGES_PER_S: usize = 10;

/// Tells a controller of a fleet of this size for a minute.
pub(super) fn measure(members: usize) -> Result<Vec<ControlFigure>> {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.certificate("controller", "other");
    fleet.controller(1, 1);
    let pid = fleet.controller_pid(1).context("a controller")?;
    let place = ControlPlace::Tls(fleet.controller_address(1).to_string());
    let client = ControlClient::new(&place, credentials(&fleet, "other.pem")?.current())?;
    eprintln!("members: {members} of them for {} s", (ROUNDS + 1) * TURNS_IN_S);
    let (mut before, mut began) = (cpu_time(pid)?, clock::now());
    for round in 0..=ROUNDS {
        if round == 1 {
            (before, began) = (cpu_time(pid)?, clock::now());
        }
        tell_all(&client, members, round as u64 + 1)?;
    }
    let cores = (cpu_time(pid)? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let of = format!("{members} members told by another controller");
    Ok(vec![
        ControlFigure::new("members", format!("CPU, {of}"), cores, "cores").at_most(0.5),
        ControlFigure::new("members", format!("anonymous memory, {of}"), anonymous_mb(pid)?, "MB")
            .at_most(400.0),
    ])
}

fn tell_all(client: &ControlClient, members: usize, turn: u64) -> Result<()> {
    let began = clock::now();
    let messages = TURNS_IN_S * MESSAGES_PER_S;
    for message in 0..messages {
        let (first, end) = (members * message / messages, members * (message + 1) / messages);
        let turns: Vec<Value> = (first..end).map(|number| report(number, turn)).collect();
        let body = json!({"controller": "other", "zone": "z2", "turns": turns});
        let answer = client.post("/v1/liveness", &body, Duration::from_secs(10))?;
        anyhow::ensure!(answer.is_ok(), "{}", answer.error());
        clock::pass_until(began + Duration::from_millis(1000 / MESSAGES_PER_S as u64) * (message as u32 + 1));
    }
    Ok(())
}

/// A turn of a host with a server, and of every fifth with a router that has traffic.
fn report(number: usize, turn: u64) -> Value {
    let router = json!([{
        "router": format!("r{number}"), "view": "main", "generation": null, "text": "loaded", "has_traffic": true,
    }]);
    json!({
        "host": format!("h{number}"), "zone": format!("z{}", number % 3), "boot": 1, "turn": turn,
        "members": [{"member": format!("m{number}"), "process": {"running": {"pid": 4711}}, "hits": turn, "misses": 1}],
        "routers": if number.is_multiple_of(5) { router } else { json!([]) },
    })
}
