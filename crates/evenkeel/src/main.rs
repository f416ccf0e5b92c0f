//! One binary, a verb for each job.
//!
//! Nothing is decided here: a verb's flags are parsed and passed to the crate that does the work. A failure is printed
//! once, here, as `evenkeel: <verb>: <what>: <why>` and hints, with an exit status by its kind ([`failure`]).

use std::ffi::OsString;
use std::process::ExitCode;

mod activation;
mod agent;
mod background;
mod cluster_file;
mod control;
mod endpoint;
mod failure;
mod host_sampler;
mod lab;
mod line_queue;
mod live;
mod log;
mod man;
mod output;
mod painted;
mod parent;
mod pidfile;
mod port_file;
mod privileges;
mod reload;
mod renewal;
mod replay;
mod resources;
mod route;
mod serve;
mod server_tls;
mod supervisor;
mod sys;
mod top;
mod tune;
mod up;
mod uring;
mod verbs;
mod wire;

fn main() -> ExitCode {
    // A process that was started through /proc/self/exe is called `exe` otherwise, which nobody looks for. Without a name
    // it works as well.
    let _ = rustix::thread::set_name(c"evenkeel");
    let typed: Vec<OsString> = std::env::args_os().collect();
    match verbs::run(&typed) {
        Ok(status) => status,
        Err(failure) => failure.report(verbs::name(&typed)),
    }
}
