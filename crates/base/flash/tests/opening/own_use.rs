//! Files that are opened twice: by one process, by two, under several names, and beside a memcached.

use crate::{Folder, MIB, check_refused, close, open, open_path, specification, starting};
use flash::Devices;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const IN_USE: &str = "use PATH alone: a process has it open already, which may be this one";
const HARD_LINK: &str =
    "use PATH: it has another name, too (a hard link), so it may be a file that something else needs";

/// Names a file for the test that is another process.
const PATH_VARIABLE: &str = "FLASH_TEST_PATH";
/// Says what it does with the file: `open`, or `lock` as memcached does.
const WORK_VARIABLE: &str = "FLASH_TEST_WORK";

/// No test of its own: what the other tests start as another process. It prints a line, and ends with its input.
#[test]
fn another_process() {
    let Some(path) = std::env::var_os(PATH_VARIABLE) else { return };
    let path = Path::new(&path);
    let is_open = std::env::var(WORK_VARIABLE).expect("work") == "open";
    let opened = is_open.then(|| open(path, 2 * MIB));
    let locked = (!is_open).then(|| {
        let file = File::options().write(true).open(path).expect("a file");
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
        file
    });
    match &opened {
        Some(Err(error)) => println!("\nRESULT {}", error.to_string().lines().next().expect("a line")),
        _ => println!("\nRESULT done"),
    }
    std::io::stdin().read_to_end(&mut Vec::new()).expect("the end of the input");
    drop((opened, locked));
}

struct Other {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts another process, and returns what it prints.
    fn start(work: &str, path: &Path) -> (Other, String) {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command
            .args(["--exact", "own_use::another_process", "--nocapture"])
            .env(PATH_VARIABLE, path)
            .env(WORK_VARIABLE, work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let _starting = starting();
        let mut process = command.spawn().expect("another process");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let mut other = Other { process, output };
        let result = other.result();
        (other, result)
    }

    fn result(&mut self) -> String {
        let lines = self.output.by_ref().lines().map(|line| line.expect("text"));
        let result = lines.into_iter().find_map(|line| line.strip_prefix("RESULT ").map(str::to_owned));
        result.expect("a result before the end")
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).expect("its output");
        assert!(self.process.wait().expect("an end").success());
    }
}

#[test]
fn one_process_does_not_open_a_file_twice_under_any_name() {
    let folder = Folder::new();
    let path = folder.path("a");
    let first = open(&path, 2 * MIB).expect("a file");
    symlink("a", folder.path("soft")).expect("a link");
    for name in ["a", "soft"] {
        check_refused(&folder.path(name), 2 * MIB, IN_USE, None);
    }
    close(first);
    for name in ["a", "soft"] {
        close(open(&folder.path(name), 2 * MIB).expect("nobody has it"));
    }
}

/// In use or not: what a hard link leads to may be a file of somebody else.
#[test]
fn a_file_with_a_hard_link_is_refused_under_each_of_its_names() {
    let folder = Folder::new();
    let path = folder.path("a");
    let first = open(&path, 2 * MIB).expect("a file");
    fs::hard_link(&path, folder.path("hard")).expect("a link");
    for name in ["a", "hard"] {
        check_refused(&folder.path(name), 2 * MIB, HARD_LINK, None);
    }
    close(first);
    for name in ["a", "hard"] {
        check_refused(&folder.path(name), 2 * MIB, HARD_LINK, None);
    }
    fs::remove_file(folder.path("hard")).expect("removed");
    close(open(&path, 2 * MIB).expect("one name, and nobody has it"));
}

#[test]
fn devices_of_one_tier_are_different_files() {
    let folder = Folder::new();
    fs::write(folder.path("a"), "").expect("written");
    symlink("a", folder.path("soft")).expect("a link");
    for name in ["a", "../NAME/a", "soft"] {
        let name = name.replace("NAME", folder.0.file_name().and_then(|name| name.to_str()).expect("text"));
        let (first, other, path) = (folder.path("a"), folder.path("b"), folder.path(&name));
        let specifications = [&first, &other, &path].map(|path| specification(path, 2 * MIB));
        let error = Devices::open(&specifications, MIB, &open_path).expect_err("twice").to_string();
        close(());
        let expected = format!(
            "use {} and {} for the flash tier: they are the same file or device\n  hint: name each of them once",
            first.display(),
            path.display()
        );
        assert_eq!(error, expected);
        let again = Devices::open(&specifications[..2], MIB, &open_path);
        close(again.expect("all were closed again"));
    }
}

#[test]
fn two_processes_do_not_open_one_file() {
    let folder = Folder::new();
    let path = folder.path("a");
    let ours = open(&path, 2 * MIB).expect("a file");
    let (other, result) = Other::start("open", &path);
    assert_eq!(result, IN_USE.replace("PATH", path.to_str().expect("text")));
    other.end();
    close(ours);
    let (other, result) = Other::start("open", &path);
    assert_eq!(result, "done");
    check_refused(&path, 2 * MIB, IN_USE, None);
    assert!(path.exists(), "another's file is not removed");
    other.end();
    open(&path, 2 * MIB).expect("nobody has it");
}

#[test]
fn a_process_that_is_killed_has_no_file() {
    let folder = Folder::new();
    let path = folder.path("a");
    let (mut other, _) = Other::start("open", &path);
    check_refused(&path, 2 * MIB, IN_USE, None);
    other.process.kill().expect("it runs");
    other.process.wait().expect("it has ended");
    open(&path, 2 * MIB).expect("nobody has it");
}

#[test]
fn a_file_of_a_running_memcached_is_refused() {
    let folder = Folder::new();
    let path = folder.path("a");
    fs::write(&path, "").expect("written");
    let (other, result) = Other::start("lock", &path);
    assert_eq!(result, "done");
    check_refused(&path, 2 * MIB, IN_USE, None);
    assert_eq!(fs::metadata(&path).expect("a file").len(), 0, "it has not been changed");
    other.end();
    open(&path, 2 * MIB).expect("nobody has it");
}

#[test]
fn a_clone_of_the_descriptor_keeps_the_file() {
    let folder = Folder::new();
    let path = folder.path("a");
    let opened = open(&path, 2 * MIB).expect("a file");
    let clone = opened.device.file().expect("a descriptor");
    close(opened);
    check_refused(&path, 2 * MIB, IN_USE, None);
    close(clone);
    open(&path, 2 * MIB).expect("nobody has it");
}
