//! Names of servers without an address: lines for an operator who checks a configuration.
//!
//! A router that runs looks names up itself, and says which have none. A check ends, so it looks up each name once, and does not
//! wait for name servers that do not answer.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use router::{RoutePlan, ServerPlace};
use stdx::words::counted;

/// Lookups at a time: each is a thread that waits.
const LOOKUPS: usize = 32;

/// The longest time in which no lookup ends: twice what getaddrinfo(3) gives a name server for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Names that have a line of their own; the others are a number.
const SHOWN_MAX: usize = 20;

/// Looks a name up.
type Lookup = fn(&str) -> Result<Vec<IpAddr>, String>;

/// A line for each server's name without an address.
pub(super) fn unresolved(plan: &RoutePlan, lookup: Lookup) -> Vec<String> {
    let names = plan.servers.iter().filter_map(|spec| match &spec.place {
        ServerPlace::Named { host, .. } => Some(Arc::clone(host)),
        ServerPlace::Fixed(_) => None,
    });
    without_address(names.collect(), lookup, PATIENCE)
}

fn without_address(mut names: Vec<Arc<str>>, lookup: Lookup, patience: Duration) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    let threads = names.len().min(LOOKUPS);
    let queue = Arc::new(Mutex::new(VecDeque::from(names.clone())));
    let (ended, endings) = mpsc::channel();
    for number in 0..threads {
        let (queue, ended) = (Arc::clone(&queue), ended.clone());
        let work = move || {
            loop {
                let name = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(name) = name else { return };
                let found = lookup(&name);
                // Whoever has waited long enough does not listen any more.
                let _ = ended.send((name, found));
            }
        };
        // Without a thread, its names stay with the others, or are not looked up.
        let _ = thread::Builder::new().name(format!("lookup-{number}")).spawn(work);
    }
    drop(ended);
    let unanswered = format!("no answer in {} s", patience.as_secs());
    let mut failed: BTreeMap<Arc<str>, String> =
        names.into_iter().map(|name| (name, unanswered.clone())).collect();
    while let Ok((name, found)) = endings.recv_timeout(patience) {
        match found {
            Ok(addresses) if !addresses.is_empty() => drop(failed.remove(&name)),
            Ok(_) => drop(failed.insert(name, "the name has no address".to_owned())),
            Err(error) => drop(failed.insert(name, error)),
        }
    }
    let more = failed.len().saturating_sub(SHOWN_MAX);
    let shown = failed.into_iter().take(SHOWN_MAX);
    let shown = shown.map(|(name, why)| format!("server {name} has no address now: {why}"));
    shown.chain((more > 0).then(|| format!("{} more without an address", counted(more, "server")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Result<Vec<IpAddr>, String> {
        match name {
            "here" => Ok(vec![[127, 0, 0, 1].into()]),
            "nothing" => Ok(Vec::new()),
            "silent" => loop {
                thread::park();
            },
            _ => Err("no such name".to_owned()),
        }
    }

    #[track_caller]
    fn check(names: &[&str], expected: &[&str]) {
        let names = names.iter().map(|name| Arc::from(*name)).collect();
        assert_eq!(without_address(names, lookup, Duration::from_secs(60)), expected);
    }

    #[test]
    fn names_without_an_address_are_lines() {
        check(&[], &[]);
        check(&["here", "here"], &[]);
        check(
            &["x", "nothing", "here", "x"],
            &[
                "server nothing has no address now: the name has no address",
                "server x has no address now: no such name",
            ],
        );
    }

    #[test]
    fn a_name_server_that_does_not_answer_is_not_waited_for() {
        let lines = without_address(vec!["silent".into(), "here".into()], lookup, Duration::from_secs(5));
        assert_eq!(lines, ["server silent has no address now: no answer in 5 s"]);
    }

    #[test]
    fn many_names_are_a_few_lines_and_a_number() {
        let names: Vec<Arc<str>> = (0..100).map(|number| format!("x{number:03}").into()).collect();
        let lines = without_address(names, lookup, Duration::from_secs(60));
        assert_eq!(lines.len(), SHOWN_MAX + 1);
        assert_eq!(lines[SHOWN_MAX], "80 servers more without an address");
    }
}
