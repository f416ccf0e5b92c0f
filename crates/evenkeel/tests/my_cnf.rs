//! `evenkeel tune plan --my-cnf`: a fragment that a real MariaDB accepts.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

fn plan(arguments: &[&str]) -> Output {
    Command::new(EVENKEEL).args(["tune", "plan"]).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file for one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("evenkeel-my-cnf-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn mariadb_accepts_every_option() {
    let file = Scratch::new("taken");
    let made = plan(&["--profile", "mysql", "--my-cnf", file.path()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let defaults = format!("--defaults-file={}", file.path());
    let mut server = Command::new("/usr/sbin/mariadbd");
    let Ok(output) = server.args([&*defaults, "--help", "--verbose"]).output() else {
        return eprintln!("there is no /usr/sbin/mariadbd here");
    };
    let (values, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let options = fs::read_to_string(&file.0).unwrap();
    for option in options.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = option.split_once(" = ") else { continue };
        let known = name.strip_prefix("loose_").unwrap_or(name);
        if known != name && said.contains(&format!("unknown variable '{name}")) {
            continue;
        }
        let shown =
            values.lines().find_map(|line| line.strip_prefix(&format!("{} ", known.replace('_', "-"))));
        let shown = shown.unwrap_or_else(|| panic!("{known} is none of its options: {said}"));
        let bytes =
            value.strip_suffix('M').and_then(|value| value.parse::<u64>().ok()).map(|value| value << 20);
        let wanted = bytes.map_or(value.to_owned(), |bytes| bytes.to_string());
        // MariaDB limits these three itself: to the files that it may open, to the connections, and to whole chunks of
        // the pool.
        let adjusted = ["open_files_limit", "thread_cache_size", "innodb_buffer_pool_size"];
        let is_adjusted = adjusted.contains(&known);
        assert!(is_adjusted || shown.trim() == wanted, "{known}: wanted {wanted}, and it is {shown}");
    }
}

#[test]
fn only_a_file_of_its_own_is_replaced() {
    let file = Scratch::new("kept");
    let make = || plan(&["--profile", "mysql", "--my-cnf", file.path()]);
    assert!(make().status.success());
    assert!(make().status.success(), "its own file is replaced");
    fs::write(&file.0, "[mysqld]\n").unwrap();
    let refused = make();
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("there is a file already, and it was not made here"));
    assert_eq!(fs::read_to_string(&file.0).unwrap(), "[mysqld]\n");
}

#[test]
fn it_is_refused_for_other_profiles() {
    let refused = plan(&["--profile", "redis", "--my-cnf", "/nowhere/my.cnf"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused.stderr).contains("--my-cnf takes --profile mysql"), "{}", text(&refused.stderr));
}
