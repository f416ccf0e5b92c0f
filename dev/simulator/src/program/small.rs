//! Seeds of the small world, whose routers, servers and controllers are real.

use os::cpu_time::CpuTime;
use simulator::small::{SmallBug, SmallRun, play};

/// Plays seeds one after the other until an invariant breaks. False if one does.
pub(super) fn run(first: u64, seeds: u64) -> bool {
    let before = CpuTime::of_this_process();
    let (mut played, mut sum) = (0, SmallRun::default());
    let mut is_well = true;
    for seed in first..first.saturating_add(seeds) {
        let run = play(seed, &[]);
        played += 1;
        sum.requests += run.requests;
        sum.generations += run.generations;
        sum.entered += run.entered;
        if let Some(violation) = run.violation {
            println!("{violation}");
            is_well = false;
            break;
        }
    }
    let now = CpuTime::of_this_process();
    let cpu_s = (now.user + now.system - before.user - before.system).as_secs_f64();
    println!(
        "{played} seeds in {cpu_s:.2} CPU-s, {:.0} a minute: {} requests, {} generations, {} members that entered a slot",
        60.0 * f64::from(played) / cpu_s.max(0.001),
        sum.requests,
        sum.generations,
        sum.entered
    );
    is_well
}

/// Looks for every planted bug. False if one is not found with any of the seeds.
pub(super) fn hunt(seeds: u64) -> bool {
    let mut is_well = true;
    println!("the first of {seeds} seeds that finds a planted bug");
    for bug in SmallBug::ALL {
        let found = (0..seeds).find_map(|seed| play(seed, &[bug]).violation);
        match found {
            Some(found) => println!("{bug:?}: seed {}, {}", found.seed, found.violation),
            None => {
                println!("{bug:?}: NOT FOUND");
                is_well = false;
            }
        }
    }
    is_well
}
