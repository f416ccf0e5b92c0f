//! Files that hold a key: nobody else may read them at any moment, and a reader finds the old content or the new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use os::DirectoryEntry;
use rustix::fs::OFlags;

/// For the owner alone.
pub(crate) const PRIVATE: u32 = 0o600;

/// For everyone to read.
pub(crate) const PUBLIC: u32 = 0o644;

/// Creates a file, which must not exist, and puts it on disk.
pub(crate) fn create(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    // The mode is the file's from its first moment: nobody can open it before a later change of the mode.
    let mut file = DirectoryEntry::of(path)?.create_new(mode)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Replaces a file, or creates it, in one step: by a temporary file on disk that takes its name.
pub(crate) fn replace(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let entry = DirectoryEntry::of(path)?;
    entry.replace(mode, |file| {
        file.write_all(content.as_bytes())?;
        file.sync_all()
    })?;
    entry.sync_directory()
}

/// Replaces a file that belongs to another program, in one step: owner and mode stay. The program's user may write to the folder, so
/// what is no file of its own, but a link or a second name of another one, is refused.
pub(crate) fn replace_of_another(path: &Path, content: &str) -> io::Result<()> {
    let entry = DirectoryEntry::of(path)?;
    let old = own_file(&entry)?.metadata()?;
    entry.replace(PRIVATE, |file| {
        file.write_all(content.as_bytes())?;
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(&*file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o777))?;
        file.sync_all()
    })?;
    entry.sync_directory()
}

/// Creates such a file, in one step, if nothing has its name: for its owner alone. That is the owner of the folder, if this process may give it
/// away, since the program's own user can read no other one; otherwise this process's user.
pub(crate) fn create_of_another(path: &Path, content: &str) -> io::Result<()> {
    let entry = DirectoryEntry::of(path)?;
    let folder = entry.directory_status()?;
    entry.create(PRIVATE, |file| {
        file.write_all(content.as_bytes())?;
        if rustix::process::geteuid().is_root() {
            fchown(&*file, Some(folder.st_uid), Some(folder.st_gid))?;
        }
        file.sync_all()
    })?;
    entry.sync_directory()
}

/// Whether anything has the name of such a file, be it a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    match DirectoryEntry::of(path)?.status() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads such a file, up to so many bytes.
pub(crate) fn read_of_another(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    own_file(&DirectoryEntry::of(path)?)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("expected at most {most} bytes")));
    }
    Ok(bytes)
}

/// A file with one name. A pipe keeps nobody waiting.
fn own_file(entry: &DirectoryEntry) -> io::Result<File> {
    let file = entry.open(OFlags::RDONLY | OFlags::NONBLOCK, 0)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("expected a regular file, found something else"));
    }
    if found.nlink() != 1 {
        return Err(io::Error::other(format!(
            "expected a file with one name, found {} names",
            found.nlink()
        )));
    }
    Ok(file)
}

/// Creates a directory for the owner alone, with all its files, in one step. One that has files already stays as it
/// is: the error's kind is then [`io::ErrorKind::DirectoryNotEmpty`].
pub(crate) fn create_directory(path: &Path, files: &[(&str, &str, u32)]) -> io::Result<()> {
    let temporary = beside(path)?;
    if temporary.exists() {
        fs::remove_dir_all(&temporary)?;
    }
    let fill = || {
        fs::DirBuilder::new().mode(0o700).create(&temporary)?;
        files.iter().try_for_each(|(name, content, mode)| create(&temporary.join(name), content, *mode))?;
        sync_directory(&temporary)?;
        // rename(2) replaces an empty directory only, and decides that together with the change.
        DirectoryEntry::of(&temporary)?.rename_to(&DirectoryEntry::of(path)?)
    };
    let filled = fill();
    if filled.is_err() && temporary.exists() {
        fs::remove_dir_all(&temporary)?;
    }
    filled?;
    sync_directory(parent(path))
}

/// The mode's part that lets others than the owner use the file.
pub(crate) fn others_mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.mode() & 0o077)
}

/// A name in the same directory that nobody else uses now. After a restart a process may have the number of the one
/// before, as in a container: so there may be a file of that name.
fn beside(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no name at its end"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    hidden.push(format!(".{}.{number}.new", std::process::id()));
    Ok(parent(path).join(hidden))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_private_file_is_for_its_owner_alone() {
        let scratch = Scratch::new();
        let path = scratch.path("key.pem");
        replace(&path, "one", PRIVATE).expect("a file");
        replace(&path, "two", PRIVATE).expect("a file");
        assert_eq!(
            (fs::read_to_string(&path).expect("a file"), others_mode(&path).ok()),
            ("two".into(), Some(0))
        );
        assert_eq!(scratch.names(), ["key.pem"]);
    }

    #[test]
    fn a_file_is_not_created_in_the_place_of_another() {
        let scratch = Scratch::new();
        let path = scratch.path("key.pem");
        create(&path, "one", PRIVATE).expect("a file");
        assert_eq!(
            create(&path, "two", PRIVATE).expect_err("it exists").kind(),
            io::ErrorKind::AlreadyExists
        );
        std::os::unix::fs::symlink(&path, scratch.path("link")).expect("a link");
        assert!(create(&scratch.path("link"), "two", PRIVATE).is_err());
        assert_eq!(fs::read_to_string(&path).expect("a file"), "one");
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file_and_no_other() {
        let scratch = Scratch::new();
        // A directory cannot be replaced by a file: the last step fails.
        fs::create_dir_all(scratch.path("key.pem/inside")).expect("a directory");
        assert!(replace(&scratch.path("key.pem"), "new", PRIVATE).is_err());
        assert_eq!(scratch.names(), ["key.pem"]);
    }

    #[test]
    fn a_directory_with_files_is_never_replaced() {
        let scratch = Scratch::new();
        let path = scratch.path("authority");
        fs::create_dir(&path).expect("a directory");
        create_directory(&path, &[("a", "1", PRIVATE)]).expect("an empty directory is replaced");
        let again = create_directory(&path, &[("b", "2", PRIVATE)]).expect_err("it has files");
        assert_eq!(again.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert_eq!((scratch.names(), others_mode(&path).ok()), (vec!["authority".to_owned()], Some(0)));
        assert_eq!(fs::read_to_string(path.join("a")).expect("a file"), "1");
    }

    #[test]
    fn another_programs_file_keeps_its_mode() {
        let scratch = Scratch::new();
        let path = scratch.path("m1.pem");
        replace(&path, "one", PRIVATE).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        replace_of_another(&path, "two").expect("a file");
        let mode = fs::metadata(&path).expect("a file").mode() & 0o7777;
        assert_eq!((fs::read_to_string(&path).expect("a file"), mode), ("two".into(), 0o640));
        assert_eq!(
            (read_of_another(&path, 3).expect("it is read"), scratch.names()),
            (b"two".into(), vec!["m1.pem".into()])
        );
        assert!(read_of_another(&path, 2).expect_err("too long").to_string().contains("at most 2 bytes"));
    }

    #[test]
    fn another_programs_file_is_created_for_the_owner_of_its_folder_and_takes_no_name_away() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("m1")).expect("a folder");
        let path = scratch.path("m1/m1.pem");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(scratch.path("m1"), Some(4242), Some(4243)).expect("an owner");
        }
        let folder = fs::metadata(scratch.path("m1")).expect("a folder");
        assert!(!is_there(&path).expect("it can be seen"));
        create_of_another(&path, "one").expect("a file");
        let found = fs::metadata(&path).expect("a file");
        let expected = (folder.uid(), folder.gid(), PRIVATE, 1);
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777, found.nlink()), expected);
        let again = create_of_another(&path, "two").expect_err("it is there");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).expect("a file"), "one");
        // A link that somebody has put there leads nowhere yet: what it would lead to is not made.
        let link = scratch.path("m1/m2.pem");
        std::os::unix::fs::symlink(scratch.path("elsewhere"), &link).expect("a link");
        assert!(is_there(&link).expect("it can be seen"));
        assert!(create_of_another(&link, "two").is_err() && !scratch.path("elsewhere").exists());
        let mut names: Vec<String> = fs::read_dir(scratch.path("m1"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        assert_eq!(names, ["m1.pem", "m2.pem"], "nothing unfinished is left");
        assert!(is_there(&scratch.path("none/m1.pem")).is_err(), "there is no such folder");
    }

    #[test]
    fn what_may_be_a_third_ones_file_is_neither_read_nor_replaced() {
        let scratch = Scratch::new();
        let victim = scratch.path("victim");
        replace(&victim, "precious", PRIVATE).expect("a file");
        std::os::unix::fs::symlink(&victim, scratch.path("link")).expect("a link");
        fs::create_dir(scratch.path("folder")).expect("a folder");
        let refused = |name: &str, words: &str| {
            let path = scratch.path(name);
            let errors = [read_of_another(&path, 100).map(drop), replace_of_another(&path, "new")];
            for error in errors {
                let error = error.expect_err("it is refused").to_string();
                assert!(error.contains(words), "{name}: {error}");
            }
        };
        refused("link", "symbolic link");
        refused("folder", "regular file");
        refused("none", "No such file");
        fs::hard_link(&victim, scratch.path("second")).expect("a second name");
        refused("second", "found 2 names");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            scratch.path("pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .expect("a pipe");
        refused("pipe", "regular file");
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    }
}
