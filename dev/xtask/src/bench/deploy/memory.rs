//! The row `memory`: requests per CPU-second with a memory file, compared with anonymous memory in the same round.

use anyhow::{Context, Result};
use stdx::prng::Prng;
use stdx::statistics::{median, median_interval};

use super::super::shuffled;
use super::arguments::Arguments;
use super::served::{MemoryFolder, Served};

const PORT: u16 = 21_310;
/// Room for four million items of 100 bytes, and for what sets replace.
const MEGABYTES: u64 = 2048;

/// Prints the table.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folder = MemoryFolder::new(&arguments.folder)?;
    let file = folder.0.join("items");
    let mut prng = Prng::new(arguments.turns.seed);
    let mut ratios: [Vec<f64>; 3] = Default::default();
    let names = ["get", "set of present keys", "set while memory grows"];
    let mut servers = Vec::new();
    for (place, file) in [None, Some(file.as_path())].into_iter().enumerate() {
        let mut server = Served::start(
            PORT + place as u16,
            arguments.turns.server_cpu,
            MEGABYTES,
            file.map(|file| ("-e", file)),
        )?;
        server.first_reply()?;
        servers.push(server);
    }
    let keys = ["--keys".to_owned(), arguments.keys.to_string(), "--key-size".to_owned(), "16".to_owned()];
    for server in &servers {
        let words = ["--prefill", "--requests", "1000"].map(str::to_owned);
        server.load(arguments.turns.load_cpu, &[&keys[..], &words].concat())?;
    }
    for round in 1..=arguments.turns.rounds {
        for (row, gets) in ["1", "0"].into_iter().enumerate() {
            let mut figures = [0.0; 2];
            for place in shuffled(servers.len(), &mut prng) {
                let window = format!("{}ms", arguments.window_ms);
                let words =
                    ["--gets", gets, "--warm-up", "200ms", "--connections", "64", "--duration", &window];
                let words = [&keys[..], &words.map(str::to_owned)].concat();
                figures[place] = per_cpu_second(&servers[place].load(arguments.turns.load_cpu, &words)?)?;
            }
            ratios[row].push(figures[1] / figures[0]);
        }
        let mut figures = [0.0; 2];
        for place in shuffled(2, &mut prng) {
            figures[place] = growing(arguments, place, &folder)?;
        }
        ratios[2].push(figures[1] / figures[0]);
        let last: Vec<String> =
            ratios.iter().map(|all| format!("{:.3}", all.last().copied().unwrap_or_default())).collect();
        eprintln!("round {round}: {}", last.join("  "));
    }
    println!(
        "requests per CPU-second with a memory file ÷ without; median of {} rounds",
        arguments.turns.rounds
    );
    for (name, ratios) in names.iter().zip(&ratios) {
        let (low, high) = median_interval(ratios, arguments.turns.seed);
        println!("{name:<24} {:.3} (95 %: {low:.3}–{high:.3})", median(ratios));
    }
    Ok(())
}

/// Sets of new keys to an empty server.
fn growing(arguments: &Arguments, place: usize, folder: &MemoryFolder) -> Result<f64> {
    let file = folder.0.join("growing");
    let file = (place == 1).then_some(file.as_path());
    let port = PORT + 2 + place as u16;
    let mut server =
        Served::start(port, arguments.turns.server_cpu, MEGABYTES, file.map(|file| ("-e", file)))?;
    server.first_reply()?;
    let count = (arguments.keys / 2).to_string();
    // Of so many keys that nearly each is new.
    let words = ["--gets", "0", "--keys", "1000000000", "--requests", &count];
    let words = [&words[..], &["--connections", "64", "--key-size", "16", "--value-size", "200"]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let figure = per_cpu_second(&server.load(arguments.turns.load_cpu, &words)?)?;
    drop(server);
    if let Some(file) = file {
        std::fs::remove_file(file)?;
    }
    Ok(figure)
}

fn per_cpu_second(summary: &serde_json::Value) -> Result<f64> {
    let name = "/server/keys_per_cpu_second";
    summary
        .pointer(name)
        .and_then(serde_json::Value::as_f64)
        .with_context(|| format!("no {name} in the summary"))
}
