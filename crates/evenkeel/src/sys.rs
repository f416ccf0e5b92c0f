//! Fork, users and priority: offered only by the C library, and made safe here.

#![expect(unsafe_code, reason = "calls of the C library that have no safe wrapper")]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Space for the texts of one line of the user database; 16 times what glibc advises.
const USER_TEXT_LEN: usize = 16 * 1024;

/// Keeps glibc from giving each thread a heap of its own, for each of which it reserves 64 MiB of addresses.
pub(crate) fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator, before any other thread is there. A refusal leaves it as it was.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Which half of a forked process this is.
pub(crate) enum Half {
    /// The one that was there before, and the other's process id.
    Parent(rustix::process::Pid),
    /// The new one.
    Child,
}

/// Splits the process. There must be no other thread yet: it would be missing in the child, with its locks held.
pub(crate) fn fork() -> io::Result<Half> {
    // SAFETY: the caller has no other thread, so the child is a whole copy and may go on doing anything.
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
    // SAFETY: every pointer is to memory that outlives the call and is as long as said; `name` ends with a zero.
    let error = unsafe {
        libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), text.as_mut_ptr(), text.len(), &mut found)
    };
    match error {
        // Without a user database there is no user, and some libraries call that an error (getpwnam(3)).
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

/// Becomes this group, in every thread and for good.
pub(crate) fn set_group(group: u32) -> io::Result<()> {
    // Real, effective and saved: setgid would leave some of them alone where this is root by half.
    // SAFETY: takes numbers, touches no memory of ours.
    done(unsafe { libc::setresgid(group, group, group) })
}

/// Becomes this user, in every thread and for good.
pub(crate) fn set_user(user: u32) -> io::Result<()> {
    // SAFETY: takes numbers, touches no memory of ours.
    done(unsafe { libc::setresuid(user, user, user) })
}

/// Lets this thread run only when no other wants to.
pub(crate) fn become_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads the parameters, which outlive the call; 0 is this thread.
    done(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_others_are_not() {
        assert_eq!(user("root").expect("the user database can be read"), Some((0, 0)));
        assert_eq!(user("no such user").expect("the user database can be read"), None);
        assert_eq!(user("a\0b").expect("not asked"), None);
    }
}
