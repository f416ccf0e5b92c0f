//! A history in PostgreSQL: Debian's server, with a directory and a socket of the test's own.

mod encrypted;

use super::until::until;
use super::{EXPERIMENT, check, directory, lab, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Who may connect to its socket.
const RULES: &str = "local all guarded scram-sha-256\nlocal all all trust\n";

/// A server that ends with the test. Its socket has a directory of its own; it has a port only if a test sets one.
struct Server {
    child: Child,
    programs: PathBuf,
    home: PathBuf,
}

impl Server {
    /// `None`: there is no PostgreSQL here, or no user to run it as.
    fn start(name: &str) -> Option<Server> {
        Server::start_with(name, RULES, |_| vec!["listen_addresses=".to_owned()])
    }

    /// With these rules for connections, and settings that may refer to its directory.
    fn start_with(name: &str, rules: &str, settings: impl FnOnce(&Path) -> Vec<String>) -> Option<Server> {
        let programs = programs()?;
        // The path of a socket must be short.
        let home = std::env::temp_dir().join(format!("ek-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).expect("a directory");
        let is_root = fs::metadata(&home).is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
        // It refuses to run as root.
        let as_whom: &[&str] =
            if is_root { &["--reuid=nobody", "--regid=nogroup", "--clear-groups"] } else { &[] };
        let settings = settings(&home);
        if is_root {
            succeeds(Command::new("chown").args(["-R", "nobody:nogroup"]).arg(&home));
        }
        let command = |program: &str| {
            let mut command = Command::new("setpriv");
            command.args(as_whom).args(["--pdeathsig", "INT"]).arg(programs.join(program));
            command.arg("-D").arg(home.join("data")).current_dir(&home).stdin(Stdio::null());
            command
        };
        succeeds(command("initdb").args([
            "--username",
            "owner",
            "--auth",
            "trust",
            "--no-sync",
            "--encoding",
            "UTF8",
        ]));
        fs::write(home.join("data/pg_hba.conf"), rules).expect("written");
        let log = fs::File::create(home.join("log")).expect("a file");
        let mut server = command("postgres");
        server.args(["-c", "fsync=off", "-k"]).arg(&home);
        server.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let child = server.stdout(Stdio::null()).stderr(log).spawn().expect("setpriv starts it");
        let server = Server { child, programs, home };
        until("PostgreSQL", || server.psql("postgres", "select 1").status.success());
        Some(server)
    }

    fn psql(&self, database: &str, statement: &str) -> Output {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-A", "-t", "-U", "owner", "-d", database, "-c", statement, "-h"]).arg(&self.home);
        psql.stdin(Stdio::null()).output().expect("psql")
    }

    /// The result of a statement.
    #[track_caller]
    fn said(&self, database: &str, statement: &str) -> String {
        check(&self.psql(database, statement), 0).trim().to_owned()
    }

    fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}/{database}", self.home.display().to_string().replace('/', "%2F"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A fast shutdown: connections are closed, and all of its processes end.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        // If it fails, the rest is in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// The newest of those that Debian has installed beside each other.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|it| Some((it.file_name().to_str()?.parse().ok()?, it.path().join("bin"))))
        .collect();
    found.retain(|(_, programs)| ["initdb", "postgres", "psql"].iter().all(|it| programs.join(it).exists()));
    found.sort();
    let newest = found.pop().map(|(_, programs)| programs);
    if newest.is_none() {
        eprintln!("left out: there is no PostgreSQL in /usr/lib/postgresql (Debian: postgresql)");
    }
    newest
}

#[track_caller]
fn succeeds(command: &mut Command) {
    check(&command.output().expect("it starts"), 0);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn machines_that_add_at_the_same_time_lose_nothing_and_add_nothing_twice() {
    let Some(server) = Server::start("crowd") else { return };
    let directory = directory("lab-postgres-crowd");
    server.said("postgres", "create database lab");
    let url = server.url("owner", "lab");
    for night in 0..4 {
        run(&directory, night, 120.0);
    }
    // The first of them creates the tables, and three processes add every run.
    let add = |number: u32| {
        let (run, commit) = (format!("night-{}", number % 4), format!("c{}", number % 4));
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["lab", "history", "--store", &url, "--add", &run, "--commit", &commit]);
        command
            .current_dir(&directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let adders: Vec<Child> = (0..12).map(add).collect();
    let outputs: Vec<Output> = adders.into_iter().map(|it| it.wait_with_output().expect("it ends")).collect();
    outputs.iter().for_each(|output| drop(check(output, 0)));
    let known = outputs.iter().filter(|output| text(&output.stderr).contains("is in the history already"));
    assert_eq!(known.count(), 8);
    let counted = "select (select count(*) from evenkeel_lab.run), (select count(*) from evenkeel_lab.point)";
    // Two subjects with one metric.
    assert_eq!(server.said("lab", counted), "4|8");
}

#[test]
fn a_shared_history_has_the_same_results_as_a_file() {
    let Some(server) = Server::start("gate") else { return };
    let directory = directory("lab-postgres-gate");
    server.said("postgres", "create database lab");
    let url = server.url("owner", "lab");
    for night in 0..16 {
        let run = run(&directory, night, if night < 10 { 120.0 } else { 105.0 });
        let (run, commit) = (run.to_str().expect("text"), format!("c{night}"));
        check(&lab(&directory, &["history", "--add", run, "--commit", &commit]), 0);
        check(&lab(&directory, &["history", "--store", &url, "--add", run, "--commit", &commit]), 0);
    }
    let said = check(&lab(&directory, &["history", "--store", &url]), 0);
    assert_eq!(said, check(&lab(&directory, &["history"]), 0));
    let compared = |url: &str| check(&lab(&directory, &["compare", "c3", "c12", "--store", url]), 0);
    assert_eq!(compared(&url), compared("lab.sqlite"));
    // As an earlier version has left it.
    for column in ["by_round", "definition", "pinned", "ratio"] {
        server.said("lab", &format!("alter table evenkeel_lab.point drop column {column}"));
    }
    server.said("lab", "drop table evenkeel_lab.profile");
    server.said("lab", "update evenkeel_lab.format set version = 1");
    assert!(compared(&url).contains("only its medians are known"));
    let said = check(&lab(&directory, &["gate", "--store", &url]), 19);
    assert!(said.contains("Good at c9, worse since c10."), "{said}");
    // Runs that an earlier version kept have no definition to compare a rerun with, until they are added again.
    for night in 0..16 {
        let (run, commit) = (format!("night-{night}"), format!("c{night}"));
        let again = lab(&directory, &["history", "--store", &url, "--add", &run, "--commit", &commit]);
        check(&again, 0);
        assert!(text(&again.stderr).contains("was kept by an earlier version"), "{}", text(&again.stderr));
    }
    let slow = run(&directory, 90, 104.0);
    let confirmed = ["gate", "--store", &url, "--confirm-run", slow.to_str().expect("text")];
    assert!(check(&lab(&directory, &confirmed), 18).contains("A rerun confirms it."));
}

/// A run of both subjects, theirs pinned, with perf's samples of each; `hash` is the number of our samples in `hash`.
fn sampled(directory: &Path, night: u32, ours: f64, hash: u64) -> String {
    let run = run(directory, night, ours);
    let pinned = EXPERIMENT.replace("start = \"theirs\"", "start = \"theirs\"\npinned = true");
    fs::write(run.join("experiment.toml"), pinned).expect("written");
    fs::create_dir_all(run.join("profiles")).expect("a directory");
    for (place, cell, us, hash) in [(0, "ours", 1e6 / ours, hash), (1, "theirs", 1e4, 500)] {
        let json = format!(
            r#"{{"cell": "{cell}", "request_us": {us}, "functions": {{"hash (it)": {hash}, "parse (it)": 9000}}}}"#
        );
        fs::write(run.join(format!("profiles/{place:04}.json")), json).expect("written");
    }
    format!("night-{night}")
}

/// Checks that a guest without a grant is refused with this status and this error, and gets a hint.
#[track_caller]
fn denied(output: &Output, status: i32, error: &str) {
    check(output, status);
    let said = text(&output.stderr);
    let remedy = [
        "hint: let the owner of the database use the history first",
        "and again after a version that brings a new table",
        "`grant select, insert, update on all tables in schema evenkeel_lab`",
    ];
    assert!(said.contains(error) && remedy.iter().all(|words| said.contains(words)), "{said}");
}

#[test]
fn a_shared_history_keeps_profiles_and_names_the_functions_that_grew() {
    let Some(server) = Server::start("profiles") else { return };
    let directory = directory("lab-postgres-profiles");
    server.said("postgres", "create database lab");
    server.said("postgres", "create role guest login");
    let owner = server.url("owner", "lab");
    let add = |store: &str, run: &str| {
        let commit = run.replace("night-", "c");
        lab(&directory, &["history", "--store", store, "--add", run, "--commit", &commit])
    };
    for night in 0..16 {
        let run = match night < 10 {
            true => sampled(&directory, night, 120.0, 1000),
            false => sampled(&directory, night, 105.0, 2400),
        };
        // Twice: existing entries stay as they are.
        for store in [&owner, &owner, "lab.sqlite"] {
            check(&add(store, &run), 0);
        }
    }
    let count = "select count(*), count(distinct definition) from evenkeel_lab.profile";
    assert_eq!(server.said("lab", count), "32|2", "of each subject in each run");
    let gate = |store: &str| lab(&directory, &["gate", "--store", store]);
    let said = check(&gate(&owner), 19);
    assert!(said.contains("relative to theirs became worse") && said.contains("worse since c10"), "{said}");
    let (_, grown) = said.split_once("  Where (").expect("functions");
    assert!(grown.starts_with("µs of CPU time for each request; 10000 samples at c9 and 11400 at c10):\n"));
    assert!(grown.contains("  hash (it)\n") && !grown.contains("parse (it)"), "{said}");
    assert_eq!(said, check(&gate("lab.sqlite"), 19));

    // As the version before left it, with the grants of its owner.
    for statement in [
        "drop table evenkeel_lab.profile",
        "update evenkeel_lab.format set version = 3",
        "grant usage on schema evenkeel_lab to guest",
        "grant select, insert, update on all tables in schema evenkeel_lab to guest",
    ] {
        server.said("lab", statement);
    }
    let guest = server.url("guest", "lab");
    denied(&gate(&guest), 1, "permission denied for schema evenkeel_lab");
    assert_eq!(server.said("lab", "select version from evenkeel_lab.format"), "3");
    let brought = check(&gate(&owner), 19);
    assert!(brought.contains("  Where: no run before has a profile;"), "{brought}");
    assert_eq!(server.said("lab", "select version from evenkeel_lab.format"), "4");
    // No user has a grant on the new table: the verdict holds without the functions, and nothing is kept in part.
    let unseen = gate(&guest);
    denied(&unseen, 19, "permission denied for table profile");
    assert!(text(&unseen.stdout).contains("worse since c10"));
    let next = sampled(&directory, 16, 105.0, 2400);
    denied(&add(&guest, &next), 1, "permission denied for table profile");
    assert_eq!(server.said("lab", "select count(*) from evenkeel_lab.run"), "16");
    server.said("lab", "grant select, insert, update on all tables in schema evenkeel_lab to guest");
    check(&add(&guest, &next), 0);
    assert_eq!(server.said("lab", count), "2|2");
    let said = check(&gate(&guest), 19);
    assert!(said.contains("  Where: no run before has a profile;"), "{said}");
}

/// Checks that it is refused with this status and these messages.
#[track_caller]
fn refused(directory: &Path, url: &str, status: i32, expected: &[&str]) {
    let output = lab(directory, &["history", "--store", url]);
    check(&output, status);
    let said = text(&output.stderr);
    assert!(expected.iter().all(|expected| said.contains(expected)), "{said}");
}

#[test]
fn errors_of_a_shared_history_have_hints() {
    let Some(server) = Server::start("refused") else { return };
    let directory = directory("lab-postgres-refused");
    server.said("postgres", "create database lab");
    server.said("postgres", "create role guarded login password 'right'");
    let nobody =
        format!("postgres://owner@{}%2Fnowhere/lab", server.home.display().to_string().replace('/', "%2F"));
    refused(
        &directory,
        &nobody,
        71,
        &["use the history postgres://owner@/", "No such file", "hint: `pg_isready"],
    );
    let missing = server.url("owner", "elsewhere");
    refused(&directory, &missing, 1, &["database \"elsewhere\" does not exist", "hint: `createdb`"]);
    let wrong = server.url("guarded:wrong", "lab");
    refused(
        &directory,
        &wrong,
        1,
        &["password authentication failed for user \"guarded\"", "hint: the password"],
    );
    refused(&directory, &server.url("guarded", "lab"), 1, &["password missing", "hint: the password"]);
    // Since PostgreSQL 15 a guest cannot create tables; with the owner's grants it can add runs.
    let guest = server.url("guarded:right", "lab");
    refused(&directory, &guest, 1, &["permission denied", "hint: let the owner"]);
    run(&directory, 1, 120.0);
    let add = |url: &str| lab(&directory, &["history", "--store", url, "--add", "night-1", "--commit", "c1"]);
    check(&lab(&directory, &["history", "--store", &server.url("owner", "lab")]), 0);
    server.said("lab", "grant usage on schema evenkeel_lab to guarded");
    server.said("lab", "grant select, insert, update on all tables in schema evenkeel_lab to guarded");
    assert!(check(&add(&guest), 0).contains("c1"));
    server.said("lab", "update evenkeel_lab.format set version = 5");
    let later = "its format is 5, and only 4 is known";
    refused(&directory, &guest, 1, &[later, "hint: a later version"]);
}
