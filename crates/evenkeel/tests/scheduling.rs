//! `evenkeel tune` and the scheduling of threads, on processes that the test starts: a server and busy neighbours on
//! one CPU.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// Set in the process that is the server.
const IS_SERVER: &str = "EVENKEEL_TEST_IS_SERVER";

/// Neighbours on the server's CPU. Among five processes a fair share is a fifth, and the server's thread needs half.
const NEIGHBOURS: usize = 4;

/// Time slices of the server's thread over which a wait is averaged.
const TURNS: u64 = 200;

/// The time that the server works, and then rests.
const WORK: Duration = Duration::from_millis(1);

/// Checks, ten milliseconds apart, before a test fails: a minute.
const LOOKS_MAX: usize = 6000;

/// The server: one thread that works and rests, and one more for each line that it is sent.
#[test]
#[expect(clippy::disallowed_methods, reason = "work has to take time that can be measured")]
fn this_process_is_the_server_if_the_variable_is_set() {
    if std::env::var_os(IS_SERVER).is_none() {
        return;
    }
    // Each thread reports itself: it has its name only once it runs.
    let work = || {
        println!("\nserves");
        loop {
            let begin = Instant::now();
            while begin.elapsed() < WORK {
                std::hint::spin_loop();
            }
            std::thread::park_timeout(WORK);
        }
    };
    std::thread::Builder::new().name("working".into()).spawn(work).unwrap();
    for _ in std::io::stdin().lines() {
        let grow = || {
            println!("\ngrew");
            std::thread::park();
        };
        std::thread::Builder::new().name("grown".into()).spawn(grow).unwrap();
    }
    // The pipe was closed: the test has ended.
    std::process::exit(0);
}

struct Server {
    child: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
    neighbours: Vec<Child>,
    state: PathBuf,
}

impl Server {
    /// A server and its neighbours, all on this CPU.
    fn start(name: &str, cpu: u32) -> Server {
        let pinned = |program: &str| {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), program]);
            command
        };
        let itself = std::env::current_exe().unwrap();
        let mut server = pinned(itself.to_str().unwrap());
        server.args([
            "--exact",
            "scheduling::this_process_is_the_server_if_the_variable_is_set",
            "--nocapture",
        ]);
        server.env(IS_SERVER, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = server.spawn().unwrap();
        let (asks, says) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let endless = || pinned("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let neighbours = (0..NEIGHBOURS).map(|_| endless()).collect();
        let state = std::env::temp_dir().join(format!("evenkeel-turns-{name}-{}", std::process::id()));
        let mut server = Server { child, asks, says, neighbours, state };
        server.hear("serves");
        server
    }

    #[track_caller]
    fn hear(&mut self, word: &str) {
        let mut lines = self.says.by_ref().lines();
        assert!(lines.any(|line| line.unwrap() == word), "it never said {word:?}");
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// A job of `tune` that concerns this server.
    fn tune(&self, words: &[&str]) -> Output {
        let mut command = Command::new(EVENKEEL);
        command.arg("tune").args(words);
        if words[0] != "plan" {
            command.arg("--state").arg(&self.state);
        }
        command.output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.tune(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Why sched-fifo is refused for it.
    fn refusal(&self) -> Option<String> {
        let plan = self.succeeds(&["plan", "--strategy", "sched-fifo", "--json", "--pid", &self.pid()]);
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        plan["refusals"][0]["reason"].as_str().map(str::to_owned)
    }

    /// Its threads: name, and policy, priority, nice and slice as the kernel shows them.
    fn threads(&self) -> Vec<(String, String)> {
        let tasks = format!("/proc/{}/task", self.pid());
        let tids = fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().file_name().into_string().unwrap());
        let thread = |tid: String| {
            let read = |file: &str| fs::read_to_string(format!("{tasks}/{tid}/{file}")).unwrap();
            let stat = read("stat");
            // proc(5): 19 nice, 40 priority, 41 policy; after the name the first is field 3.
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            let sched = read("sched");
            let slice = sched.lines().find(|line| line.starts_with("se.slice ")).unwrap_or("none");
            let slice = slice.rsplit(' ').next().unwrap();
            let named = read("comm").trim().to_owned();
            (
                named,
                format!("policy {} priority {} nice {} slice {slice}", fields[38], fields[37], fields[16]),
            )
        };
        let mut threads: Vec<(String, String)> = tids.map(thread).collect();
        // By name: ids begin anew after the highest one.
        threads.sort_unstable();
        threads
    }

    /// Microseconds that the working thread waits for the CPU, averaged over its next time slices.
    fn wait_us(&self) -> f64 {
        let tasks = format!("/proc/{}/task", self.pid());
        let is_working = |path: &PathBuf| fs::read_to_string(path.join("comm")).unwrap() == "working\n";
        let mut all = fs::read_dir(tasks).unwrap().map(|task| task.unwrap().path());
        let thread = all.find(is_working).expect("a working thread");
        let times = || -> Vec<u64> {
            let text = fs::read_to_string(thread.join("schedstat")).unwrap();
            text.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        let first = times();
        let mut last = times();
        for _ in 0..LOOKS_MAX {
            if last[2] >= first[2] + TURNS {
                return (last[1] - first[1]) as f64 / 1e3 / (last[2] - first[2]) as f64;
            }
            std::thread::park_timeout(Duration::from_millis(10));
            last = times();
        }
        panic!("it has had {} turns in a minute", last[2] - first[2]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.neighbours.iter_mut().chain([&mut self.child]) {
            // Both fail only if it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.state);
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|itself| std::os::unix::fs::MetadataExt::uid(&itself) == 0)
}

/// CPUs that this test may use.
fn cpus() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let numbers = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    allowed.split(',').flat_map(numbers).collect()
}

/// A server on a CPU where SCHED_FIFO is accepted; `None`: there is no such CPU here.
fn where_fifo_may_be(name: &str) -> Option<Server> {
    if !is_root() {
        eprintln!("it takes root to run before others");
        return None;
    }
    for cpu in cpus() {
        let server = Server::start(name, cpu);
        match server.refusal() {
            None => return Some(server),
            Some(reason) => eprintln!("CPU {cpu}: {reason}"),
        }
    }
    None
}

#[test]
fn with_sched_fifo_it_hardly_waits_and_a_rollback_restores_everything() {
    let Some(mut server) = where_fifo_may_be("fifo") else { return };
    let pid = server.pid();
    let before = server.threads();
    let fair_us = server.wait_us();
    let said = server.succeeds(&["apply", "--strategy", "sched-fifo", "--pid", &pid]);
    assert!(said.contains(&format!("{0} of {0} changes are in force", before.len())), "{said}");
    assert!(
        server.threads().iter().all(|(_, how)| how.starts_with("policy 1 priority 1 ")),
        "{:?}",
        server.threads()
    );
    let first_us = server.wait_us();
    eprintln!("a turn is waited for {fair_us:.0} µs, and with SCHED_FIFO {first_us:.0} µs");
    // With fair scheduling, four neighbours run for some milliseconds each before it; with SCHED_FIFO it waits for none
    // of them.
    assert!(first_us * 4.0 < fair_us, "{first_us} µs, before {fair_us} µs");
    assert!(server.succeeds(&["status"]).contains(": holds"));
    assert!(
        server.succeeds(&["plan", "--strategy", "sched-fifo", "--pid", &pid]).contains("Nothing to change")
    );

    // A thread that is started later inherits it, and loses it with the others.
    writeln!(server.asks).unwrap();
    server.hear("grew");
    let grown = |threads: &mut Vec<(String, String)>| {
        let place = threads.iter().position(|(name, _)| name == "grown").unwrap();
        threads.remove(place).1
    };
    let how = grown(&mut server.threads());
    assert!(how.starts_with("policy 1 priority 1 "), "{how}");
    server.succeeds(&["rollback"]);
    let mut after = server.threads();
    assert_eq!(grown(&mut after), before[0].1);
    assert_eq!(after, before);
}

#[test]
fn time_slices_are_shortened_and_restored() {
    if !is_root() {
        return eprintln!("it takes root to schedule another process's threads");
    }
    let server = Server::start("slice", cpus()[0]);
    let pid = server.pid();
    let plan = server.succeeds(&["plan", "--strategy", "sched-slice", "--pid", &pid]);
    if plan.contains("Linux 6.12") {
        return eprintln!("this kernel has no time slices of a thread's own length");
    }
    let before = server.threads();
    assert!(plan.contains("why     a thread with shorter turns gets its turn sooner"), "{plan}");
    server.succeeds(&["apply", "--strategy", "sched-slice", "--pid", &pid]);
    assert!(server.threads().iter().all(|(_, how)| how.ends_with(" slice 500000")), "{:?}", server.threads());
    server.succeeds(&["rollback"]);
    assert_eq!(server.threads(), before);
}

/// A cgroup of version 1 with a budget for real-time threads, which is 0 at first.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Option<Cgroup> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/cpu/evenkeel-test-{}", std::process::id()));
        let made = fs::create_dir(&path).is_ok();
        let cgroup = made.then_some(Cgroup(path))?;
        cgroup.0.join("cpu.rt_runtime_us").exists().then_some(cgroup)
    }

    fn holds(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its processes have been waited for.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cgroup_without_budget_refuses_real_time_before_and_while_it_is_tried() {
    let Some(cgroup) = Cgroup::new() else { return eprintln!("no cgroup rations real time here") };
    let Some(server) = where_fifo_may_be("budget") else { return };
    let pid = server.pid();
    let before = server.threads();
    let plan = server.succeeds(&["plan", "--strategy", "sched-fifo", "--json", "--pid", &pid]);
    cgroup.holds("cgroup.procs", &pid);
    let refusal = server.refusal().expect("a refusal");
    assert!(refusal.contains("no real-time budget (cpu.rt_runtime_us)"), "{refusal}");

    // A plan from before the server was moved there.
    let saved = server.state.with_extension("plan.json");
    fs::write(&saved, plan).unwrap();
    let saved = saved.to_str().unwrap();
    let refused = server.tune(&["apply", "--plan", saved]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains("its cgroup has no real-time budget"), "{said}");
    assert!(said.contains("everything is as it was before"), "{said}");
    assert_eq!(server.threads(), before);

    cgroup.holds("cpu.rt_runtime_us", "10000");
    assert_eq!(server.refusal(), None);
    server.succeeds(&["apply", "--plan", saved]);
    assert!(server.threads().iter().all(|(_, how)| how.starts_with("policy 1 priority 1 ")));
    server.succeeds(&["rollback"]);
    assert_eq!(server.threads(), before);
    fs::remove_file(saved).unwrap();
    drop(server);
}
