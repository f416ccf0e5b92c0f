//! Conversations: events and readings, line by line, and the news of the watch.
//!
//! ```text
//! 41 cpu 3 online            an event; also: link eth0 down, link eth0 up, asked
//! 41 irq ff                  what settings read from now on: irq, rps (masks), backlog (a number), gone for none, elsewhere (an interrupt's CPU)
//! 41 online 0-3, index 7, resets 1, queues 4, agent irqbalance, irq-of eth0-Tx-Rx-1
//! 41 look                    -> what is said, in brief
//! ```

use std::collections::BTreeMap;

use super::*;
use crate::observe::facts::{Agent, Interrupt};

const IRQ: &str = "/proc/irq/38/smp_affinity";
const RPS: &str = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
const BACKLOG: &str = "/proc/sys/net/core/somaxconn";

struct Scene {
    watch: Watch,
    repair: bool,
    look: WatchSnapshot,
    /// Repairs fail from now on.
    refuses: bool,
}

fn desired(setting: Setting, before: &str, wanted: &str, step: usize) -> DesiredState {
    let identity = setting.irq().map(|_| "eth0-Tx-Rx-0".to_owned());
    let before = vec![before.to_owned()];
    DesiredState {
        setting,
        wanted: wanted.into(),
        before,
        identity,
        journal: Some("000001.jsonl".into()),
        step,
    }
}

fn seen(desired: DesiredState, default: Option<&str>) -> SettingReading {
    let identity = desired.identity.clone();
    // As the kernel writes it.
    let found = Found::Text(format!("{}\n", desired.wanted));
    SettingReading { desired, found, identity, default: default.map(str::to_owned) }
}

fn interrupt(irq: u32, name: &str) -> Interrupt {
    Interrupt { irq, name: name.into(), device: Some("eth0".into()), ..Interrupt::default() }
}

impl Scene {
    fn new(repair: bool) -> Scene {
        let look = WatchSnapshot {
            seen: vec![
                seen(desired(Setting::mask(IRQ), "00000000,000000ff\n", "8", 0), Some("ff")),
                seen(desired(Setting::mask(RPS), "00\n", "f0", 1), Some("0")),
                seen(desired(Setting::number(BACKLOG), "128\n", "4096", 2), None),
            ],
            nics: BTreeMap::from([("eth0".to_owned(), NicState { index: 4, queues: (2, 2), resets: 0 })]),
            interrupts: vec![interrupt(38, "eth0-Tx-Rx-0"), interrupt(39, "eth0-Tx-Rx-1")],
            online: Some(CpuSet::first(8)),
            agents: Vec::new(),
            came: BTreeMap::new(),
        };
        Scene { watch: Watch::new(Policy { repair, every_ms: 30_000 }), repair, look, refuses: false }
    }

    /// One line of the conversation, and the answer to it.
    fn play(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at_ms = (words[0].parse::<f64>().expect("seconds") * 1000.0) as u64;
        match &words[1..] {
            ["look"] => return self.look(at_ms),
            ["cpu", cpu, state] => {
                let cpu = cpu.parse().unwrap();
                self.watch.event(at_ms, KernelEvent::Cpu { cpu, online: *state == "online" });
            }
            ["link", nic, state] => {
                let index = self.look.nics["eth0"].index;
                self.watch.event(at_ms, KernelEvent::Link { nic: (*nic).into(), index, up: *state == "up" });
            }
            ["asked"] => self.watch.event(at_ms, KernelEvent::Asked),
            ["online", list] => self.look.online = Some(CpuSet::parse_list(list).unwrap()),
            ["index", index] => {
                let state = NicState { index: index.parse().unwrap(), queues: (2, 2), resets: 0 };
                self.look.nics.insert("eth0".into(), state);
            }
            ["resets", count] => self.nic().resets = count.parse().unwrap(),
            ["queues", count] => self.nic().queues = (count.parse().unwrap(), count.parse().unwrap()),
            ["nic", "gone"] => self.look.nics.clear(),
            ["agent", name, sets @ ..] => {
                let agent = Agent { name: (*name).into(), pid: Some(812), sets: sets.join(" ") };
                self.look.agents.push(agent);
            }
            ["irq-of", name] => self.look.seen[0].identity = Some((*name).to_owned()),
            ["irqs", number, name] => self.look.interrupts = vec![interrupt(number.parse().unwrap(), name)],
            ["refuses"] => self.refuses = true,
            [name, value] => {
                let index = ["irq", "rps", "backlog"].iter().position(|known| known == name).expect(name);
                self.look.seen[index].found = match *value {
                    "gone" => Found::Gone,
                    "elsewhere" => Found::Elsewhere("0".into()),
                    value => Found::Text(format!("{value}\n")),
                };
            }
            _ => panic!("{line}"),
        }
        Vec::new()
    }

    fn nic(&mut self) -> &mut NicState {
        self.look.nics.get_mut("eth0").unwrap()
    }

    fn look(&mut self, at_ms: u64) -> Vec<String> {
        let news = self.watch.look(at_ms, &self.look);
        news.iter().map(|news| self.carry_out(at_ms, news)).collect()
    }

    /// As the command line does it.
    fn carry_out(&mut self, at_ms: u64, news: &News) -> String {
        if news.act == Act::Repair {
            self.watch.repaired(at_ms, &news.desired.setting, !self.refuses);
            let seen = self.look.seen.iter_mut().find(|seen| seen.desired == news.desired).unwrap();
            if !self.refuses {
                seen.found = Found::Text(format!("{}\n", news.desired.wanted));
            }
        }
        assert!(self.repair || news.act != Act::Repair);
        let failure = self.refuses.then_some("write it");
        let line = NewsLine { unix_s: at_ms / 1000, news, failure };
        let name = match news.desired.setting.to_string() {
            path if path == IRQ => "irq",
            path if path == RPS => "rps",
            _ => "backlog",
        };
        let because = news.because.as_ref().map(|because| {
            let suspects = because.suspects.join(", ");
            format!(
                " {}{}",
                because.cause.word(),
                if suspects.is_empty() { suspects } else { format!(" [{suspects}]") }
            )
        });
        format!("{name} {}{}", line.done(), because.unwrap_or_default())
    }
}

#[track_caller]
fn check(repair: bool, conversation: &str) {
    let mut scene = Scene::new(repair);
    for line in conversation.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (told, expected) = line.split_once("->").unwrap_or((line, ""));
        assert_eq!(scene.play(told).join("; "), expected.trim(), "{line}");
    }
}

#[test]
fn what_holds_is_not_worth_a_word() {
    check(
        true,
        "0 look
         30 look
         31 link eth0 up
         32 look",
    );
}

#[test]
fn values_that_look_different_and_mean_the_same_hold() {
    check(
        true,
        "0 look
         30 irq 00000000,00000008
         30 rps 00000000,000000f0
         30 look",
    );
}

#[test]
fn a_cpu_that_comes_back_without_its_interrupt_is_mended() {
    check(
        true,
        "0 look
         40 cpu 3 offline
         40 online 0-2,4-7
         40 irq 01
         40.5 look -> irq waiting hotplug
         41 cpu 3 online
         41 online 0-7
         41 irq ff
         42 look -> irq repaired hotplug
         47 look",
    );
}

#[test]
fn a_driver_reset_is_known_by_the_drivers_counter() {
    // i3.8xlarge: the transmit watchdog resets the device, and all interrupts are on CPU 0 again.
    check(
        true,
        "0 look
         100 link eth0 down
         100.2 link eth0 up
         100.2 resets 1
         100.2 irq 01
         101 look -> irq repaired driver-reset
         106 look",
    );
}

#[test]
fn an_interface_that_was_opened_anew_has_lost_its_affinities() {
    check(
        true,
        "0 look
         60 link eth0 down
         61 link eth0 up
         61 irq ff
         62 look -> irq repaired link",
    );
}

#[test]
fn an_interface_that_is_made_anew_has_lost_everything() {
    check(
        true,
        "0 look
         10 nic gone
         10 rps gone
         10.3 look -> rps gone gone
         12 index 9
         12 rps 0
         12.3 look -> rps repaired recreated
         20 look",
    );
    check(
        false,
        "0 look
         10 index 9
         10 rps 0
         10.3 look -> rps reported recreated
         40 look
         50 rps f0
         70 look -> rps holds-again",
    );
}

#[test]
fn an_interrupt_that_is_another_ones_now_is_left_alone() {
    // After `ethtool -L` the numbers are given out anew.
    check(
        true,
        "0 look
         30 queues 4
         30 irq-of nvme0q1
         30 irq ff
         30 irqs 45 eth0-Tx-Rx-0
         30.3 look -> irq gone renumbered
         60 look",
    );
    check(
        true,
        "0 look
         30 irq-of nvme0q1
         30 irqs 45 eth1-Tx-Rx-0
         30.3 look -> irq gone gone",
    );
}

#[test]
fn what_shares_an_interrupt_does_not_make_it_another_one() {
    check(
        true,
        "0 look
         30 irq-of usb1,eth0-Tx-Rx-0
         30 look",
    );
}

#[test]
fn a_queue_that_is_gone_is_said_to_be_gone() {
    check(
        true,
        "0 look
         30 queues 1
         30 rps gone
         30.3 look -> rps gone gone
         60 look
         90 queues 2
         90 rps 0
         90.3 look -> rps repaired reset",
    );
}

#[test]
fn whoever_rewrites_a_value_more_than_three_times_in_ten_minutes_is_left_in_peace() {
    check(
        true,
        "0 look
         30 rps 0
         30 look -> rps repaired reset
         60 rps 0
         60 look -> rps repaired reset
         90 rps 0
         90 look -> rps repaired reset
         120 rps 0
         120 look -> rps backed-off reset
         150 look
         150 backlog 128
         151 look -> backlog repaired reset
         800 look
         810 rps f0
         830 look -> rps holds-again
         860 rps 0
         860 look -> rps backed-off reset
         890 rps f0
         890 look -> rps holds-again
         1489 look
         1490 look
         1500 rps 0
         1520 look -> rps repaired reset",
    );
}

#[test]
fn three_changes_in_more_than_ten_minutes_are_no_fight() {
    check(
        true,
        "0 look
         100 rps 0
         100 look -> rps repaired reset
         300 rps 0
         300 look -> rps repaired reset
         500 rps 0
         500 look -> rps repaired reset
         700 rps 0
         700 look -> rps repaired reset",
    );
}

#[test]
fn irqbalance_moves_what_it_was_told_to_leave_alone_and_is_named() {
    check(
        true,
        "0 look
         10 agent irqbalance interrupt affinities, every ten seconds
         10 irq 10
         10 look -> irq repaired agent [irqbalance (PID 812)]
         20 irq 20
         20 look -> irq repaired agent [irqbalance (PID 812)]
         30 irq 40
         30 look -> irq repaired agent [irqbalance (PID 812)]
         40 irq 80
         40 look -> irq backed-off agent [irqbalance (PID 812)]
         50 irq 01
         50 look",
    );
}

#[test]
fn an_interrupt_that_does_not_follow_its_affinity_is_given_it_anew_and_then_left() {
    check(
        true,
        "0 look
         10 agent irqbalance interrupt affinities, every ten seconds
         10 irq elsewhere
         10 look -> irq repaired reset [irqbalance (PID 812)]
         20 irq elsewhere
         20 look -> irq repaired reset [irqbalance (PID 812)]
         30 irq elsewhere
         30 look -> irq repaired reset [irqbalance (PID 812)]
         40 irq elsewhere
         40 look -> irq backed-off reset [irqbalance (PID 812)]
         50 look",
    );
    check(
        true,
        "0 look
         10 cpu 3 offline
         11 cpu 3 online
         12 irq elsewhere
         12 look -> irq repaired hotplug",
    );
}

#[test]
fn an_agent_is_not_suspected_of_what_it_never_sets() {
    check(
        false,
        "0 look
         10 agent google_guest_agent queues and interrupt affinities of interfaces
         10 backlog 1000
         10 irq 10
         30 look -> irq reported agent [google_guest_agent (PID 812)]; backlog reported somebody",
    );
}

#[test]
fn a_guest_agent_that_changes_queues_is_named_beside_them() {
    check(
        false,
        "0 look
         10 agent google_guest_agent queues and interrupt affinities of interfaces
         10 queues 4
         10 irq 10
         30 look -> irq reported queues-changed [google_guest_agent (PID 812)]",
    );
}

#[test]
fn an_administrators_choice_is_left_alone_at_once() {
    check(
        true,
        "0 look
         30 backlog 1000
         30 look -> backlog stepped-aside somebody
         40 backlog 2000
         60 look
         70 link eth0 down
         70 backlog 128
         71 look
         90 backlog 4096
         90 look -> backlog holds-again
         110 backlog 1000
         120 look -> backlog stepped-aside somebody",
    );
}

#[test]
fn what_was_so_when_watching_began_is_judged_by_its_value() {
    check(
        true,
        "0 rps 0
         0 backlog 1000
         0 look -> rps repaired reset; backlog stepped-aside somebody",
    );
}

#[test]
fn what_only_persists_is_left_to_whoever_reads_it() {
    let mut scene = Scene::new(true);
    scene.look.seen[2].desired.journal = None;
    for (line, said) in [
        ("0 look", ""),
        ("10 backlog 128", ""),
        ("30 look", "backlog reported reset"),
        ("60 look", ""),
        ("70 backlog 4096", ""),
        ("90 look", "backlog holds-again"),
    ] {
        assert_eq!(scene.play(line).join("; "), said, "{line}");
    }
}

#[test]
fn without_leave_to_repair_it_only_says_what_it_sees() {
    check(
        false,
        "0 look
         30 rps 0
         30 look -> rps reported reset
         60 look
         70 rps 1
         90 look -> rps reported somebody
         110 rps f0
         120 look -> rps holds-again",
    );
}

#[test]
fn what_cannot_be_repaired_is_tried_three_times() {
    check(
        true,
        "0 look
         30 refuses
         30 rps 0
         30 look -> rps failed reset
         60 look -> rps failed reset
         90 look -> rps failed reset
         120 look -> rps backed-off reset
         150 look",
    );
}

/// When the next look is due, after these lines.
#[track_caller]
fn check_due(conversation: &str, due_ms: u64) {
    let mut scene = Scene::new(false);
    conversation.lines().for_each(|line| drop(scene.play(line.trim())));
    assert_eq!(scene.watch.next_look_ms(), due_ms, "{conversation}");
}

#[test]
fn it_looks_when_the_kernel_has_told_all_but_does_not_wait_for_ever() {
    check_due("", 0);
    check_due("0 look", 30_000);
    check_due("0 look\n 10 cpu 3 offline", 10_300);
    check_due("0 look\n 10 cpu 3 offline\n 10.2 link eth0 up", 10_500);
    let storm: Vec<String> =
        (0..100).map(|tick| format!("{} link eth0 up", 10.0 + f64::from(tick) / 10.0)).collect();
    check_due(&format!("0 look\n{}", storm.join("\n")), 12_000);
    // Not more often than once a second, and once more when the driver may have finished.
    check_due("0 look\n 10 cpu 3 offline\n 10.3 look", 15_300);
    check_due("0 look\n 10 cpu 3 offline\n 10.3 look\n 10.4 cpu 3 online", 11_300);
    check_due("0 look\n 10 look\n 10.1 asked", 10_100);
    // News does not put off the look that is due anyway.
    check_due("0 look\n 29.9 link eth0 up", 30_000);
}

#[test]
fn a_storm_of_events_is_not_kept_for_ever() {
    let mut scene = Scene::new(false);
    (0..5000).for_each(|at_ms| scene.watch.event(at_ms, KernelEvent::Lost));
    assert_eq!(scene.watch.events.len(), EVENTS_MAX);
    scene.watch.look(5000 + REVERSIONS_MS, &scene.look);
    assert_eq!(scene.watch.events.len(), 0);
}

#[test]
fn metrics_count_drifts_by_cause_and_say_what_is_left_alone() {
    let mut scene = Scene::new(true);
    let lines = "0 look|30 rps 0|30 backlog 1000|30 look|40 rps 0|60 look|70 index 9|70 irq ff|80 look";
    lines.split('|').for_each(|line| drop(scene.play(line)));
    let text = prometheus(&scene.watch, 1_700_000_000);
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    has("evenkeel_tune_watch_settings 3");
    has("evenkeel_tune_watch_drifted 1");
    has(&format!("evenkeel_tune_watch_drifts_total{{setting=\"{RPS}\",cause=\"reset\"}} 2"));
    has(&format!("evenkeel_tune_watch_drifts_total{{setting=\"{IRQ}\",cause=\"recreated\"}} 1"));
    has(&format!("evenkeel_tune_watch_repairs_total{{setting=\"{RPS}\"}} 2"));
    has(&format!("evenkeel_tune_watch_stepped_aside{{setting=\"{BACKLOG}\"}} 1"));
    has("evenkeel_tune_watch_looked_timestamp_seconds 1700000000");
    stdx::exposition::read(&text).expect("it is as the format wants it");
}

#[test]
fn a_plan_that_sets_it_anew_begins_anew() {
    let mut scene = Scene::new(true);
    for line in ["0 look", "30 backlog 1000", "30 look"] {
        scene.play(line);
    }
    // Applied once more: the same setting, of another journal.
    scene.look.seen[2].desired.journal = Some("000002.jsonl".into());
    scene.look.seen[2].desired.before.push("1000\n".into());
    assert_eq!(scene.play("60 look"), ["backlog repaired reset"]);
}
