//! Signals: blocked and taken one by one, and unblocked again in commands that are started.

#![expect(unsafe_code, reason = "calls of the C library that have no safe wrapper")]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// A signal that someone sent to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
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

    /// The kernel's number.
    pub fn number(self) -> i32 {
        match self {
            Signal::Interrupt => libc::SIGINT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Graceful => libc::SIGUSR1,
            Signal::Reload => libc::SIGHUP,
        }
    }

    /// `SIGINT`
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::Graceful => "SIGUSR1",
            Signal::Reload => "SIGHUP",
        }
    }

    /// The exit status of a program that ends because of it, as in shells.
    pub fn status(self) -> u8 {
        128 + self.number() as u8
    }
}

/// The signals above, blocked for good: [`Signals::wait`] returns them.
pub struct Signals(libc::sigset_t);

/// The signals above, blocked for a while: a signal that is not taken meanwhile is delivered afterwards.
pub struct HeldSignals {
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

impl HeldSignals {
    /// The next signal, if one has arrived.
    pub fn take(&self) -> Option<Signal> {
        self.signals.take()
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the mask is filled in and outlives the call; nothing is written through the null pointer. Restoring a
        // mask that was in force cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

impl Signals {
    /// Blocks them in this thread and in all threads that it starts from now on.
    pub fn block() -> io::Result<Self> {
        blocked().map(|(set, _)| Self(set))
    }

    /// Blocks them until the result is dropped.
    pub fn hold() -> io::Result<HeldSignals> {
        blocked().map(|(set, before)| HeldSignals { signals: Self(set), before })
    }

    /// Waits for the next one.
    pub fn wait(&self) -> Signal {
        loop {
            let mut signal = 0;
            // SAFETY: the set is filled in, and the number is written to a variable that outlives the call. It is 0,
            // and the loop continues, if another signal arrived in between.
            unsafe { libc::sigwait(&self.0, &mut signal) };
            if let Some(signal) = Signal::of(signal) {
                return signal;
            }
        }
    }

    /// The next signal, if one has arrived.
    pub fn take(&self) -> Option<Signal> {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set is filled in, nothing is written through the null pointer, and the time outlives the call.
        Signal::of(unsafe { libc::sigtimedwait(&self.0, ptr::null_mut(), &at_once) })
    }
}

/// Restores the default handling of signals in a command: a process inherits the signals that its parent blocks or
/// ignores.
pub fn unblock_in(command: &mut Command) {
    let unblock = || {
        let mut none = MaybeUninit::uninit();
        // SAFETY: restores the default of a new program; no handler is called.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        // SAFETY: sigemptyset fills in the set, which the other call reads; the old mask is not requested.
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

/// Lets a write beyond the limit on file sizes (`ulimit -f`) fail instead of ending the process: neither a rollback of
/// `tune` nor a server may depend on whether it can be recorded.
pub fn survive_file_size_limit() {
    // SAFETY: no handler is called; the signal is only ignored. It cannot fail for a signal that may be ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The signals that this process ignores since its start (nohup, a background job). They arrive all the same when they
/// are blocked.
#[derive(Clone, Copy, Debug)]
pub struct Ignored {
    /// Signal 1 in the lowest bit.
    mask: u64,
}

impl Ignored {
    /// The signals that are ignored now.
    pub fn now() -> Ignored {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Ignored { mask: mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) }
    }

    /// Whether this is one of them.
    pub fn has(self, signal: Signal) -> bool {
        self.mask >> (signal.number() - 1) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_begins_with_signal_1() {
        let ignored = Ignored { mask: 1 };
        assert!(ignored.has(Signal::Reload) && !ignored.has(Signal::Interrupt));
        assert!(Ignored { mask: 2 }.has(Signal::Interrupt));
    }

    #[test]
    fn a_status_is_that_of_shells() {
        assert_eq!((Signal::Interrupt.status(), Signal::Terminate.status()), (130, 143));
    }

    #[test]
    fn a_signal_that_arrives_while_signals_are_held_is_taken() {
        let held = Signals::hold().expect("signals");
        assert_eq!(held.take(), None);
        let this = rustix::thread::gettid();
        // Sent to this thread, which blocks them: another one would be ended. SAFETY: takes numbers, touches no memory
        // of ours.
        let sent = unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), this.as_raw_nonzero().get(), libc::SIGHUP)
        };
        assert_eq!(sent, 0);
        assert_eq!((held.take(), held.take()), (Some(Signal::Reload), None));
    }

    #[test]
    fn a_command_does_not_inherit_blocked_signals() {
        let _held = Signals::hold().expect("signals");
        let mut command = Command::new("sh");
        command.args(["-c", "grep ^SigBlk: /proc/self/status"]);
        unblock_in(&mut command);
        let output = command.output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "SigBlk:\t0000000000000000");
    }
}
