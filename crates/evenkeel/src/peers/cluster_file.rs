//! The file of a cluster's members (`--cluster-file`): read every second, and told to the workers when it has changed.
//!
//! A file that cannot be used changes nothing: the last good list stays, a line says why, once for each content, and the
//! statistics have it. No worker reads it, and a fifo in its place keeps nobody waiting.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use os::clock::pause;
use protocol::discovery::{DISCOVERY_FILE_LEN_MAX, DiscoveryList, DiscoveryState};
use stdx::log_level::LogLevel;
use stdx::words::counted;

use crate::terminal::log::log;

/// Interval at which the file is read. It is short beside the minute after which clients ask again, and a file of some
/// kilobytes costs less than to find out whether it has changed: two changes within a tick of the file system's clock may
/// look like none.
const LOOK: Duration = Duration::from_secs(1);

/// What was found the last time.
type Found = Result<Vec<u8>, String>;

/// The file, and what was told of it.
pub(crate) struct ClusterFile<P> {
    path: PathBuf,
    verb: &'static str,
    publish: P,
    seen: Option<Found>,
    state: DiscoveryState,
}

impl<P: Fn(DiscoveryState)> ClusterFile<P> {
    /// Reads it for the first time. A missing file is no error: it may be written later.
    pub(crate) fn start(path: PathBuf, verb: &'static str, publish: P) -> ClusterFile<P> {
        let mut file = ClusterFile { path, verb, publish, seen: None, state: DiscoveryState::default() };
        file.look(log);
        file
    }

    /// Runs as long as the process.
    pub(crate) fn run(mut self) {
        loop {
            pause(LOOK);
            self.look(log);
        }
    }

    /// Reads the file, and tells what has changed.
    fn look(&mut self, log: impl Fn(LogLevel, &str, String)) {
        let found = read(&self.path).map_err(|error| error.to_string());
        if self.seen.as_ref() == Some(&found) {
            return;
        }
        let list = found.as_deref().map_err(Clone::clone).and_then(|text| self.judge(text));
        match list {
            Ok(list) => {
                let (revision, members) = (list.revision(), list.members());
                let members = counted(members, "member");
                let text = format!("clients with auto-discovery are told revision {revision}: {members}");
                log(LogLevel::Info, self.verb, text);
                self.state.list = Some(Arc::new(list));
                self.state.is_current = true;
            }
            Err(why) => {
                let effect = match &self.state.list {
                    Some(list) => format!("the members stay those of revision {}", list.revision()),
                    None => "clients with auto-discovery are told nothing".to_owned(),
                };
                let text = format!("{effect}: --cluster-file {}: {why}", self.path.display());
                log(LogLevel::Warning, self.verb, text);
                self.state.is_current = false;
                self.state.refusals += 1;
            }
        }
        self.seen = Some(found);
        (self.publish)(self.state.clone());
    }

    fn judge(&self, text: &[u8]) -> Result<DiscoveryList, String> {
        let list = DiscoveryList::parse(text).map_err(|error| error.to_string())?;
        if let Some(current) = &self.state.list {
            list.follows(current).map_err(|error| error.to_string())?;
        }
        Ok(list)
    }
}

/// The bytes of a file, at most one more than are accepted.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Not to wait for the other end of a fifo.
    let file = os::file::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("expected a file, found a folder, a fifo or a device"));
    }
    let mut text = Vec::new();
    file.take(DISCOVERY_FILE_LEN_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A file in a folder of its own, and what was said and told.
    struct Bench {
        folder: PathBuf,
        path: PathBuf,
        file: ClusterFile<Box<dyn Fn(DiscoveryState)>>,
        told: Arc<std::sync::Mutex<Vec<DiscoveryState>>>,
        said: RefCell<Vec<String>>,
    }

    impl Bench {
        fn new(name: &str) -> Bench {
            let folder = std::env::temp_dir().join(format!("evenkeel-cluster-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("a folder");
            let path = folder.join("members");
            let told = Arc::new(std::sync::Mutex::new(Vec::new()));
            let heard = Arc::clone(&told);
            let publish: Box<dyn Fn(DiscoveryState)> =
                Box::new(move |state| heard.lock().expect("a lock").push(state));
            let file = ClusterFile {
                path: path.clone(),
                verb: "serve",
                publish,
                seen: None,
                state: DiscoveryState::default(),
            };
            Bench { folder, path, file, told, said: RefCell::default() }
        }

        /// The revision that is told after one look and after a second one, which tells nothing; and what is said.
        #[track_caller]
        fn check(&mut self, expected: Option<u64>, line: &str) {
            self.file.look(|_, _, line| self.said.borrow_mut().push(line));
            let told = self.told.lock().expect("a lock").len();
            self.file.look(|_, _, line| panic!("said again: {line}"));
            let told_now = self.told.lock().expect("a lock");
            assert_eq!(told_now.len(), told);
            let last = told_now.last().and_then(|state| state.list.as_ref().map(|list| list.revision()));
            assert_eq!(last, expected);
            let said = self.said.borrow();
            assert!(said.last().is_some_and(|said| said.contains(line)), "{said:?}");
        }

        fn write(&self, text: &str) {
            fs::write(self.folder.join("new"), text).expect("written");
            fs::rename(self.folder.join("new"), &self.path).expect("renamed");
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn what_cannot_be_used_leaves_the_last_good_list() {
        let mut bench = Bench::new("bad");
        bench.check(None, "are told nothing: --cluster-file");
        bench.write("3\na||1\n");
        bench.check(Some(3), "revision 3: 1 member");
        bench.write("4\na||0\n");
        bench.check(Some(3), "stay those of revision 3");
        bench.write("2\na||1\n");
        bench.check(Some(3), "revision 2 is older");
        bench.write("3\na||1\nb||1\n");
        bench.check(Some(3), "the revision is still 3");
        fs::remove_file(&bench.path).expect("removed");
        bench.check(Some(3), "No such file");
        fs::create_dir(&bench.path).expect("a folder");
        bench.check(Some(3), "found a folder");
        fs::remove_dir(&bench.path).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, &bench.path, rustix::fs::Mode::RUSR).expect("a fifo");
        bench.said.borrow_mut().clear();
        bench.file.look(|_, _, _| panic!("the same words as for a folder"));
        fs::remove_file(&bench.path).expect("removed");
        symlink("members", &bench.path).expect("a circle");
        bench.check(Some(3), "stay those of revision 3");
        fs::remove_file(&bench.path).expect("removed");
        symlink("/dev/zero", &bench.path).expect("a link");
        bench.check(Some(3), "a device");
        fs::remove_file(&bench.path).expect("removed");
        let endless = File::create(&bench.path).expect("a file");
        endless.set_len(100 << 20).expect("100 MB");
        bench.check(Some(3), "expected at most 65536 bytes");
        bench.write("4\na||1\nb||1\n");
        bench.check(Some(4), "revision 4: 2 members");
        let told = bench.told.lock().expect("a lock");
        let last = told.last().expect("told");
        assert!(last.is_current);
        assert_eq!(last.refusals, 9);
    }

    #[test]
    fn a_file_without_permission_is_said_once() {
        let mut bench = Bench::new("mode");
        bench.write("1\na||1\n");
        bench.check(Some(1), "revision 1");
        fs::set_permissions(&bench.path, Permissions::from_mode(0o000)).expect("a mode");
        // Root reads it all the same.
        let line = if File::open(&bench.path).is_ok() { "revision 1" } else { "Permission denied" };
        bench.check(Some(1), line);
    }

    #[test]
    fn links_are_followed_when_one_in_the_middle_changes() {
        let mut bench = Bench::new("links");
        for revision in [1, 2] {
            let folder = bench.folder.join(format!("..{revision}"));
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("members"), format!("{revision}\na||1\n")).expect("written");
        }
        symlink("..1", bench.folder.join("..data")).expect("a link");
        symlink("..data/members", &bench.path).expect("a link");
        bench.check(Some(1), "revision 1");
        symlink("..2", bench.folder.join("..new")).expect("a link");
        fs::rename(bench.folder.join("..new"), bench.folder.join("..data")).expect("renamed");
        bench.check(Some(2), "revision 2");
    }

    #[test]
    fn a_hundred_changes_are_all_seen_however_quick() {
        let mut bench = Bench::new("quick");
        for revision in 101..=200 {
            // Of one length, in one file, within a tick of the file system's clock.
            fs::write(&bench.path, format!("{revision}\na||1\n")).expect("written");
            bench.check(Some(revision), &format!("revision {revision}"));
        }
        assert_eq!(bench.told.lock().expect("a lock").len(), 100);
    }
}
