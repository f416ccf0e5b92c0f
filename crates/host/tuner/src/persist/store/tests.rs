use super::*;
use crate::observe::shapes::Scratch;

/// A disk that stops working after this many changes: from then on everything fails, as after a crash, or one step
/// does.
struct Failing {
    disk: RootDisk,
    left: usize,
    dies: bool,
}

impl Failing {
    fn step(&mut self) -> io::Result<()> {
        match self.left {
            0 if self.dies => Err(io::Error::other("dead")),
            0 => {
                self.left = usize::MAX;
                Err(io::Error::other("refused"))
            }
            _ => {
                self.left -= 1;
                Ok(())
            }
        }
    }
}

impl PersistentDisk for Failing {
    fn find(&self, path: &str) -> io::Result<Found> {
        self.disk.find(path)
    }
    fn is_directory(&self, path: &str) -> bool {
        self.disk.is_directory(path)
    }
    fn make_directory(&mut self, path: &str) -> io::Result<()> {
        self.step()?;
        self.disk.make_directory(path)
    }
    fn remove_directory(&mut self, path: &str) -> io::Result<()> {
        self.step()?;
        self.disk.remove_directory(path)
    }
    fn replace(&mut self, path: &str, text: &str, mode: u32, is_new: bool) -> io::Result<()> {
        self.step()?;
        self.disk.replace(path, text, mode, is_new)
    }
    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.step()?;
        self.disk.remove(path)
    }
    fn remove_unfinished(&mut self, path: &str) -> io::Result<()> {
        self.disk.remove_unfinished(path)
    }
    fn copy(&mut self, path: &str, to: &str) -> io::Result<()> {
        self.step()?;
        self.disk.copy(path, to)
    }
}

fn file(path: &str, text: &str) -> PersistentFile {
    PersistentFile { path: path.into(), text: text.into(), mode: 0o644, why: "because".into() }
}

fn of(files: &[PersistentFile]) -> Persistence {
    Persistence { files: files.to_vec(), ..Persistence::default() }
}

fn write(root: &Root, files: &[PersistentFile], force: bool) -> Result<Done, Error> {
    super::write(root, &of(files), force)
}

fn write_to(disk: &mut dyn PersistentDisk, files: &[PersistentFile], force: bool) -> Result<Done, Error> {
    super::write_to(disk, &of(files), "first", force)
}

fn first() -> Vec<PersistentFile> {
    vec![file("/etc/a.d/one", "1\n"), file("/etc/b", "b\n"), file("/etc/gone.d/three", "3\n")]
}

fn second() -> Vec<PersistentFile> {
    vec![file("/etc/a.d/one", "1, again\n"), file("/etc/new.d/deep/two", "2\n"), file("/etc/b", "b\n")]
}

struct Host(Scratch);

impl Host {
    fn new(name: &str) -> Host {
        let host = Host(Scratch::new(&format!("persist-{name}")));
        std::fs::create_dir_all(host.0.path().join("etc/evenkeel")).unwrap();
        host.put("etc/others", "not ours\n");
        host
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    fn disk(&self) -> RootDisk {
        RootDisk::new(self.root())
    }

    fn put(&self, path: &str, text: &str) {
        std::fs::write(self.0.path().join(path), text).unwrap();
    }

    /// Every file and directory with what it holds, but the manifest.
    fn all(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut open = vec![self.0.path().join("etc")];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.0.path()).unwrap().display().to_string();
                if path.is_dir() {
                    open.push(path);
                    found.push((name, "directory".into()));
                } else if !name.ends_with("persisted.json") {
                    found.push((name, std::fs::read_to_string(path).unwrap()));
                }
            }
        }
        found.retain(|(name, _)| name != "etc/evenkeel");
        found.sort();
        found
    }

    #[track_caller]
    fn check(&self, wanted: &[(&str, &str)]) {
        let wanted: Vec<_> = wanted.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        assert_eq!(self.all(), wanted);
    }
}

const NOTHING: &[(&str, &str)] = &[("etc/others", "not ours\n")];

#[test]
fn what_is_written_is_found_replaced_and_taken_away() {
    let host = Host::new("whole");
    assert!(matches!(remove(&host.root()), Err(Error::Nothing)));
    write(&host.root(), &first(), false).unwrap();
    assert_eq!(status(&host.root()).unwrap().files.len(), 3);
    write(&host.root(), &second(), false).unwrap();
    host.check(&[
        ("etc/a.d", "directory"),
        ("etc/a.d/one", "1, again\n"),
        ("etc/b", "b\n"),
        ("etc/new.d", "directory"),
        ("etc/new.d/deep", "directory"),
        ("etc/new.d/deep/two", "2\n"),
        ("etc/others", "not ours\n"),
    ]);
    let conditions = status(&host.root()).unwrap().files.into_iter().map(|(_, condition)| condition);
    assert!(conditions.into_iter().all(|condition| condition == FileState::AsWritten));
    remove(&host.root()).unwrap();
    host.check(NOTHING);
    assert!(!host.0.path().join("etc/evenkeel").exists());
}

#[test]
fn a_failure_at_any_step_leaves_what_was_there_and_so_does_a_crash() {
    for dies in [false, true] {
        for had in [Vec::new(), first()] {
            let mut steps = 0;
            loop {
                let host = Host::new(&format!("step-{dies}-{}-{steps}", had.len()));
                if !had.is_empty() {
                    write_to(&mut host.disk(), &had, false).unwrap();
                }
                let before = host.all();
                let mut failing = Failing { disk: host.disk(), left: steps, dies };
                let written = write_to(&mut failing, &second(), false);
                if failing.left > 0 && failing.left < 1000 {
                    written.unwrap();
                    break;
                }
                if dies && written.is_err() {
                    // The next one puts it right, whatever it is.
                    recover(&mut host.disk()).unwrap();
                }
                match written {
                    // Only directories that are not empty, or will be removed the next time, may fail without an error.
                    Ok(_) => assert!(host.all().contains(&("etc/a.d/one".into(), "1, again\n".into()))),
                    Err(_) => assert_eq!(host.all(), before, "{dies} {steps}"),
                }
                // And it can be done again, and undone.
                write_to(&mut host.disk(), &second(), false).unwrap();
                remove_from(&mut host.disk()).unwrap();
                host.check(NOTHING);
                steps += 1;
                assert!(steps < 100, "a bounded number of steps");
            }
            assert!(steps > 5, "{steps}");
        }
    }
}

#[test]
fn taking_away_can_be_interrupted_and_goes_on() {
    for steps in 0..6 {
        let host = Host::new(&format!("remove-{steps}"));
        write_to(&mut host.disk(), &first(), false).unwrap();
        let mut failing = Failing { disk: host.disk(), left: steps, dies: true };
        let removed = remove_from(&mut failing);
        if removed.is_err() {
            remove_from(&mut host.disk()).unwrap();
        }
        host.check(NOTHING);
    }
}

#[test]
fn what_is_not_ours_is_never_overwritten() {
    let host = Host::new("foreign");
    host.put("etc/b", "theirs\n");
    for force in [false, true] {
        let error = write(&host.root(), &first(), force).unwrap_err().to_string();
        assert_eq!(error, "write /etc/b: there is one already, and it is not ours");
        host.check(&[("etc/b", "theirs\n"), ("etc/others", "not ours\n")]);
    }
    // Not even through a link to it.
    std::fs::remove_file(host.0.path().join("etc/b")).unwrap();
    std::os::unix::fs::symlink("others", host.0.path().join("etc/b")).unwrap();
    assert!(matches!(write(&host.root(), &first(), true), Err(Error::Foreign { .. })));
}

#[test]
fn what_was_edited_is_said_and_never_lost() {
    let host = Host::new("edited");
    write(&host.root(), &first(), false).unwrap();
    host.put("etc/b", "by hand\n");
    std::fs::remove_file(host.0.path().join("etc/a.d/one")).unwrap();
    let conditions: Vec<_> =
        status(&host.root()).unwrap().files.into_iter().map(|(_, condition)| condition).collect();
    assert_eq!(conditions, [FileState::Missing, FileState::Edited, FileState::AsWritten]);
    let error = write(&host.root(), &second(), false).unwrap_err().to_string();
    assert_eq!(error, "write /etc/b: it was edited since it was written");
    let done = write(&host.root(), &second(), true).unwrap();
    assert_eq!(done.aside, [("/etc/b".to_owned(), "/etc/b.edited".to_owned())]);
    assert!(host.all().contains(&("etc/b.edited".into(), "by hand\n".into())));
    host.put("etc/b", "again\n");
    remove(&host.root()).unwrap();
    host.check(&[("etc/b.edited", "by hand\n"), ("etc/b.edited.2", "again\n"), ("etc/others", "not ours\n")]);
}

#[test]
fn a_link_in_the_place_of_one_of_ours_is_put_aside_as_a_link() {
    let host = Host::new("relinked");
    write(&host.root(), &first(), false).unwrap();
    let (path, aside) = (host.0.path().join("etc/b"), host.0.path().join("etc/b.edited"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("others", &path).unwrap();
    assert!(matches!(write(&host.root(), &second(), false), Err(Error::Edited { .. })));
    write(&host.root(), &second(), true).unwrap();
    assert_eq!(std::fs::read_link(&aside).unwrap().to_str(), Some("others"));
    assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    assert!(host.all().contains(&("etc/others".into(), "not ours\n".into())));
}

#[test]
fn another_hosts_links_do_not_lead_to_this_one() {
    let host = Host::new("links");
    let outside = Scratch::new("persist-links-outside");
    std::os::unix::fs::symlink(outside.path(), host.0.path().join("etc/a.d")).unwrap();
    let error = write(&host.root(), &first(), false).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("leads out of"), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn two_do_not_write_at_once_and_a_manifest_of_another_version_is_refused() {
    let host = Host::new("lock");
    let lock = host.disk().lock().unwrap();
    assert!(matches!(write(&host.root(), &first(), false), Err(Error::Locked)));
    drop(lock);
    write(&host.root(), &first(), false).unwrap();
    let path = host.0.path().join("etc/evenkeel/persisted.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    assert!(matches!(remove(&host.root()), Err(Error::Version { version: 2, .. })));
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(remove(&host.root()), Err(Error::Manifest { .. })));
}

#[test]
fn what_the_files_bring_about_is_due_from_the_next_start_on() {
    let host = Host::new("held");
    let boot = |id: &str| {
        std::fs::create_dir_all(host.0.path().join("proc/sys/kernel/random")).unwrap();
        host.put("proc/sys/kernel/random/boot_id", id);
    };
    boot("first");
    let one = HeldSetting { setting: crate::Setting::number("/proc/sys/one"), wanted: "1".into() };
    let wanted = Persistence { held: vec![one.clone()], ..of(&first()) };
    super::write(&host.root(), &wanted, false).unwrap();
    assert_eq!(held(&host.root()).unwrap(), []);
    boot("second");
    assert_eq!(held(&host.root()).unwrap(), std::slice::from_ref(&one));
    // Files that could not be replaced go on to hold what they held.
    let mut failing = Failing { disk: host.disk(), left: 3, dies: false };
    let empty = of(&second());
    super::write_to(&mut failing, &empty, "second", false).unwrap_err();
    assert_eq!(held(&host.root()).unwrap(), [one]);
    remove(&host.root()).unwrap();
    assert_eq!(held(&host.root()).unwrap(), []);
}
