//! Placement of the workers (`--pin`, `-N`, `--busy-poll`), as the network takes it.

use net::{Deal, WorkerPlacement};
use os::{CpuSet, cpu_order};

use crate::Error;
use crate::settings::options::Options;

/// The placement that `options` ask for on this machine.
pub(crate) fn of_options(options: &Options) -> Result<WorkerPlacement, Error> {
    let cpus = match options.pin {
        true => cpus(options.threads, cpu_order::of_this_thread().map_err(Error::Cpus)?)?,
        false => Vec::new(),
    };
    let deal = match (options.echo.napi_ids, options.pin) {
        (1.., _) => Deal::ByNapiId,
        (0, true) => Deal::ByCpu,
        (0, false) => Deal::InTurn,
    };
    Ok(WorkerPlacement { cpus, deal, busy_poll_us: options.busy_poll_us })
}

/// The first `threads` of the CPUs. Two workers on one CPU would only wait for each other, so that they are refused.
fn cpus(threads: usize, mut usable: Vec<u32>) -> Result<Vec<u32>, Error> {
    if threads > usable.len() {
        let usable: CpuSet = usable.into_iter().collect();
        return Err(Error::TooFewCpus { threads, count: usable.len(), usable });
    }
    usable.truncate(threads);
    Ok(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_one_of_the_first_cpus() {
        let chosen = |threads| cpus(threads, vec![0, 2, 1, 3]).map_err(|error| error.to_string());
        assert_eq!(chosen(2), Ok(vec![0, 2]));
        assert_eq!(chosen(4), Ok(vec![0, 2, 1, 3]));
        let refused = "--pin: expected at most one thread for each CPU that the process may use (-t 4), found -t 5; the CPUs are 0-3";
        assert_eq!(chosen(5), Err(refused.to_owned()));
    }

    #[test]
    fn connections_go_by_cpu_where_threads_are_pinned_and_by_queue_with_n() {
        let deal = |pin, napi_ids| {
            let mut options = Options { pin, threads: 1, busy_poll_us: 20, ..Options::default() };
            options.echo.napi_ids = napi_ids;
            let placement = of_options(&options).expect("a CPU");
            (placement.deal, placement.cpus.len(), placement.busy_poll_us)
        };
        assert_eq!(deal(false, 0), (Deal::InTurn, 0, 20));
        assert_eq!(deal(true, 0), (Deal::ByCpu, 1, 20));
        assert_eq!(deal(true, 1), (Deal::ByNapiId, 1, 20));
        assert_eq!(deal(false, 1), (Deal::ByNapiId, 0, 20));
    }
}
