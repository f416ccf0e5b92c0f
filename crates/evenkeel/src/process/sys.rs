//! Fork, users, priority, environment and inherited descriptors: calls without a safe wrapper, in safe functions.

#![expect(unsafe_code, reason = "calls that have no safe wrapper")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

/// Space for the texts of one line of the user database; 16 times what glibc advises.
const USER_TEXT_LEN: usize = 16 * 1024;

/// Prevents glibc from creating a heap for each thread, for each of which it reserves 64 MiB of addresses.
pub(crate) fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator, before any other thread exists. A refusal leaves it unchanged.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// Of glibc, nss.h: uses these services for a database, whatever /etc/nsswitch.conf says, now and later.
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Databases that a lookup of a user, a host or a port asks, and the services for them that are part of the C library.
const BUILT_IN_SERVICES: [(&CStr, &CStr); 7] = [
    (c"passwd", c"files"),
    (c"group", c"files"),
    (c"initgroups", c"files"),
    (c"hosts", c"files dns"),
    (c"networks", c"files dns"),
    (c"services", c"files"),
    (c"protocols", c"files"),
];

/// Looks names up in files of /etc and by DNS alone, if the program is linked statically: the host's services for other
/// sources (mDNS, LDAP, systemd) are libraries for the C library of that host, and a program with another one crashes in them.
///
/// To be called before the first lookup and before a second thread.
pub(crate) fn look_names_up_without_libraries() {
    if cfg!(target_feature = "crt-static") {
        use_built_in_services();
    }
}

fn use_built_in_services() {
    #[cfg(target_env = "gnu")]
    for (database, services) in BUILT_IN_SERVICES {
        // SAFETY: both are texts that end with a zero and live as long as the program; no other thread looks up a name.
        let refused = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        // It knows all of these databases and services, and otherwise only fails without memory.
        debug_assert_eq!(refused, 0, "{database:?}");
    }
}

/// Lets SIGTERM and SIGINT end the first process of a container, as they end any other. The kernel withholds signals from it that
/// it does not handle, so a verb without a way of its own to end would have to be killed. What a verb blocks and waits for stays so.
pub(crate) fn end_by_signals_as_first_process() {
    extern "C" fn end(signal: c_int) {
        // SAFETY: async-signal-safe, and does not return.
        unsafe { libc::_exit(128 + signal) }
    }
    if std::process::id() != 1 {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler calls nothing but what a handler may call. These signals can be handled, so this cannot fail.
        unsafe { libc::signal(signal, end as extern "C" fn(c_int) as libc::sighandler_t) };
    }
}

/// Bytes of memory that the program has from its allocator; `None` if that does not tell.
pub(crate) fn heap_in_use() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: reads figures of the allocator, which takes its own locks, and touches no memory of ours.
        let figures = unsafe { libc::mallinfo2() };
        Some((figures.uordblks + figures.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Returns memory to the system that the allocator keeps and the program does not use.
pub(crate) fn return_unused_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: gives back pages that hold nothing of ours; the allocator takes its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Removes variables from the environment. There must be no other thread yet: it could be reading them.
pub(crate) fn forget_variables(names: &[&str]) {
    for name in names {
        // SAFETY: the caller has no other thread, so nobody reads or changes the environment at the same time.
        unsafe { std::env::remove_var(name) };
    }
}

/// A descriptor that this process was started with. To be called once for a number, before the process keeps any
/// descriptor of its own: so what is open was inherited.
pub(crate) fn inherited_descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers, touches no memory of ours.
    match unsafe { libc::fcntl(number, libc::F_GETFD) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it is open, and no other value owns it: it is not one that this process has opened, and the caller
        // asks for a number once.
        _ => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
    }
}

/// The two processes after a fork.
pub(crate) enum Half {
    /// The parent, with the child's process id.
    Parent(rustix::process::Pid),
    /// The child.
    Child,
}

/// Forks the process. There must be no other thread yet: it would be missing in the child, with its locks held.
pub(crate) fn fork() -> io::Result<Half> {
    // SAFETY: the caller has no other thread, so the child is a complete copy and may call any function.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Half::Child),
        child => Ok(Half::Parent(rustix::process::Pid::from_raw(child).expect("fork returns a positive id"))),
    }
}

/// A user's and its group's number; none if there is no such user.
pub(crate) fn user(name: &str) -> io::Result<Option<(u32, u32)>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut text = vec![0; USER_TEXT_LEN];
    let mut found = ptr::null_mut();
    // SAFETY: every pointer is to memory that outlives the call and has the given length; `name` ends with a zero.
    let error = unsafe {
        libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), text.as_mut_ptr(), text.len(), &mut found)
    };
    match error {
        // Without a user database there is no user; some libraries report that as an error (getpwnam(3)).
        0 if found.is_null() => return Ok(None),
        libc::ENOENT | libc::ESRCH => return Ok(None),
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    // SAFETY: `found` is not null, so it points to `entry`, which the call has filled in; only its numbers are
    // read, not the pointers into `text`.
    let entry = unsafe { entry.assume_init() };
    Ok(Some((entry.pw_uid, entry.pw_gid)))
}

/// Leaves all supplementary groups.
pub(crate) fn leave_groups() -> io::Result<()> {
    // SAFETY: no group is read from the null pointer, because there are none.
    done(unsafe { libc::setgroups(0, ptr::null()) })
}

/// Becomes this group, in every thread and irrevocably.
pub(crate) fn set_group(group: u32) -> io::Result<()> {
    // Real, effective and saved: setgid would not change all of them if only some of this process's ids are root's.
    // SAFETY: takes numbers, touches no memory of ours.
    done(unsafe { libc::setresgid(group, group, group) })
}

/// Becomes this user, in every thread and irrevocably.
pub(crate) fn set_user(user: u32) -> io::Result<()> {
    // SAFETY: takes numbers, touches no memory of ours.
    done(unsafe { libc::setresuid(user, user, user) })
}

/// Lets this thread run only when no other thread is runnable.
pub(crate) fn become_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads the parameters, which outlive the call; 0 is this thread.
    done(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) })
}

fn done(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn services_of_the_c_library_are_known_to_it_and_find_localhost() {
        use std::net::ToSocketAddrs as _;
        use_built_in_services();
        assert!(("localhost", 1).to_socket_addrs().expect("an address").next().is_some());
    }

    /// Set in the inner run of the test below.
    const INNER: &str = "EVENKEEL_TEST_FORGETS";

    #[test]
    fn variables_that_were_forgotten_reach_no_other_process() {
        if std::env::var_os(INNER).is_none() {
            // Alone in a process of its own, where no other test reads the environment.
            let mut again = Command::new(std::env::current_exe().expect("own path"));
            again.args([
                "--exact",
                "process::sys::tests::variables_that_were_forgotten_reach_no_other_process",
            ]);
            again.args(["--test-threads=1", "--nocapture"]).env(INNER, "1").env("LISTEN_FDS", "1");
            let output = again.output().expect("the test runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let seen = || Command::new("sh").args(["-c", "echo $LISTEN_FDS"]).output().expect("a shell").stdout;
        assert_eq!(seen(), b"1\n");
        forget_variables(&["LISTEN_FDS", "LISTEN_PID"]);
        assert_eq!(seen(), b"\n");
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_an_error() {
        let error = inherited_descriptor(i32::MAX).expect_err("beyond every limit");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn root_is_found_and_an_unknown_user_is_not() {
        assert_eq!(user("root").expect("the user database can be read"), Some((0, 0)));
        assert_eq!(user("no such user").expect("the user database can be read"), None);
        assert_eq!(user("a\0b").expect("not asked"), None);
    }
}
