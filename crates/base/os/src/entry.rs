//! Names in directories: files, links and sockets are made, opened, renamed and removed through a directory that is held open.
//!
//! A path means something else as soon as another user replaces one of its directories by a link. So the way to the directory is walked
//! once, name by name, and a link on it is followed only if root or this user has made it where nobody else makes any. The name at
//! the end is never followed. Clippy refuses the functions of the standard library that do the same by path (`clippy.toml`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chownat, fstat, openat, readlinkat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

/// Links on one way, as the kernel allows (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// A name in a directory that is open.
#[derive(Debug)]
pub struct DirectoryEntry {
    directory: OwnedFd,
    name: OsString,
}

impl DirectoryEntry {
    /// The name at the end of a path, whatever it is, even if nothing has it.
    ///
    /// # Errors
    /// If there is no such directory, if the path has no name at its end, or if another user could have made a link on the way.
    pub fn of(path: &Path) -> io::Result<DirectoryEntry> {
        walk(path, false)
    }

    /// The name at the end of a path, or where it leads if it is a link: that is followed as those on the way are.
    ///
    /// # Errors
    /// As [`DirectoryEntry::of`].
    pub fn behind_links(path: &Path) -> io::Result<DirectoryEntry> {
        walk(path, true)
    }

    /// Another name in the same directory.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn sibling(&self, name: impl Into<OsString>) -> io::Result<DirectoryEntry> {
        Ok(DirectoryEntry { directory: self.directory.try_clone()?, name: name.into() })
    }

    /// The name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What has the name: of a link, the link itself.
    ///
    /// # Errors
    /// Those of fstatat(2): nothing has it.
    pub fn status(&self) -> io::Result<Stat> {
        Ok(statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens what has the name, or creates it if the flags say so. A link is refused; a pipe keeps nobody waiting, if the flags have
    /// `NONBLOCK`.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn open(&self, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        match retry_on_intr(|| openat(&self.directory, &*self.name, flags, mode)) {
            Ok(file) => Ok(file.into()),
            Err(Errno::LOOP) => {
                Err(io::Error::other("it is a symbolic link: give the path that it leads to"))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Creates a file to write to. The umask may take some of the mode away.
    ///
    /// # Errors
    /// If something has the name, be it a link, the error's kind is [`io::ErrorKind::AlreadyExists`].
    pub fn create_new(&self, mode: u32) -> io::Result<File> {
        self.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// Puts a new file in the place of what has the name, in one step: a reader finds the old content or the new one. The name that
    /// the file has before cannot be foreseen.
    ///
    /// # Errors
    /// Then what had the name is as it was, and the new file is gone.
    pub fn replace(&self, mode: u32, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let (unfinished, mut file) = self.create_unfinished(mode)?;
        let replaced = write(&mut file).and_then(|()| unfinished.rename_to(self));
        if replaced.is_err() {
            // Of a full disk, no half of a file is left. If that fails, too, the error is the first.
            let _ = unfinished.remove();
        }
        replaced
    }

    /// Makes a new file with this name, in one step: a reader finds nothing or all of it.
    ///
    /// # Errors
    /// If something has the name, be it a link, the error's kind is [`io::ErrorKind::AlreadyExists`]. The new file is gone then.
    pub fn create(&self, mode: u32, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let (unfinished, mut file) = self.create_unfinished(mode)?;
        let take_name = || {
            let (from, to) = (&unfinished, self);
            renameat_with(&from.directory, &*from.name, &to.directory, &*to.name, RenameFlags::NOREPLACE)
        };
        let created = write(&mut file).and_then(|()| Ok(take_name()?));
        if created.is_err() {
            // As in `replace`.
            let _ = unfinished.remove();
        }
        created
    }

    /// The directory.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn directory_status(&self) -> io::Result<Stat> {
        Ok(fstat(&self.directory)?)
    }

    /// Whether a file could take this name, as far as can be told now.
    ///
    /// # Errors
    /// Why not.
    pub fn try_to_replace(&self, mode: u32) -> io::Result<()> {
        self.create_unfinished(mode)?.0.remove()
    }

    fn create_unfinished(&self, mode: u32) -> io::Result<(DirectoryEntry, File)> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        // Not made of the file's name: that may be as long as names can be.
        let unfinished = self.sibling(format!(".evenkeel-{:016x}.new", u64::from_ne_bytes(random)))?;
        let file = unfinished.create_new(mode)?;
        Ok((unfinished, file))
    }

    /// Puts a new file with these bytes in the place of what has the name, as [`DirectoryEntry::replace`] does.
    ///
    /// # Errors
    /// As [`DirectoryEntry::replace`].
    pub fn replace_with(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.replace(mode, |file| file.write_all(bytes))
    }

    /// Gives what has the name another one, which it takes from whatever has that.
    ///
    /// # Errors
    /// Those of renameat(2).
    pub fn rename_to(&self, other: &DirectoryEntry) -> io::Result<()> {
        Ok(renameat(&self.directory, &*self.name, &other.directory, &*other.name)?)
    }

    /// Removes what has the name, unless it is a directory.
    ///
    /// # Errors
    /// Those of unlinkat(2).
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &*self.name, AtFlags::empty())?)
    }

    /// Removes what has the name, if anything has.
    ///
    /// # Errors
    /// Those of unlinkat(2) but for `ENOENT`.
    pub fn remove_if_there(&self) -> io::Result<()> {
        match self.remove() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Waits until the names of the directory are on the disk.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync_directory(&self) -> io::Result<()> {
        let directory = openat(&self.directory, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(directory).sync_all()
    }

    /// The number of the socket's file with this name: one that this process has made, with no other name.
    ///
    /// # Errors
    /// If it is something else: then another user has put it there.
    pub(crate) fn own_socket(&self) -> io::Result<(File, Stat)> {
        self.socket_of(&[geteuid().as_raw()])
    }

    fn socket_of(&self, owners: &[u32]) -> io::Result<(File, Stat)> {
        let file = self.open(OFlags::PATH, 0)?;
        let status = fstat(&file)?;
        let is_socket = FileType::from_raw_mode(status.st_mode) == FileType::Socket;
        // With a second name it may be another process's, to which somebody has made a hard link here.
        if is_socket && owners.contains(&status.st_uid) && status.st_nlink == 1 {
            return Ok((file, status));
        }
        Err(io::Error::other("another user has replaced the socket's file"))
    }

    /// Gives the file of a socket to a user: one that this process has bound, or that the process before it has bound and given to
    /// this user already.
    ///
    /// # Errors
    /// If another user has put something else there.
    pub fn give_socket(&self, user: u32, group: u32) -> io::Result<()> {
        let (file, status) = self.socket_of(&[geteuid().as_raw(), user])?;
        if status.st_uid == user {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        Ok(chownat(&file, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?)
    }
}

fn walk(path: &Path, behind_links: bool) -> io::Result<DirectoryEntry> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no name at its end");
    let open_directory =
        |path: &str| openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let (mut left, mut links, mut here) = (Vec::new(), 0, PathBuf::new());
    let mut directory = open_directory(".")?;
    push(&mut left, path);
    loop {
        let name = left.pop().ok_or_else(no_name)?;
        if name == "/" {
            (directory, here) = (open_directory("/")?, PathBuf::from("/"));
            continue;
        }
        let is_last = left.is_empty();
        if is_last && name == ".." {
            return Err(no_name());
        }
        if is_last && !behind_links {
            return Ok(DirectoryEntry { directory, name });
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(&directory, &*name, flags, Mode::empty()) {
            Err(Errno::NOENT) if is_last => return Ok(DirectoryEntry { directory, name }),
            found => found?,
        };
        let status = fstat(&found)?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Symlink {
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            if !(is_trusted(&status)? && is_trusted(&fstat(&directory)?)?) {
                let link = here.join(name);
                return Err(io::Error::other(format!(
                    "{} is a symbolic link where another user could have made it: give the path that it should lead to",
                    link.display()
                )));
            }
            let target = readlinkat(&found, "", Vec::new())?.into_bytes();
            push(&mut left, Path::new(&OsString::from_vec(target)));
        } else if is_last {
            return Ok(DirectoryEntry { directory, name });
        } else {
            here.push(&name);
            directory = found;
        }
    }
}

/// Puts the names of a path in front of those that are left, the next one last.
fn push(left: &mut Vec<OsString>, path: &Path) {
    let names = path.components().rev().filter(|part| *part != Component::CurDir);
    left.extend(names.map(|part| part.as_os_str().to_owned()));
}

/// Whether only root and this user decide about it: a link by its owner, a directory also by its mode.
fn is_trusted(status: &Stat) -> io::Result<bool> {
    // Where root has no name, as in a user namespace, the root directory's owner is as good: it can replace everything.
    let is_ours = [0, geteuid().as_raw()].contains(&status.st_uid)
        || status.st_uid == statat(CWD, "/", AtFlags::empty())?.st_uid;
    let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
    Ok(is_ours && !(is_directory && status.st_mode & 0o002 != 0))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

    use super::*;

    /// A folder of a test's own, removed with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("os-entry-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("a folder of our own");
            Folder(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn folder(&self, name: &str, mode: u32) -> PathBuf {
            fs::create_dir(self.path(name)).expect("a folder");
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("it is ours");
            self.path(name)
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).expect("text")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // If it fails, the folder does no harm.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[track_caller]
    fn check_refused(path: &Path, expected: &str) {
        let error = DirectoryEntry::of(path).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn the_name_at_the_end_is_never_followed() {
        let folder = Folder::new("last");
        fs::write(folder.path("victim"), "precious").expect("a file");
        symlink("victim", folder.path("link")).expect("a link");
        let link = DirectoryEntry::of(&folder.path("link")).expect("a name");
        for flags in [OFlags::RDWR, OFlags::RDWR | OFlags::CREATE, OFlags::RDWR | OFlags::TRUNC] {
            let error = link.open(flags, 0o600).expect_err("a link");
            assert_eq!(error.to_string(), "it is a symbolic link: give the path that it leads to");
        }
        assert_eq!(link.create_new(0o600).expect_err("a link").kind(), io::ErrorKind::AlreadyExists);
        link.replace_with(b"new", 0o600).expect("the link is replaced");
        assert_eq!((folder.text("victim"), folder.text("link")), ("precious".into(), "new".into()));
        link.remove().expect("it is there");
        link.remove_if_there().expect("it is gone");
    }

    #[test]
    fn links_on_the_way_are_followed_where_only_root_and_this_user_make_any() {
        let folder = Folder::new("way");
        folder.folder("real", 0o755);
        symlink("real", folder.path("own")).expect("a link");
        symlink(folder.path("own"), folder.path("absolute")).expect("a link");
        symlink("../own/../own", folder.path("real/up")).expect("a link");
        for way in ["real", "own", "absolute", "real/up", "real/../own/./"] {
            let entry = DirectoryEntry::of(&folder.path(way).join("file")).expect(way);
            entry.replace_with(way.as_bytes(), 0o644).expect("room");
            assert_eq!(folder.text("real/file"), way);
        }
        symlink("loop", folder.path("loop")).expect("a link");
        check_refused(&folder.path("loop/file"), "Too many levels");
        check_refused(&folder.path("no/file"), "No such file");
        fs::write(folder.path("file"), "").expect("a file");
        assert!(DirectoryEntry::of(&folder.path("file/file")).and_then(|entry| entry.status()).is_err());
    }

    #[test]
    fn a_link_where_every_user_can_make_one_is_refused() {
        let folder = Folder::new("public");
        let (public, real) = (folder.folder("public", 0o777), folder.folder("real", 0o755));
        symlink(&real, public.join("link")).expect("a link");
        check_refused(
            &public.join("link/file"),
            "link is a symbolic link where another user could have made it",
        );
        assert!(DirectoryEntry::behind_links(&public.join("link")).is_err());
        DirectoryEntry::of(&public.join("link"))
            .expect("a name")
            .remove()
            .expect("the link itself can be removed");
    }

    #[test]
    fn what_another_user_has_linked_is_refused() {
        if !geteuid().is_root() {
            return eprintln!("left out: only root can make links of other users");
        }
        let folder = Folder::new("other");
        let (theirs, real) = (folder.folder("theirs", 0o755), folder.folder("real", 0o755));
        symlink(&real, folder.path("link")).expect("a link");
        lchown(folder.path("link"), Some(5), None).expect("root may");
        check_refused(&folder.path("link/file"), "could have made it");
        // Root's link, which they could have moved or linked there.
        symlink(&real, theirs.join("link")).expect("a link");
        lchown(&theirs, Some(5), None).expect("root may");
        check_refused(&theirs.join("link/file"), "could have made it");
        // Their folders are theirs: what is made there can do no harm elsewhere.
        DirectoryEntry::of(&theirs.join("file")).expect("a name").replace_with(b"x", 0o644).expect("room");
        assert_eq!(folder.text("theirs/file"), "x");
    }

    #[test]
    fn a_link_at_the_end_leads_to_a_name_if_it_is_asked_for() {
        let folder = Folder::new("behind");
        fs::write(folder.path("file"), "x").expect("a file");
        symlink("file", folder.path("link")).expect("a link");
        symlink("nothing", folder.path("dangling")).expect("a link");
        for (path, expected) in [("file", "file"), ("link", "file"), ("dangling", "nothing"), ("new", "new")]
        {
            assert_eq!(DirectoryEntry::behind_links(&folder.path(path)).expect(path).name(), expected);
        }
    }

    #[test]
    fn a_path_without_a_name_is_refused() {
        for path in ["/", "", "..", "/..", "."] {
            check_refused(Path::new(path), "the path has no name at its end");
        }
        assert_eq!(
            DirectoryEntry::of(Path::new("Cargo.toml")).expect("a name").status().expect("a file").st_nlink,
            1
        );
    }

    #[test]
    fn a_file_that_cannot_be_finished_leaves_the_old_one_and_no_other() {
        let folder = Folder::new("unfinished");
        let entry = DirectoryEntry::of(&folder.path("a")).expect("a name");
        entry.replace_with(b"old", 0o640).expect("room");
        let failed = entry.replace(0o640, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.expect_err("no room").kind(), io::ErrorKind::StorageFull);
        assert_eq!(folder.text("a"), "old");
        assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 1);
        assert_eq!(fs::metadata(folder.path("a")).expect("a file").mode() & 0o777 & !0o640, 0);
        entry.sync_directory().expect("on disk");
    }
}
