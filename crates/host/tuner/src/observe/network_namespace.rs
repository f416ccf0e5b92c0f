//! Network namespaces and their identity, also after one of them is gone.
//!
//! The number in `net:[4026532177]` is used for the next namespace as soon as this one has ended: a restarted
//! container mostly has it, too. So the kernel's cookie follows it, which is unique in a boot (SO_NETNS_COOKIE, Linux
//! 5.14): `net:[4026532177] 4097`. Without a cookie, the number alone is used.

#![expect(unsafe_code, reason = "SO_NETNS_COOKIE has no safe wrapper")]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::observe::root::Root;

/// asm-generic/socket.h
const SO_NETNS_COOKIE: i32 = 71;

/// The one of this process, or of a captured host.
pub(crate) fn of(root: &Root) -> Option<String> {
    let name = root.link("/proc/self/ns/net")?;
    Some(match root.is_live().then(cookie).and_then(Result::ok) {
        Some(cookie) => format!("{name} {cookie}"),
        None => name,
    })
}

/// The namespace of a file: `/proc/812/ns/net`, `/run/netns/blue`. Needs root.
pub fn at(path: &Path) -> io::Result<String> {
    let name = format!("net:[{}]", fs::metadata(path)?.ino());
    let file = File::open(path)?;
    // A thread of its own enters it, and ends there.
    let inside = std::thread::Builder::new().name("namespace".into()).spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        cookie()
    })?;
    let cookie = inside.join().expect("it does not panic")?;
    Ok(format!("{name} {cookie}"))
}

/// Whether two are the same one, as far as can be known.
pub fn is_same(one: &str, other: &str) -> bool {
    match (one.split_once(' '), other.split_once(' ')) {
        (Some(one), Some(other)) => one == other,
        _ => name(one) == name(other),
    }
}

/// Its usual text: `net:[4026532177]`.
pub fn name(network: &str) -> &str {
    network.split(' ').next().unwrap_or(network)
}

/// The cookie of this thread's namespace.
fn cookie() -> io::Result<u64> {
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: `cookie` has `len` bytes and, like `len`, outlives the call, which writes no more than `len` says.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_again_is_another_namespace() {
        assert!(is_same("net:[1] 7", "net:[1] 7"));
        assert!(!is_same("net:[1] 7", "net:[1] 8"));
        assert!(!is_same("net:[1]", "net:[2]"));
        // Of an older kernel, or in a journal from before.
        assert!(is_same("net:[1]", "net:[1] 8") && is_same("net:[1] 8", "net:[1]"));
        assert_eq!((name("net:[1] 7"), name("net:[1]")), ("net:[1]", "net:[1]"));
    }

    #[test]
    fn this_one_is_the_same_from_inside_and_by_its_file() {
        let Ok(by_file) = at(Path::new("/proc/self/ns/net")) else {
            return eprintln!("it takes root, and Linux 5.14");
        };
        assert_eq!(of(&Root::new("/")), Some(by_file));
    }
}
