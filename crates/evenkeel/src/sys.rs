//! Fork, users, priority and signals: offered only by the C library, and made safe here.

#![expect(unsafe_code, reason = "calls of the C library that have no safe wrapper")]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// Space for the texts of one line of the user database; 16 times what glibc advises.
const USER_TEXT_LEN: usize = 16 * 1024;

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

/// Lets a write beyond the limit on the length of files (`ulimit -f`) fail, instead of ending the process: neither tune's
/// way back nor a server depends on whether it can be recorded.
pub(crate) fn survive_file_size_limit() {
    // SAFETY: no handler is called; the signal is only ignored. It cannot fail for a signal that may be ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A signal that someone sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT
    Interrupt,
    /// SIGTERM
    Terminate,
    /// SIGUSR1
    Graceful,
    /// SIGHUP
    Reload,
}

impl Signal {
    fn of(number: i32) -> Option<Self> {
        let known = [Signal::Interrupt, Signal::Terminate, Signal::Graceful, Signal::Reload];
        known.into_iter().find(|known| known.number() == number)
    }

    /// As the kernel counts.
    pub(crate) fn number(self) -> i32 {
        match self {
            Signal::Interrupt => libc::SIGINT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Graceful => libc::SIGUSR1,
            Signal::Reload => libc::SIGHUP,
        }
    }

    /// What a program ends with that was told to end by it, as shells have it.
    pub(crate) fn status(self) -> u8 {
        128 + self.number() as u8
    }
}

/// The signals above, kept from interrupting anything: they come out of [`Signals::wait`] only.
pub(crate) struct Signals(libc::sigset_t);

/// The same for a while: what comes meanwhile and is not taken interrupts afterwards.
pub(crate) struct Held {
    signals: Signals,
    before: libc::sigset_t,
}

/// The set of the signals above, blocked from now on, and the mask from before.
fn blocked() -> io::Result<(libc::sigset_t, libc::sigset_t)> {
    let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: sigemptyset fills in the set, the others read and change a set that is filled in; the old mask is written to
    // a variable that outlives the call.
    let (set, error) = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        let set = set.assume_init();
        (set, libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr()))
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the call has succeeded, so it has filled in the old mask.
    Ok((set, unsafe { before.assume_init() }))
}

impl Held {
    /// The next one, if one has come.
    pub(crate) fn take(&self) -> Option<Signal> {
        self.signals.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask is filled in and outlives the call; nothing is written through the null pointer. Putting back a
        // mask that was in force cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

impl Signals {
    /// Blocks them in this thread and in all that it starts from now on.
    pub(crate) fn block() -> io::Result<Self> {
        blocked().map(|(set, _)| Self(set))
    }

    /// Blocks them until the result is dropped.
    pub(crate) fn hold() -> io::Result<Held> {
        blocked().map(|(set, before)| Held { signals: Self(set), before })
    }

    /// Waits for the next one.
    pub(crate) fn wait(&self) -> Signal {
        loop {
            let mut signal = 0;
            // SAFETY: the set is filled in, and the number is written to a variable that outlives the call. It says 0,
            // and the loop goes on, if another signal came in between.
            unsafe { libc::sigwait(&self.0, &mut signal) };
            if let Some(signal) = Signal::of(signal) {
                return signal;
            }
        }
    }

    /// The next one, if one has come.
    pub(crate) fn take(&self) -> Option<Signal> {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set is filled in, nothing is written through the null pointer, and the time outlives the call.
        Signal::of(unsafe { libc::sigtimedwait(&self.0, ptr::null_mut(), &at_once) })
    }
}

/// Lets a command be interrupted by signals again: a process inherits those that its parent has blocked or ignores.
pub(crate) fn unblock_in(command: &mut Command) {
    let unblock = || {
        let mut none = MaybeUninit::uninit();
        // SAFETY: as it is when a program begins; no handler is called.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        // SAFETY: sigemptyset fills in the set, which the other call reads; the old mask is not asked for.
        let error = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
        };
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    };
    // SAFETY: between fork and exec only what is safe in a signal handler may be called. All three calls
    // are (signal-safety(7)), and nothing is allocated: an error is a number.
    unsafe { command.pre_exec(unblock) };
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
