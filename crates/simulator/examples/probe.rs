use simulator::small::{SmallBug, play};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).take(2).map(|a| a.parse().unwrap()).collect();
    let bug = std::env::args().nth(3);
    let bugs: Vec<SmallBug> =
        SmallBug::ALL.into_iter().filter(|b| bug.as_ref().is_some_and(|n| format!("{b:?}") == *n)).collect();
    let (from, count) = (args[0], args[1]);
    let start = std::time::Instant::now();
    let (mut req, mut gens, mut ent, mut conv, mut bad) = (0, 0, 0, 0, 0);
    for seed in from..from + count {
        let run = play(seed, &bugs);
        req += run.requests;
        gens += run.generations;
        ent += run.entered;
        conv += run.converged_ms.unwrap_or(0);
        if let Some(v) = run.violation {
            bad += 1;
            if bad <= 3 {
                println!("{v}");
            } else {
                println!("seed {}: {}", v.seed, v.violation);
            }
        }
    }
    let s = start.elapsed().as_secs_f64();
    println!(
        "{count} seeds in {s:.2} s: {:.0}/min; per seed: {} requests, {:.1} generations, {:.2} entered, converged {} ms; {bad} bad",
        count as f64 / s * 60.0,
        req / count,
        gens as f64 / count as f64,
        ent as f64 / count as f64,
        conv / count
    );
}
