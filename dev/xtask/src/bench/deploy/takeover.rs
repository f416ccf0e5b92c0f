//! The row `takeover`: the longest wait of any request while the server is taken over, and without.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use stdx::statistics::median;

use super::arguments::Arguments;
use super::served::{MemoryFolder, Served};

const PORT: u16 = 21_320;
/// Sent each second, whatever the server does.
const RATE: &str = "20000";
/// The window, and when the successor starts after the load has.
const WINDOW: &str = "4s";
const BEFORE: Duration = Duration::from_millis(2500);

/// Prints the table.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    println!(
        "take-overs at {RATE} requests a second, 9 of 10 gets; longest wait of a request, ms: median (lowest to highest)"
    );
    for &items in &arguments.items {
        let [mut with, mut without] = [Vec::new(), Vec::new()];
        let folder = MemoryFolder::new(&arguments.folder)?;
        let socket = folder.0.join("next");
        // A hundred bytes of value, with key, header and index.
        let megabytes = items / 5000 + 256;
        let start =
            || Served::start(PORT, arguments.turns.server_cpu, megabytes, Some(("--takeover", &socket)));
        let mut server = start()?;
        server.first_reply()?;
        let keys = ["--keys".to_owned(), items.to_string(), "--key-size".to_owned(), "16".to_owned()];
        let prefill = ["--prefill", "--requests", "1000"].map(str::to_owned);
        server.load(arguments.turns.load_cpu, &[&keys[..], &prefill].concat())?;
        let before = server.items()?;
        for round in 1..=arguments.turns.rounds {
            without.push(longest(&server, arguments, &keys)?);
            let (longest, next) = std::thread::scope(|scope| {
                let loaded = scope.spawn(|| longest(&server, arguments, &keys));
                clock::pass(BEFORE);
                let next = start();
                (loaded.join().expect("no panic"), next)
            });
            with.push(longest.with_context(|| format!("round {round}"))?);
            std::mem::replace(&mut server, next?).ended()?;
            let found = server.items()?;
            ensure!(found == before, "round {round}: {found} of {before} items");
            let [last, other] = [&with, &without].map(|all| all.last().copied().unwrap_or_default());
            eprintln!("round {round}: {items} items, {last:.1} ms with, {other:.1} ms without");
        }
        for (name, all) in [("with", &with), ("without", &without)] {
            let low = all.iter().copied().fold(f64::MAX, f64::min);
            let high = all.iter().copied().fold(0.0, f64::max);
            println!("{items:>9} items, {name:<8} {:.1} ({low:.1}–{high:.1})", median(all));
        }
        server.stop()?;
    }
    Ok(())
}

/// The longest wait of a request, in milliseconds. Nothing may be lost, missed or refused.
fn longest(server: &Served, arguments: &Arguments, keys: &[String; 4]) -> Result<f64> {
    let words = ["--rate", RATE, "--gets", "0.9", "--duration", WINDOW, "--warm-up", "500ms", "--verify"];
    let words = [&words[..], &["--connections", "50", "--reconnect-after", "500"]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let summary = server.load(arguments.turns.load_cpu, &[&keys[..], &words].concat())?;
    let number = |name: &str| {
        let found = summary.pointer(name).and_then(serde_json::Value::as_f64);
        found.with_context(|| format!("no {name} in the summary"))
    };
    for name in ["/errors", "/lost", "/misses", "/wrong_values", "/waits/unanswered"] {
        let count = number(name)?;
        ensure!(count == 0.0, "{count} {name}");
    }
    Ok(number("/latency/max_us")? / 1000.0)
}
