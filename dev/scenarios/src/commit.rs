//! From the moment a generation is committed until routers have loaded it.
//!
//! The six real routers wait for nothing (`--reconfiguration-delay-ms 0`); the agents of this program have routers that only
//! read their file, in memory. A slot change goes to the canaries first, for 2 s.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use control::{
    AgentRouter, AgentSettings, ControlPlace, PeerPlace, ProcessReport, TuneSettings, start_agent,
};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use router::md5_hex;
use serde_json::json;
use stdx::log_level::LogLevel;

use crate::clients::operator::{Operator, credentials};
use crate::figures::{ScenarioFigures, quantile, worst};
use crate::fleet::SLOTS;
use crate::run_folder::RunFolder;

/// When each router, by its number, has first said that it has loaded something.
type Loads = Arc<Mutex<BTreeMap<usize, Instant>>>;

/// So many hosts have as many disks, and this machine has one.
const IN_MEMORY: &str = "/dev/shm";

/// Publishes generations, and measures the way of each.
pub(crate) fn measure(fleet: &mut Fleet, agents: usize, generations: usize) -> Result<ScenarioFigures> {
    let (loads, memory) = (Loads::default(), RunFolder::below(Path::new(IN_MEMORY))?);
    eprintln!("commit: {agents} agents begin");
    for number in 0..agents {
        begin(fleet, &memory, 100 + number, &loads)?;
    }
    let operator = Operator::of(fleet)?;
    wait_for(&loads, agents)?;
    let (mut all, mut applied) = (Vec::new(), Vec::new());
    for number in 1..=generations {
        let member = fleet.member_of(&format!("web/s{}", number % SLOTS));
        // Whoever has left its slot is emptied before it can take one again.
        let change = json!({"requests": [{"replace": {"member": member}}]});
        let body = clock::wait_for(|| operator.planned(&change).ok()).context("a spare")?;
        take(&loads);
        let asked = clock::now();
        operator.post("/v1/apply", &body)?;
        // It is committed some milliseconds before the answer: what takes long is before that, the check of all routes.
        let began = clock::now();
        applied.push(began.duration_since(asked).as_secs_f64());
        wait_for(&loads, agents)?;
        let mut times: Vec<f64> =
            take(&loads).into_values().map(|at| at.saturating_duration_since(began).as_secs_f64()).collect();
        eprintln!(
            "commit: generation {number}: p50 {:.3} s, p99 {:.3} s",
            quantile(&mut times, 0.5),
            quantile(&mut times, 0.99)
        );
        all.extend(times);
        fleet.until(|fleet| fleet.status().contains("all routers have it"));
    }
    Ok(vec![
        // 100,000 keys are checked before.
        ("apply_worst_s", worst(&applied)),
        ("loaded_p50_s", quantile(&mut all, 0.5)),
        // Canaries have the generation alone for 2 s of it.
        ("loaded_p99_s", quantile(&mut all, 0.99)),
    ])
}

fn take(loads: &Loads) -> BTreeMap<usize, Instant> {
    std::mem::take(&mut *loads.lock().unwrap_or_else(PoisonError::into_inner))
}

fn wait_for(loads: &Loads, count: usize) -> Result<()> {
    let len = || loads.lock().unwrap_or_else(PoisonError::into_inner).len();
    clock::wait_for(|| (len() >= count).then_some(()))
        .with_context(|| format!("{} of {count} routers have loaded it", len()))
}

/// An agent of a host that has a router and no server.
fn begin(fleet: &Fleet, memory: &RunFolder, number: usize, loads: &Loads) -> Result<()> {
    let host = format!("h{number}");
    fleet.certificate("agent", &host);
    let folder = memory.path(&host);
    std::fs::create_dir(&folder)?;
    let file = folder.join("route.json");
    std::fs::write(&file, "{\"route\": \"ErrorRoute\"}")?;
    let socket = fleet.path(&format!("s{number}"));
    answer_as_router(&socket, file.clone())?;
    let loads = Arc::clone(loads);
    let say = move |_: LogLevel, line: &str| {
        if line.contains("has loaded generation") {
            let mut loads = loads.lock().unwrap_or_else(PoisonError::into_inner);
            loads.entry(number).or_insert_with(clock::now);
        }
    };
    let controllers = (1..=3).map(|number| ControlPlace::Tls(fleet.controller_address(number).to_string()));
    let pid = std::process::id();
    let router = AgentRouter {
        router: format!("r{number}").parse()?,
        view: "main".parse()?,
        metrics: None,
        file,
        first_text: None,
        place: PeerPlace { address: format!("unix:{}", socket.display()), tls: None },
        process: Arc::new(move || ProcessReport::Running { pid }),
        client_address: None,
        cluster_file: None,
    };
    start_agent(AgentSettings {
        host: host.parse()?,
        zone: format!("z{}", number % 3 + 1).parse()?,
        boot: number as u64,
        routers: vec![router],
        servers: Vec::new(),
        tune: TuneSettings::default(),
        upgrade: None,
        folder: folder.join("agent"),
        controllers: controllers.collect(),
        tls: credentials(fleet, &format!("{host}.pem"))?,
        say: Arc::new(say),
    })?;
    Ok(())
}

/// Answers what an agent asks its router: the digest is that of the file at this moment.
fn answer_as_router(socket: &Path, file: PathBuf) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("listen at {}", socket.display()))?;
    std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            // An agent that has gone away asks again.
            let _ = answer(stream, &file);
        }
    })?;
    Ok(())
}

fn answer(mut stream: UnixStream, file: &Path) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut question = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut question)?;
    ensure!(!question.is_empty(), "it asks nothing");
    let answer = match question.trim() {
        "get __mcrouter__.config_md5_digest" => {
            let digest = md5_hex(&std::fs::read(file)?);
            format!("VALUE __mcrouter__.config_md5_digest 0 32\r\n{digest}\r\nEND\r\n")
        }
        "stats count" => "STAT request_replied_count 0\r\nSTAT request_error_count 0\r\nEND\r\n".to_owned(),
        _ => "END\r\n".to_owned(),
    };
    stream.write_all(answer.as_bytes())?;
    Ok(())
}
