//! Consoles that browsers have open at the first controller, and what they cost it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use end_to_end::process::cpu_time;

/// Interval of a page's questions, as in its `live.js`.
const EVERY: Duration = Duration::from_secs(2);
/// Time for an answer, as there.
const WITHIN: Duration = Duration::from_secs(15);
/// Without consoles and with them, in turn: what else the controller does is the same in both, on average.
const ROUNDS: usize = 6;
/// After consoles were opened or closed.
const SETTLE: Duration = Duration::from_secs(2);

/// The flags of a controller with a console at a port that the kernel gives.
pub(super) const FLAGS: [&str; 2] = ["--console", "127.0.0.1:0"];

/// The first controller and its consoles.
pub(super) struct ConsoleCost {
    pid: u32,
    address: SocketAddr,
    /// A cluster that one of them has open.
    cluster: String,
    count: usize,
    length: Duration,
}

/// Figures of consoles.
#[derive(Debug)]
pub(super) struct ConsoleFigures {
    /// CPU time of the controller with them over that without, in percent of a core.
    pub(super) percent: f64,
    pub(super) answers_per_s: f64,
    /// Answers without a body, since the browser has it.
    pub(super) known_share: f64,
    pub(super) sent_bytes_per_s: f64,
}

/// What came back.
#[derive(Default)]
struct Answers {
    all: AtomicU64,
    known: AtomicU64,
    len: AtomicU64,
}

impl ConsoleCost {
    pub(super) fn of(fleet: &Fleet, count: usize, cluster: &str, seconds: u64) -> Result<ConsoleCost> {
        let log = fleet.read("c1.log");
        let address = log.split_once("console at http://").and_then(|(_, rest)| rest.split_once('/'));
        let address = address.context("the controller says where its console is")?.0.parse()?;
        let pid = fleet.controller_pid(1).context("a controller")?;
        Ok(ConsoleCost {
            pid,
            address,
            cluster: cluster.to_owned(),
            count,
            length: Duration::from_secs(seconds),
        })
    }

    /// Opens and closes them, and compares.
    pub(super) fn measure(&self) -> Result<ConsoleFigures> {
        let (mut without, mut with, answers) = (0.0, 0.0, Arc::new(Answers::default()));
        for round in 1..=ROUNDS {
            let alone = self.percent()?;
            let open = Open::begin(self, &answers);
            let beside = self.percent()?;
            open.end()?;
            eprintln!(
                "consoles: round {round}: {alone:.2} % of a core without, {beside:.2} % with {}",
                self.count
            );
            (without, with) = (without + alone, with + beside);
        }
        let [all, known, len] =
            [&answers.all, &answers.known, &answers.len].map(|one| one.load(Ordering::Relaxed) as f64);
        let seconds = (self.length + SETTLE).as_secs_f64() * ROUNDS as f64;
        ensure!(all > 0.0, "no console was answered");
        Ok(ConsoleFigures {
            percent: (with - without) / ROUNDS as f64,
            answers_per_s: all / seconds,
            known_share: known / all,
            sent_bytes_per_s: len / seconds,
        })
    }

    /// CPU time of the controller in the next while, in percent of a core.
    fn percent(&self) -> Result<f64> {
        clock::pass(SETTLE);
        let (before, began) = (cpu_time(self.pid)?, clock::now());
        clock::pass(self.length);
        let passed = began.elapsed().as_secs_f64();
        Ok((cpu_time(self.pid)? - before).as_secs_f64() * 100.0 / passed)
    }

    /// What a page asks for: one has a cluster open, the others the fleet.
    fn path(&self, console: usize) -> String {
        match console {
            0 => format!("/v1/figures?cluster={}", self.cluster),
            _ => "/v1/summary".to_owned(),
        }
    }
}

/// Consoles that are open: a thread for each.
struct Open {
    is_open: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Open {
    fn begin(cost: &ConsoleCost, answers: &Arc<Answers>) -> Open {
        let is_open = Arc::new(AtomicBool::new(true));
        let threads = (0..cost.count).map(|console| {
            let (address, path) = (cost.address, cost.path(console));
            let (is_open, answers) = (Arc::clone(&is_open), Arc::clone(answers));
            // People do not open their tabs at the same moment.
            let late = EVERY * console as u32 / cost.count as u32;
            std::thread::spawn(move || {
                clock::pass(late);
                poll(address, &path, &is_open, &answers)
            })
        });
        Open { threads: threads.collect(), is_open }
    }

    fn end(self) -> Result<()> {
        self.is_open.store(false, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().ok().context("a console has panicked")??;
        }
        Ok(())
    }
}

/// Asks as a page does: over one connection, the next question two seconds after an answer, with the tag of the last one.
fn poll(address: SocketAddr, path: &str, is_open: &AtomicBool, answers: &Answers) -> Result<()> {
    let stream = TcpStream::connect(address).context("a console")?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    let mut tag = String::new();
    while is_open.load(Ordering::Relaxed) {
        let known = if tag.is_empty() { String::new() } else { format!("If-None-Match: {tag}\r\n") };
        writer.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{known}\r\n").as_bytes())?;
        let head = head(&mut reader)?;
        let field = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim())
        };
        let status = head.split_whitespace().nth(1).context("a status")?;
        ensure!(["200", "304"].contains(&status), "{path}: {head}");
        if status == "200" {
            let len: usize = field("content-length").context("a length")?.parse()?;
            reader.read_exact(&mut vec![0; len])?;
            answers.len.fetch_add(len as u64, Ordering::Relaxed);
        }
        answers.all.fetch_add(1, Ordering::Relaxed);
        answers.known.fetch_add(u64::from(status == "304"), Ordering::Relaxed);
        tag = field("etag").context("a tag")?.to_owned();
        clock::pass(EVERY);
    }
    Ok(())
}

fn head(reader: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(reader.read_line(&mut head)? > 0, "the connection has ended: {head}");
    }
    Ok(head)
}
