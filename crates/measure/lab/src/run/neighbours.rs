//! Other users of a host, looked for before the first trial: a run on a busy host measures them, and shows nothing.

use crate::error::Error;
use crate::trial::halt::Halt;
use os::{cpu_time, processes};
use std::time::Duration;

/// A host is looked at for this long.
const LOOK: Duration = Duration::from_secs(1);
/// From here on, time stolen by the hypervisor makes trials doubtful.
const STEAL_MAX: f64 = 0.02;
/// Of a CPU: programs that use less are the background of any host.
const BUSY_MAX_S: f64 = 0.25;
/// Programs that are named.
const NAMED_MAX: usize = 3;

/// What was seen of them, if it is enough to disturb trials.
pub(super) fn look(halt: &Halt) -> Result<Option<String>, Error> {
    let used_s = |pid: &u32| cpu_time::of_process(*pid).ok().map(|used_ns| used_ns as f64 / 1e9);
    let before: Vec<(u32, f64)> =
        processes::all().into_iter().filter_map(|pid| Some((pid, used_s(&pid)?))).collect();
    let host = cpu_time::of_host();
    halt.pause(LOOK)?;
    let steal = cpu_time::of_host().stolen_since(host);
    let own = std::process::id();
    let mut programs: Vec<(f64, String)> = Vec::new();
    for (pid, before_s) in before.into_iter().filter(|(pid, _)| *pid != own) {
        let Some(now_s) = used_s(&pid) else { continue };
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_else(|_| pid.to_string());
        programs.push(((now_s - before_s) / LOOK.as_secs_f64(), name.trim().to_owned()));
    }
    Ok(told(steal, programs))
}

/// In a sentence, from the share of the host's time that was stolen and the CPUs that each program used.
fn told(steal: f64, mut programs: Vec<(f64, String)>) -> Option<String> {
    programs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let busy: f64 = programs.iter().map(|(cpus, _)| cpus).sum();
    let mut seen = Vec::new();
    if steal > STEAL_MAX {
        seen.push(format!("other guests of the machine take {:.0} % of its CPU time", steal * 100.0));
    }
    if busy > BUSY_MAX_S {
        let named = programs.iter().take(NAMED_MAX).filter(|(cpus, _)| *cpus > 0.05);
        let names: Vec<String> = named.map(|(cpus, name)| format!("{name} {cpus:.1}")).collect();
        seen.push(format!("other programs use {busy:.1} CPUs ({})", names.join(", ")));
    }
    (!seen.is_empty()).then(|| {
        format!(
            "this host is busy: {}. Many trials will not count, and the rest differ by more: better wait, or choose a quieter \
             host",
            seen.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_host_is_told_of_with_what_keeps_it_busy() {
        let programs = |all: &[(f64, &str)]| -> Vec<(f64, String)> {
            all.iter().map(|(cpus, name)| (*cpus, (*name).to_owned())).collect()
        };
        assert_eq!(told(0.01, programs(&[(0.1, "sshd"), (0.1, "cron")])), None);
        let busy = told(0.0, programs(&[(0.02, "sshd"), (0.5, "rustc"), (0.9, "cc1plus")])).expect("busy");
        assert!(
            busy.starts_with("this host is busy: other programs use 1.4 CPUs (cc1plus 0.9, rustc 0.5). "),
            "{busy}"
        );
        let both = told(0.12, programs(&[(1.0, "x")])).expect("busy");
        assert!(both.contains("take 12 % of its CPU time; other programs use 1.0 CPUs (x 1.0)"), "{both}");
    }
}
