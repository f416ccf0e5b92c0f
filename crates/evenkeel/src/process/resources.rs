//! Resource limits of the process, raised to what the options need.

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use server::options::Options;
use stdx::words::counted;

use crate::failure::Failure;
use crate::terminal::log;

/// Open files other than connections: standard streams, event descriptors of the process.
const FILES_OF_PROCESS: u64 = 64;
/// Open files of each worker's driver, and of each thread for handshakes: a ring or an epoll set, timers, an eventfd.
const FILES_PER_WORKER: u64 = 8;

/// Open files of the endpoint of metrics beside its connections: sockets, an epoll set, and what a scrape reads.
const FILES_OF_METRICS: u64 = 16;

/// Raises limits while the process may still be root. Where open files are too few, there may be fewer connections: the line says so.
pub(crate) fn raise(options: &mut Options) -> Result<Option<String>, Failure> {
    if options.process.core_dumps {
        raise_core_files()?;
    }
    if options.process.lock_memory {
        // Root may lock any amount of memory; the user that it becomes only this much.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    }
    raise_open_files(options)
}

fn raise_open_files(options: &mut Options) -> Result<Option<String>, Failure> {
    let connections = u64::from(options.connection_limit);
    let handshakes = options.tls.as_ref().map_or(0, |tls| tls.handshakes_max as u64);
    let others = other_files(options);
    let needed = connections + handshakes + others;
    let limit = getrlimit(Resource::Nofile);
    // `None` is no limit.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(None);
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }) else {
        return Ok(None);
    };
    let hard = raise_open_files_to_hard_limit(needed).unwrap_or(limit.current.unwrap_or(needed));
    // memcached needs no more files than -c, and does not start with fewer.
    let may_be_fewer = options.connection_limit_is_default || connections <= hard;
    let room = hard.saturating_sub(others);
    let fewer_handshakes = handshakes.min(room / 4);
    let fewer = connections.min(room - fewer_handshakes);
    if !may_be_fewer || fewer == 0 || handshakes > 0 && fewer_handshakes == 0 {
        let what = format!("raise the limit on open files to {needed} for -c {connections} (found: {hard})");
        return Err(Failure::system(what, error).hint(
            "start as root, raise `ulimit -Hn`, or ask for fewer connections with -c or --tls-handshakes-max",
        ));
    }
    options.connection_limit = fewer as u32;
    let mut lowered = Vec::new();
    if fewer < connections {
        lowered.push(format!("{} instead of {connections}", counted(fewer as usize, "connection")));
    }
    if let Some(tls) = &mut options.tls
        && fewer_handshakes < handshakes
    {
        tls.handshakes_max = fewer_handshakes as usize;
        let fewer = counted(fewer_handshakes as usize, "TLS handshake");
        lowered.push(format!("{fewer} instead of {handshakes}"));
    }
    let lowered = lowered.join(" and ");
    Ok(Some(format!(
        "at most {lowered}, because the limit on open files is {hard} and \
         {needed} are needed (`ulimit -Hn`, LimitNOFILE= of systemd)"
    )))
}

/// Files beside those of connections and of handshakes, which are no connections yet.
fn other_files(options: &Options) -> u64 {
    let workers = options.threads as u64 * FILES_PER_WORKER;
    let metrics = options.metrics.as_ref().map_or(0, |_| admin::CONNECTIONS_MAX as u64 + FILES_OF_METRICS);
    let handshake_threads = options.tls.as_ref().map_or(0, |tls| tls.handshake_threads as u64);
    workers
        + metrics
        + handshake_threads * FILES_PER_WORKER
        + options.listeners.len() as u64
        + FILES_OF_PROCESS
}

/// Raises the limit on open files to the hard limit, and to no more than `most`. Returns how many there may be.
///
/// # Errors
/// If the kernel refuses it.
pub(crate) fn raise_open_files_to_hard_limit(most: u64) -> Result<u64, Errno> {
    let limit = getrlimit(Resource::Nofile);
    let files = limit.maximum.unwrap_or(most).min(most);
    if limit.current.is_some_and(|current| current < files) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: limit.maximum })?;
    }
    Ok(limit.current.map_or(most, |current| current.max(files)))
}

/// To no limit, or to the hard limit; with a hard limit of zero no core file can be written.
fn raise_core_files() -> Result<(), Failure> {
    let limit = getrlimit(Resource::Core);
    let unlimited = setrlimit(Resource::Core, Rlimit { current: None, maximum: None });
    let raised = unlimited
        .or_else(|_| setrlimit(Resource::Core, Rlimit { current: limit.maximum, maximum: limit.maximum }));
    if getrlimit(Resource::Core).current == Some(0) {
        let why = raised.err().map_or_else(|| anyhow::anyhow!("the hard limit is 0"), Into::into);
        return Err(Failure::system("raise the limit on core files (-r)", why));
    }
    Ok(())
}

/// Lets core files be written although the process has changed its user, after which the kernel forbids them.
pub(crate) fn allow_core_files() {
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
}

/// Locks all present and future memory, each page when it is first used: the store reserves far more address space than
/// it ever uses. As in memcached, a refusal is no reason not to serve.
pub(crate) fn lock_memory() {
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
        log::warning("serve", format_args!("memory is not locked (-k): {error}"));
    }
}
