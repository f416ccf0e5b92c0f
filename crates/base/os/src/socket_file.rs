//! Sockets with a file: bound so that their mode is right from the first moment, and connected to only where a trusted user listens.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{FileType, Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};
use rustix::process::{geteuid, umask};

use crate::entry::DirectoryEntry;

/// The file of a bound socket: the number by which it is recognised later, of a device and there.
pub type SocketInode = (u64, u64);

/// Binds a stream socket, which does not block, to a path, in place of one whose process has ended. The file has exactly this mode.
///
/// The umask of the process is changed for a moment if others than the owner may use the socket: there should be no other threads
/// then.
///
/// # Errors
/// If a process listens there, if there is something else, or if another user has replaced the file.
pub fn bind_at(path: &Path, mode: u32) -> io::Result<(OwnedFd, SocketInode)> {
    let entry = DirectoryEntry::of(path)?;
    let name = SocketAddrUnix::new(path)?;
    remove_stale(&entry, &name)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file is created with the socket's own mode, less the umask.
    fchmod(&socket, Mode::from_raw_mode(mode & 0o777))?;
    match mode & 0o077 {
        0 => bind(&socket, &name)?,
        _ => {
            let before = umask(Mode::empty());
            let bound = bind(&socket, &name);
            umask(before);
            bound?;
        }
    }
    let (_, status) = entry.own_socket()?;
    Ok((socket, (status.st_dev, status.st_ino)))
}

/// Listens at a path for this user alone, in place of a process that has ended.
///
/// # Errors
/// As [`bind_at`].
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let (socket, _) = bind_at(path, 0o600)?;
    listen(&socket, 128)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(false)?;
    Ok(listener)
}

/// Removes a socket file that a process left behind. A socket with a listener and a file that is no socket stay, and `bind` reports
/// the error.
fn remove_stale(entry: &DirectoryEntry, name: &SocketAddrUnix) -> io::Result<()> {
    let is_socket =
        entry.status().is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Socket);
    let probe = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None);
    match is_socket.then(|| probe().and_then(|socket| connect(&socket, name))) {
        Some(Err(Errno::CONNREFUSED)) => entry.remove(),
        _ => Ok(()),
    }
}

/// Connects to a path where root, this user or one of `others` listens.
///
/// # Errors
/// Those of connect(2). If another user listens, its kind is [`io::ErrorKind::PermissionDenied`].
pub fn connect_to(path: &Path, others: &[u32]) -> io::Result<UnixStream> {
    #[allow(clippy::disallowed_methods, reason = "whoever listens is looked at before a byte is sent")]
    let stream = UnixStream::connect(path)?;
    check_peer(&stream, others)?;
    Ok(stream)
}

/// Refuses a peer that is neither root nor this user nor one of `others`.
///
/// # Errors
/// With the user that it is, and the kind [`io::ErrorKind::PermissionDenied`].
pub fn check_peer(stream: impl AsFd, others: &[u32]) -> io::Result<()> {
    let found = sockopt::socket_peercred(stream)?.uid.as_raw();
    let mut accepted = vec![0, geteuid().as_raw()];
    accepted.extend(others);
    accepted.sort_unstable();
    accepted.dedup();
    if accepted.contains(&found) {
        return Ok(());
    }
    let accepted: Vec<String> = accepted.iter().map(ToString::to_string).collect();
    let what = format!("its process belongs to user {found}, and expected is user {}", accepted.join(" or "));
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::PathBuf;

    use rustix::fs::Uid;

    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("os-socket-{name}-{}", std::process::id()))
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).expect("a file").mode() & 0o777
    }

    #[test]
    fn a_file_of_a_process_that_has_ended_is_replaced_and_a_listener_is_not() {
        let path = path("stale");
        let first = listen_privately(&path).expect("a socket");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(listen_privately(&path).expect_err("in use").kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let _second = listen_privately(&path).expect("nobody listens");
        connect_to(&path, &[]).expect("our own");
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_link_in_the_place_of_the_socket_leads_nowhere() {
        let (victim, link) = (path("victim"), path("link"));
        symlink(&victim, &link).expect("a link");
        assert_eq!(bind_at(&link, 0o777).expect_err("a link").kind(), io::ErrorKind::AddrInUse);
        assert!(!victim.exists());
        std::fs::remove_file(&link).expect("it is ours");
    }

    #[test]
    fn a_socket_is_given_to_its_user_once_and_to_no_other() {
        if !geteuid().is_root() {
            return eprintln!("left out: only root can give a file away");
        }
        let path = path("given");
        let _socket = bind_at(&path, 0o600).expect("a socket");
        let give = |user| DirectoryEntry::of(&path).and_then(|entry| entry.give_socket(user, user));
        give(5).expect("root's");
        give(5).expect("that of the process before, which goes on");
        assert_eq!(std::fs::symlink_metadata(&path).expect("a file").uid(), 5);
        assert_eq!(
            give(6).expect_err("another's").to_string(),
            "another user has replaced the socket's file"
        );
        std::fs::remove_file(&path).expect("root may");
    }

    /// Sockets of this process and a pair are this user's.
    #[test]
    fn a_peer_of_another_user_is_refused() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        check_peer(&near, &[]).expect("this user");
        if !geteuid().is_root() {
            return eprintln!("left out: only root can be another user");
        }
        // The effective user of this thread alone: the kernel's call, not the library's.
        let become_user =
            |user: u32| rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(user), Uid::ROOT);
        become_user(5).expect("root may");
        let (theirs, _far) = UnixStream::pair().expect("a pair");
        become_user(0).expect("root may");
        check_peer(&theirs, &[5]).expect("an accepted user");
        let error = check_peer(&theirs, &[65_534]).expect_err("another user").to_string();
        assert_eq!(error, "its process belongs to user 5, and expected is user 0 or 65534");
    }
}
