//! Commands of the pages that are cheap and safe, run unchanged, in network namespaces of their own if they change
//! anything. For all others, src/verbs/pages.rs checks that the command line accepts them. The how-tos: howto.rs.

use crate::support::lab;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::running::Running;
use transcript::pages;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The fenced block of a page with this beginning.
#[track_caller]
fn block(name: &str, beginning: &str) -> String {
    let mut blocks = pages::blocks(&page(name)).into_iter();
    blocks.find(|block| block.starts_with(beginning)).unwrap_or_else(|| panic!("{name}: no `{beginning}`"))
}

/// A server that ends with this value.
struct Served {
    child: Running,
    address: String,
}

impl Served {
    /// Starts it with these words on any free port, and waits for the line that names the port.
    fn start(words: &[&str]) -> Served {
        let mut command = Command::new(EVENKEEL);
        command.args(words).args(["-l", "127.0.0.1", "-p", "-1"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains(" serves on ") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        let address = said.split(" serves on ").nth(1).unwrap().split(": ").next().unwrap().to_owned();
        Served { child: Running(child), address }
    }

    /// Starts a cluster on any free port, and waits until it says that it answers. Its processes end with this one.
    fn up() -> Served {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(EVENKEEL);
        command.args(["up", "--port", &free.port().to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        while !said.contains("Ctrl-C ends all.") {
            assert!(stdout.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        let line = said.lines().find_map(|line| line.trim().strip_prefix("router ")).unwrap();
        Served { child: Running(child), address: line.trim().split(' ').next().unwrap().to_owned() }
    }
}

#[test]
fn a_cluster_answers_as_in_the_first_conversation_of_the_readme() {
    let typed = block("README.md", "cargo run ");
    let words: Vec<&str> = typed.trim().split(' ').skip_while(|word| *word != "--").skip(1).collect();
    assert_eq!(words, ["up"]);
    let served = Served::up();
    let mut client = TcpStream::connect(&served.address).unwrap();
    let mut replies = String::new();
    for line in block("README.md", "$ nc ").lines().skip(1) {
        match line.strip_prefix("> ") {
            Some(typed) => client.write_all(format!("{typed}\r\n").as_bytes()).unwrap(),
            None => replies += &format!("{line}\r\n"),
        }
    }
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, replies);
}

/// systemd's own parser, if it is installed. That its commands are accepted: src/verbs/pages.rs.
#[test]
fn systemd_accepts_the_units_of_the_guide() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return eprintln!("there is no systemd-analyze here");
    }
    let units = std::env::temp_dir().join(format!("evenkeel-pages-units-{}", std::process::id()));
    fs::create_dir_all(&units).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    for name in ["evenkeel.socket", "evenkeel.service"] {
        let unit = block("docs/serve/guide.md", &format!("# /etc/systemd/system/{name}\n"));
        // The program must exist.
        fs::write(units.join(name), unit.replace("/usr/bin/evenkeel", EVENKEEL)).unwrap();
        verify.arg(units.join(name));
    }
    let output = verify.env("SYSTEMD_UNIT_PATH", format!("{}:", units.display())).output().unwrap();
    fs::remove_dir_all(&units).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
}

/// A page's load, with fewer items and for a shorter time.
fn shortened(words: &[String]) -> Vec<String> {
    let mut words: Vec<String> = words[1..].to_vec();
    for (flag, value) in [("--duration", "200ms"), ("--warm-up", "100ms"), ("--keys", "1000")] {
        match words.iter().position(|word| word == flag) {
            Some(at) => words[at + 1] = value.to_owned(),
            None => words.extend([flag.to_owned(), value.to_owned()]),
        }
    }
    words
}

#[test]
fn the_loads_of_the_guide_run() {
    let served = Served::start(&["serve"]);
    let pid = served.child.0.id().to_string();
    let text = page("docs/load/guide.md");
    let loads = pages::commands("docs/load/guide.md", &text, &[("evenkeel", &["load"])]);
    let loads: Vec<_> = loads.into_iter().filter(|typed| !typed.is_mentioned).collect();
    assert!(loads.len() >= 9, "loads are missed");
    // Some of them write a file.
    let scratch = std::env::temp_dir().join(format!("evenkeel-pages-load-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    for typed in loads {
        let words = shortened(&typed.words).into_iter();
        let words = words.map(|word| word.replace("$(pidof evenkeel)", &pid).replace("PID", &pid));
        let mut load = Command::new(EVENKEEL);
        load.current_dir(&scratch).args(words).args(["--server", &served.address]);
        let output = load.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("rate"), "{}: {said}{complaint}", typed.text());
    }
    fs::remove_dir_all(&scratch).unwrap();
}

/// A line without its numbers, which differ each time.
fn without_numbers(line: &str) -> String {
    let is_named = |word: &str| ["(PID", "socket"].contains(&word);
    let words: Vec<&str> = line.split(' ').collect();
    let kept = words.iter().enumerate().map(|(at, word)| match at > 0 && is_named(words[at - 1]) {
        true => "N",
        false => word,
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// Runs the commands of a page's session, the lines that begin with `$`, and checks that the output has its other
/// lines, in their order.
#[track_caller]
fn check_session(before: &str, session: &str) {
    let commands = session.lines().filter_map(|line| line.strip_prefix("$ "));
    let script: String = commands.map(|command| format!("echo '$ {command}'\n{command}\n")).collect();
    let said = lab::says(&format!("{before}{script}"), 1);
    let mut lines = said.lines().map(without_numbers);
    for wanted in session.lines().filter(|line| *line != "…").map(without_numbers) {
        assert!(lines.any(|line| line == wanted), "{wanted:?} is not, or not there, in\n{said}");
    }
}

/// A server in the lab that requested a longer queue than this host allowed.
const SHORT_QUEUE: &str = "\
kill $server; wait $server 2> /dev/null || true
echo 128 > /proc/sys/net/core/somaxconn
evenkeel serve -l 10.77.0.1 -u root 2> /dev/null &
until grep -q ' 01004D0A:2BCB .* 0A ' /proc/net/tcp; do sleep 0.1; done
";

#[test]
fn the_session_of_the_readme_tunes_a_host_and_restores_it() {
    if lab::can_be_made() {
        check_session(SHORT_QUEUE, &block("README.md", "$ evenkeel tune check"));
    }
}

/// Commands of `tune`'s pages that are quick in the lab: the page and the command, in an order that works. Those that
/// apply a plan change only the lab's network: `generic` has no settings of the whole host.
const OF_TUNE: [(&str, &str); 10] = [
    ("docs/tune/check.md", "evenkeel tune explain rps-missing"),
    ("docs/tune/check.md", "evenkeel tune top"),
    ("docs/tune/apply.md", "evenkeel tune plan --strategy rps-rfs --nic eth0"),
    ("docs/tune/apply.md", "evenkeel tune plan --profile memcached --diff"),
    ("docs/tune/apply.md", "evenkeel tune plan --profile mysql --script t.sh"),
    ("docs/tune/apply.md", "evenkeel tune plan --profile generic --live"),
    ("README.md", "evenkeel tune apply --profile generic --live"),
    ("docs/tune/apply.md", "evenkeel tune status"),
    ("docs/tune/persist.md", "evenkeel tune persist --dry-run"),
    ("docs/tune/apply.md", "evenkeel tune rollback"),
];

#[test]
fn the_commands_in_the_pages_of_tune_succeed() {
    for (name, typed) in OF_TUNE {
        let found = pages::commands(name, &page(name), &[("evenkeel", &["tune"])]);
        assert!(found.iter().any(|found| found.text() == typed), "{name} has no `{typed}`");
    }
    if !lab::can_be_made() {
        return;
    }
    let script: String = OF_TUNE.iter().map(|(_, typed)| format!("echo '$ {typed}'\n{typed}\n")).collect();
    // The script ends at the first command that fails.
    lab::says(&format!("{SHORT_QUEUE}{script}"), 1);
}

#[test]
fn the_page_on_tls_makes_a_certificate_that_clients_accept() {
    if Command::new("openssl").arg("version").output().is_err() {
        return eprintln!("there is no openssl here");
    }
    let name = "docs/serve/tls.md";
    let scratch = std::env::temp_dir().join(format!("evenkeel-pages-tls-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let script = block(name, "openssl req -x509");
    let made = Command::new("sh").args(["-ec", &script]).current_dir(&scratch).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // The same commands with any free port, a shorter load, and the files' directory.
    let typed = block(name, "evenkeel serve -Z -o ssl_chain_cert=server.pem");
    let (serve, load) = typed.trim().split_once('\n').unwrap();
    let there = |words: &str| words.replace("server", &format!("{}/server", scratch.display()));
    let serve: Vec<String> = serve.split(' ').skip(1).take(4).map(str::to_owned).collect();
    let files = there(&serve[3]);
    let served = Served::start(&[&serve[0], &serve[1], &serve[2], &files, "-u", "root"]);
    let ca = scratch.join("ca.pem").display().to_string();
    let load: Vec<String> = load.split(' ').skip(1).map(str::to_owned).collect();
    let load = shortened(&[vec!["evenkeel".to_owned()], load].concat()).into_iter().map(|word| {
        match word.as_str() {
            "ca.pem" => ca.clone(),
            "127.0.0.1:11211" => served.address.clone(),
            _ => word,
        }
    });
    let output = Command::new(EVENKEEL).args(load).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    fs::remove_dir_all(&scratch).unwrap();
    assert!(output.status.success(), "{complaint}");
}

#[test]
fn the_manifest_of_the_page_on_agents_is_generated() {
    let name = "docs/load/agents.md";
    let found = pages::commands(name, &page(name), &[("evenkeel", &["load"])]);
    let typed = found.iter().find(|typed| typed.words[2] == "--kubernetes-job").unwrap();
    let output = Command::new(EVENKEEL).args(&typed.words[1..]).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("completions: 4"));
}
