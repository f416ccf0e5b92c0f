//! Other users of the host: what they put into folders where the server has its files changes nothing elsewhere, and is not believed.
//!
//! These tests need root, which can make files of other users; without it they are left out, which is said.

use end_to_end::clock;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::process::getuid;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The attacker: `games` of every distribution.
const GAMES: u32 = 5;
/// The user that root becomes.
const NOBODY: u32 = 65_534;

/// A folder where every user may make files, as in /tmp, with a file that only root may use.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Option<Folder> {
        if !getuid().is_root() {
            eprintln!("left out: only root can make files of other users");
            return None;
        }
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-local-users-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        let folder = Folder(path);
        folder.set_mode("", 0o1777);
        fs::write(folder.path("victim"), "precious").expect("room");
        folder.set_mode("victim", 0o600);
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("root may");
    }

    /// A folder of this user.
    fn of(&self, user: u32, name: &str) {
        fs::create_dir(self.path(name)).expect("a folder");
        chown(self.path(name), Some(user), Some(user)).expect("root may");
    }

    /// A link to the victim that this user has made.
    fn plant(&self, user: u32, name: &str) {
        symlink(self.path("victim"), self.path(name)).expect("a link");
        lchown(self.path(name), Some(user), Some(user)).expect("root may");
    }

    #[track_caller]
    fn check_victim(&self) {
        let found = fs::metadata(self.path("victim")).expect("it is there");
        assert_eq!(fs::read(self.path("victim")).expect("it is there"), b"precious");
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
    }

    /// Starts a server with its output in a file of the folder.
    fn start(&self, name: &str, flags: &[&str]) -> Running {
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let said = self.path(&format!("{name}.said"));
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(&subject.program).args(&subject.arguments);
        command.args(["-t", "1", "-m", "16", "-v"]).args(flags).stdin(Stdio::null());
        command.stderr(fs::File::create(&said).expect("a file"));
        Running { child: command.spawn().expect("a process"), said }
    }

    /// The server is refused with these words.
    #[track_caller]
    fn check_refused(&self, flags: &[&str], expected: &str) {
        let mut server = self.start("refused", flags);
        let ended = server.ended();
        assert!(!ended.success() && server.said().contains(expected), "{ended} {}", server.said());
        self.check_victim();
    }

    /// The server serves, and ends in an orderly way.
    #[track_caller]
    fn check_serves(&self, flags: &[&str]) {
        let mut server = self.start("serves", flags);
        server.serves();
        server.end();
        self.check_victim();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it fails, the folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    #[track_caller]
    fn serves(&mut self) {
        let is_ready = clock::wait_for(|| {
            let has_ended = self.child.try_wait().expect("a child").is_some();
            (has_ended || self.said().contains(" serves on ")).then_some(!has_ended)
        });
        assert_eq!(is_ready, Some(true), "{}", self.said());
    }

    fn ended(&mut self) -> ExitStatus {
        clock::wait_for(|| self.child.try_wait().expect("a child")).expect("it ends")
    }

    #[track_caller]
    fn end(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
        assert!(self.ended().success(), "{}", self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o777
}

/// A port that the kernel chooses.
const TCP: [&str; 4] = ["-l", "127.0.0.1", "-p", "-1"];

#[test]
fn a_flash_file_is_opened_as_the_servers_user_and_no_link_of_others_is_followed() {
    let Some(folder) = Folder::new() else { return };
    let check = |user: &[&str], name: &str, expected: &str| {
        let path = format!("ext_path={}:32m,ext_page_size=4,ext_wbuf_size=1", folder.text(name));
        folder.check_refused(&[&TCP[..], user, &["-o", &path]].concat(), expected);
    };
    folder.of(NOBODY, "home");
    folder.plant(NOBODY, "home/flash");
    check(&[], "home/flash", "Permission denied");
    check(&["-u", "root"], "home/flash", "is a symbolic link where another user could have made it");
    folder.plant(GAMES, "flash");
    for user in [&[][..], &["-u", "root"]] {
        check(user, "flash", "is a symbolic link where another user could have made it");
    }
    // A file that it may open, of another user.
    fs::write(folder.path("home/theirs"), "").expect("room");
    chown(folder.path("home/theirs"), Some(GAMES), Some(GAMES)).expect("root may");
    check(&["-u", "root"], "home/theirs", "it belongs to user 5, and a file of user 0 is expected");
    check(&["-u", "root"], "victim", "it has 8, and a file that is not empty is not made longer");
    fs::hard_link(folder.path("victim"), folder.path("home/hard")).expect("root may");
    check(&["-u", "root"], "home/hard", "it has another name, too (a hard link)");
    folder.check_victim();
    let path = format!("ext_path={}:32m,ext_page_size=4,ext_wbuf_size=1", folder.text("home/new"));
    folder.check_serves(&[&TCP[..], &["-o", &path]].concat());
    let made = fs::metadata(folder.path("home/new")).expect("it is there");
    assert_eq!((made.uid(), made.mode() & 0o777), (NOBODY, 0o600));
}

/// A process of the user who owns the folder puts a link in the place of the socket as soon as that is there.
#[test]
fn a_link_in_the_place_of_a_socket_changes_no_other_file() {
    let Some(folder) = Folder::new() else { return };
    folder.of(NOBODY, "run");
    let socket = folder.path("run/socket");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let is_socket = fs::symlink_metadata(&socket).is_ok_and(|found| !found.is_symlink());
                if is_socket && fs::rename(&socket, folder.path("run/away")).is_ok() {
                    let _ = symlink(folder.path("victim"), &socket);
                }
            }
        });
        for _ in 0..8 {
            let mut server = folder.start("swapped", &["-s", &folder.text("run/socket"), "-a", "0777"]);
            // Either is right: it has noticed, or it was too early for it.
            let done = clock::wait_for(|| {
                let has_ended = server.child.try_wait().expect("a child").is_some();
                (has_ended || server.said().contains(" serves on ")).then_some(())
            });
            assert!(done.is_some(), "{}", server.said());
            drop(server);
            let _ = fs::remove_file(&socket);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    folder.check_victim();
}

#[test]
fn a_socket_has_its_mode_and_owner_whatever_the_umask() {
    let Some(folder) = Folder::new() else { return };
    folder.of(NOBODY, "run");
    for (asked, expected) in [("0700", 0o700), ("0666", 0o666), ("0777", 0o777)] {
        let mut server = folder.start("mode", &["-s", &folder.text("run/socket"), "-a", asked]);
        server.serves();
        let found = fs::symlink_metadata(folder.path("run/socket")).expect("it is there");
        assert_eq!((found.uid(), found.mode() & 0o777), (NOBODY, expected));
        server.end();
        assert!(!folder.path("run/socket").exists());
    }
}

#[test]
fn a_server_of_another_user_is_not_believed() {
    let Some(folder) = Folder::new() else { return };
    let next = folder.text("next");
    let mut theirs = folder.start("theirs", &[&TCP[..], &["-u", "games", "--takeover", &next]].concat());
    theirs.serves();
    for user in [&[][..], &["-u", "root"]] {
        let flags = [&TCP[..], user, &["--takeover", &next]].concat();
        folder.check_refused(&flags, "its process belongs to user 5, and expected is user 0");
    }
    let mut same = folder.start("same", &[&TCP[..], &["-u", "games", "--takeover", &next]].concat());
    same.serves();
    assert!(theirs.ended().success(), "{}", theirs.said());
}

#[test]
fn nobody_can_change_the_length_of_memory_that_is_handed_over() {
    let Some(folder) = Folder::new() else { return };
    let mut server =
        folder.start("sealed", &[&TCP[..], &["-u", "root", "--takeover", &folder.text("next")]].concat());
    server.serves();
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.child.id())).expect("a process");
    let is_memory = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.display().to_string().contains("evenkeel-items"))
    };
    let memory = descriptors.map(|entry| entry.expect("an entry").path()).find(is_memory).expect("memory");
    let memory = fs::File::options().read(true).write(true).open(memory).expect("root may");
    let len = memory.metadata().expect("memory").len();
    for other in [0, len - 4096, len + 4096] {
        assert_eq!(memory.set_len(other).expect_err("sealed").kind(), std::io::ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_memory_file_of_others_or_of_another_purpose_is_refused_and_stays() {
    let Some(folder) = Folder::new() else { return };
    let root = |name: &str| {
        [&TCP[..], &["-u", "root", "-e"]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .chain([folder.text(name)])
            .collect::<Vec<_>>()
    };
    let check = |name: &str, expected: &str| {
        let flags = root(name);
        folder.check_refused(&flags.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    };
    check("victim", "expected an empty file, or one that a server has made, found something else");
    folder.plant(GAMES, "link");
    // Where everyone can make files, some kernels refuse a link before they see that it is one.
    check("link", "link (-e): ");
    fs::write(folder.path("theirs"), "").expect("room");
    chown(folder.path("theirs"), Some(GAMES), Some(GAMES)).expect("root may");
    check("theirs", "it belongs to user 5, and a file of user 0 is expected");
    fs::write(folder.path("open"), "").expect("room");
    folder.set_mode("open", 0o666);
    check("open", "its mode is 0666, so others than its owner can write it");
    fs::write(folder.path("one"), "").expect("room");
    fs::hard_link(folder.path("one"), folder.path("two")).expect("root may");
    check("two", "it has another name, too (a hard link)");
    for name in ["items.meta.tmp", "items.tmp"] {
        folder.plant(GAMES, name);
    }
    let flags = root("items");
    folder.check_serves(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!([mode(&folder.path("items")), mode(&folder.path("items.meta"))], [0o600; 2]);
    // What another user puts beside a file is not believed.
    chown(folder.path("items.meta"), Some(GAMES), Some(GAMES)).expect("root may");
    let mut server = folder.start("doubted", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    server.serves();
    assert!(server.said().contains("it belongs to user 5"), "{}", server.said());
}

#[test]
fn a_pid_file_follows_no_link_and_only_its_owner_writes_it() {
    let Some(folder) = Folder::new() else { return };
    for name in ["pid", "pid.tmp"] {
        folder.plant(GAMES, name);
    }
    let mut server = folder.start("pid", &[&TCP[..], &["-u", "root", "-P", &folder.text("pid")]].concat());
    server.serves();
    assert_eq!(fs::read_to_string(folder.path("pid")).expect("a file").trim(), server.child.id().to_string());
    assert_eq!(mode(&folder.path("pid")), 0o644);
    server.end();
    folder.check_victim();
}
