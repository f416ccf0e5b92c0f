//! Speed of the health pass: `cargo run --release -p fleet --example health_speed`.
//!
//! 25,000 members in 70 clusters and 3 zones, 3 probers, 20,000 routers. Prints CPU time per pass and per observation, and the
//! resident memory.

use fleet::GenerationNumber;
use fleet::health::{
    HealthThresholds, HealthWatch, ProbeOutcome, ProbeRound, ProcessSight, Roster, SlotMember, TkoReport,
};
use os::cpu_time::CpuTime;
use stdx::clock::Now;

const MEMBERS: usize = 25_000;
const ROUTERS: usize = 20_000;
const CLUSTERS: usize = 70;

fn name<T: std::str::FromStr<Err = fleet::NameError>>(text: String) -> T {
    text.parse().expect("a name")
}

fn place(at: usize) -> SlotMember {
    SlotMember {
        cluster: name(format!("cluster{:02}", at % CLUSTERS)),
        slot: name(format!("slot{at:05}")),
        member: name(format!("member{at:05}")),
        host: name(format!("host{at:05}")),
        zone: name(format!("zone{}", at % 3)),
    }
}

/// Milliseconds of CPU time.
fn cost(work: impl FnOnce()) -> f64 {
    let before = CpuTime::of_this_process();
    work();
    let after = CpuTime::of_this_process();
    ((after.user + after.system).as_secs_f64() - (before.user + before.system).as_secs_f64()) * 1000.0
}

struct Bench {
    watch: HealthWatch,
    places: Vec<SlotMember>,
    second: u64,
}

impl Bench {
    fn now(&self) -> Now {
        Now::at_ms(self.second * 1000)
    }

    fn agents(&mut self) {
        for place in &self.places {
            let said = [(place.member.clone(), ProcessSight::Running)];
            self.watch.agent_said(Now::at_ms(self.second * 1000), &place.host, &said);
        }
    }

    fn probes(&mut self, dead: usize) {
        let outcome = |at| if at < dead { ProbeOutcome::Failed } else { ProbeOutcome::Answered };
        let outcomes: Vec<_> =
            self.places.iter().enumerate().map(|(at, place)| (place.member.clone(), outcome(at))).collect();
        for zone in 0..3 {
            let (prober, zone) = (name(format!("controller{zone}")), name(format!("zone{zone}")));
            let round =
                ProbeRound { prober: &prober, zone: &zone, asked: 100, answered: 100, outcomes: &outcomes };
            assert!(self.watch.probed(self.now(), &round));
        }
    }

    fn routers(&mut self, tko: usize) {
        let traffic: Vec<_> = (0..CLUSTERS).map(|at| name(format!("cluster{at:02}"))).collect();
        let tko: Vec<_> = self.places[..tko].iter().map(|place| place.member.clone()).collect();
        for at in 0..ROUTERS {
            let (router, zone) = (name(format!("router{at:05}")), name(format!("zone{}", at % 3)));
            let report = TkoReport {
                router: &router,
                zone: &zone,
                serves: &traffic,
                traffic: &traffic,
                unasked: &[],
                tko: &tko,
            };
            assert!(self.watch.router_said(self.now(), &report));
        }
    }

    /// Passes, one a second, for as long as reports are fresh.
    fn passes(&mut self, what: &str) {
        const PASSES: u64 = 9;
        let mut decisions = 0;
        let ms = cost(|| {
            for _ in 0..PASSES {
                self.second += 1;
                decisions = self.watch.decide(self.now()).list.len();
            }
        });
        println!("{what}: {:.1} ms a pass, {decisions} decisions", ms / PASSES as f64);
    }
}

fn main() {
    let places: Vec<_> = (0..MEMBERS).map(place).collect();
    let roster = Roster::new(GenerationNumber(1), places.clone()).expect("a roster");
    let watch = HealthWatch::new(Now::at_ms(0), HealthThresholds::default(), roster).expect("good settings");
    let mut bench = Bench { watch, places, second: 0 };
    for _ in 0..70 {
        bench.second += 1;
        bench.probes(0);
        bench.watch.decide(bench.now());
    }
    println!("{MEMBERS} heartbeats: {:.0} ms", cost(|| bench.agents()));
    println!("3 rounds of {MEMBERS} probes: {:.0} ms", cost(|| bench.probes(0)));
    println!("{ROUTERS} reports with 8 TKO: {:.0} ms", cost(|| bench.routers(8)));
    bench.passes("8 disputed members");
    println!("{ROUTERS} reports with 256 TKO: {:.0} ms", cost(|| bench.routers(256)));
    bench.agents();
    for _ in 0..4 {
        bench.second += 1;
        bench.probes(5_000);
        bench.watch.decide(bench.now());
    }
    bench.passes("5,000 members whose probes fail, 256 of them TKO at all routers");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM")) {
        println!("{line}");
    }
}
