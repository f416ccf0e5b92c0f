//! Errors of a program or a port at an interface.

use rustix::io::Errno;

/// Why a program or a port is not at an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// There is no such interface.
    #[error("no interface has this name: `ip link` lists them")]
    NoInterface,
    /// Another program is there. It is never replaced.
    #[error(
        "it has another XDP program already, which is not replaced: `bpftool net show` and `ip link show` say which"
    )]
    Taken,
    /// Its driver cannot run one.
    #[error(
        "its driver runs no XDP programs, or not with this MTU or these offloads; `--udp-xdp-mode generic` works with every driver"
    )]
    NoDriverMode,
    /// Zero copy was asked for.
    #[error("its driver has no zero copy; `--udp-xdp-mode native` copies each frame")]
    NoZeroCopy,
    /// The process may not.
    #[error("{what} needs the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, or root")]
    NotAllowed {
        /// What was tried.
        what: &'static str,
    },
    /// Memory for frames must be locked.
    #[error(
        "{needed} bytes of memory per queue must be locked, which is more than this process may lock: `ulimit -l`, `LimitMEMLOCK=` of systemd"
    )]
    NoMemory {
        /// Bytes of one port.
        needed: usize,
    },
    /// The kernel refused a step.
    #[error("{what}: {error}")]
    Failed {
        /// The step.
        what: &'static str,
        /// The kernel's answer.
        error: Errno,
    },
}

impl AttachError {
    /// Of a step that the kernel has refused.
    pub(crate) fn of(what: &'static str, error: Errno) -> AttachError {
        match error {
            Errno::PERM | Errno::ACCESS => AttachError::NotAllowed { what },
            error => AttachError::Failed { what, error },
        }
    }
}
