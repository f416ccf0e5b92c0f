//! `cargo xtask bench hostile`: what an honest client notices while others misbehave in every way at once.
//!
//! Three runs of the same honest client with the same server: alone on the machine; beside a second, attacked server,
//! which takes CPU time but no more; and with the attacked server itself. The second one shows what the machine does
//! from what the server lets happen.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::honest::{Experience, Honest};
use end_to_end::hostile::{ATTACKS, Attack, Attackers, FLAGS, Rounds};
use end_to_end::process::raise_open_files;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use serde::Serialize;

/// Show what an honest client notices of hostile ones
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Length of the attack; the honest client is alone for a tenth of it before
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    minutes: f64,
    /// Only attacks whose name contains one of these
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Drive sockets with epoll instead of io_uring
    #[arg(long)]
    epoll: bool,
    /// Attack a memcached at PATH instead of ours
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const FILES: u64 = 8_192;
/// Between two lines of progress.
const MINUTE: Duration = Duration::from_secs(60);

/// What an honest client of one server noticed.
#[derive(Debug, Serialize)]
struct Row {
    run: &'static str,
    gets: u64,
    misses: u64,
    errors: u64,
    first_error: Option<String>,
    p50_us: u32,
    p99_us: u32,
    p999_us: u32,
    max_us: u32,
    resident_mib: u64,
}

/// Runs it and prints the tables. False if the attacked server failed the honest client.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    raise_open_files(FILES)?;
    let subject = match &arguments.peer {
        Some(path) => ServerUnderTest::given(path, &[])?,
        None => {
            ServerUnderTest::evenkeel(if arguments.epoll { SocketDriver::Epoll } else { SocketDriver::Uring })
        }
    };
    println!("{}: {}", subject.name, subject.program.display());
    let wanted = |attack: &&&'static Attack| super::is_wanted(attack.name, &arguments.only);
    let attacks: Vec<&'static Attack> = ATTACKS.iter().filter(wanted).copied().collect();
    ensure!(
        !attacks.is_empty(),
        "no attack matches; there are: {}",
        ATTACKS.map(|attack| attack.name).join(", ")
    );
    let attack_time = Duration::from_secs_f64(arguments.minutes * 60.0);

    let (beside, attacked) = (Server::start(&subject, &FLAGS)?, Server::start(&subject, &FLAGS)?);
    let honest = Honest::start(beside.address())?;
    pass("alone", attack_time / 10);
    let alone = Row::new("alone", honest.stop()?, &beside)?;

    let (calm, victim) = (Honest::start(beside.address())?, Honest::start(attacked.address())?);
    let attackers = Attackers::start(attacked.address(), &attacks);
    pass("attacked", attack_time);
    let rounds = attackers.stop();
    let rows = [
        alone,
        Row::new("beside an attacked server", calm.stop()?, &beside)?,
        Row::new("attacked", victim.stop()?, &attacked).context("the attacked server")?,
    ];
    println!(
        "{}: an honest client of 500 requests/s, -m 64\n\n{}\n{}",
        subject.name,
        table(&rows),
        list(&attacks, &rounds)
    );
    let left = Client::new(attacked.connect()?).statistic("curr_connections")?;
    println!("connections left: {left}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&rows)?)
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(rows[2].errors == 0 && rounds.iter().all(|(_, rounds)| rounds.wrong == 0))
}

impl Row {
    fn new(run: &'static str, mut experience: Experience, server: &Server) -> Result<Row> {
        Ok(Row {
            run,
            gets: experience.gets,
            misses: experience.misses,
            errors: experience.errors,
            first_error: experience.first_error.clone(),
            p50_us: experience.quantile_us(0.5),
            p99_us: experience.quantile_us(0.99),
            p999_us: experience.quantile_us(0.999),
            max_us: experience.quantile_us(1.0),
            resident_mib: server.resident()? >> 20,
        })
    }
}

fn pass(what: &str, time: Duration) {
    let end = clock::now() + time;
    loop {
        let left = end.saturating_duration_since(clock::now());
        if left.is_zero() {
            return;
        }
        eprintln!("{what}: {:.1} minutes to go", left.as_secs_f64() / 60.0);
        clock::pass(left.min(MINUTE));
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<26} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9} {:>9} {:>8}\n",
        "run", "gets", "misses", "errors", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "RSS MiB"
    );
    for row in rows {
        text += &format!(
            "{:<26} {:>8} {:>8} {:>7} {:>8} {:>8} {:>9} {:>9} {:>8}\n",
            row.run,
            row.gets,
            row.misses,
            row.errors,
            row.p50_us,
            row.p99_us,
            row.p999_us,
            row.max_us,
            row.resident_mib
        );
        if let Some(error) = &row.first_error {
            text += &format!("  first error: {error}\n");
        }
    }
    text
}

fn list(attacks: &[&Attack], rounds: &[(&str, Rounds)]) -> String {
    let mut text =
        format!("{:<18} {:>8} {:>8} {:>7}  what it does\n", "attack", "rounds", "cut off", "wrong");
    for (attack, (_, rounds)) in attacks.iter().zip(rounds) {
        text += &format!(
            "{:<18} {:>8} {:>8} {:>7}  {}\n",
            attack.name, rounds.done, rounds.cut_off, rounds.wrong, attack.about
        );
    }
    text
}
