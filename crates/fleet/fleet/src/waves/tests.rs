//! Changes as conversations.

use std::collections::BTreeSet;

use stdx::clock::Now;

use super::*;

/// A change of hosts whose agents obey at once, and a register that takes everything.
struct Play {
    change: FleetChange,
    /// Hosts that do nothing that they are told, and whose words are the test's.
    odd: BTreeSet<String>,
    now: Now,
}

fn host(number: usize) -> PlannedHost {
    PlannedHost {
        host: format!("h{number:03}").parse().expect("a name"),
        zone: format!("z{}", number % 2).parse().expect("a name"),
        class: None,
        group: "g1".to_owned(),
        role: HostRole::Server,
        is_last: false,
        clusters: [format!("c{}", number / 20).parse().expect("a name")].into(),
    }
}

pub(super) fn draft(hosts: usize) -> ChangeDraft {
    ChangeDraft {
        number: ChangeNumber(1),
        what: "a tuning".to_owned(),
        hosts: (0..hosts).map(host).collect(),
        promised: Vec::new(),
        restarts: false,
        takes_turns: true,
        accepted: BTreeSet::new(),
        settings: WaveSettings::default(),
    }
}

impl Play {
    fn begin(draft: ChangeDraft) -> Play {
        let plan = ChangePlan::new(draft, &[]).expect("a plan");
        let mut play = Play {
            change: FleetChange::begin(plan, Now::default()),
            odd: BTreeSet::new(),
            now: Now::default(),
        };
        play.hear();
        play
    }

    /// Every host says how it is, and what its figures are.
    fn hear(&mut self) {
        let hosts: Vec<HostId> = self.change.plan().hosts.iter().map(|host| host.host.clone()).collect();
        for host in hosts.into_iter().filter(|host| !self.odd.contains(host.as_str())) {
            let attempt = self.change.order(&host).and_then(|order| order.attempt);
            let word = attempt.map_or(HostWord::AsBefore, |attempt| HostWord::Changed { attempt });
            self.change.note(ChangeEvent::Said { host: host.clone(), word }, self.now);
            for _ in 0..3 {
                let figures = HostFigures {
                    requests_per_cpu_s: Some(100_000.0),
                    p99_us: Some(500.0),
                    scheduling_wait: Some(0.1),
                };
                self.change.note(ChangeEvent::Measured { host: host.clone(), figures }, self.now);
            }
        }
    }

    fn say(&mut self, host: &str, word: HostWord) {
        self.odd.insert(host.to_owned());
        self.change.on(ChangeEvent::Said { host: host.parse().expect("a name"), word }, self.now);
    }

    /// What was decided is written, and the hosts do it. False if nothing was.
    fn write(&mut self) -> bool {
        let Some(version) = self.change.to_write().map(|progress| progress.version) else { return false };
        self.change.written(version);
        self.hear();
        self.change.on(ChangeEvent::Tick, self.now);
        true
    }

    /// Goes on until this many hosts were told, or nothing more happens.
    fn until(&mut self, told: usize) {
        for _ in 0..10_000 {
            if self.told().len() >= told {
                return;
            }
            self.change.on(ChangeEvent::Tick, self.now);
            self.hear();
            if !self.write() {
                let Some(next) = self.change.next_call() else { return };
                self.now = next;
            }
        }
    }

    /// Hosts that shall have it.
    fn told(&self) -> Vec<String> {
        let told = self.change.told().filter(|(.., attempt)| attempt.is_some());
        told.map(|(host, ..)| host.to_string()).collect()
    }
}

/// How many hosts shall have the change at each step, when nothing goes wrong.
#[track_caller]
fn check_waves(draft: ChangeDraft, expected: &[usize]) {
    let mut play = Play::begin(draft);
    let mut reached = vec![];
    while play.change.state() != ChangeState::Done {
        let told = play.told().len();
        play.until(told + 1);
        if play.told().len() == told {
            break;
        }
        reached.push(play.told().len());
    }
    assert_eq!(play.change.state(), ChangeState::Done);
    assert_eq!(reached, expected);
}

#[test]
fn waves_grow_zone_by_zone() {
    // Eight pairs; 1 % and 5 % of each zone are fewer or hardly more; 25 % are 25 of each zone; the controls come with the rest.
    check_waves(draft(200), &[8, 11, 30, 50, 125, 200]);
    check_waves(draft(40), &[8, 9, 10, 25, 40]);
}

#[test]
fn few_pairs_take_turns_on_off_off_on() {
    let mut play = Play::begin(draft(8));
    let (mut parts, mut before) = (Vec::new(), usize::MAX);
    for _ in 0..2_000 {
        play.change.on(ChangeEvent::Tick, play.now);
        play.hear();
        if play.change.state() == ChangeState::Done {
            break;
        }
        if !play.write() {
            play.now = play.change.next_call().expect("it goes on");
        }
        let told = play.told().len();
        if told != std::mem::replace(&mut before, told) {
            parts.push(told);
        }
    }
    // Four pairs and two blocks are eight units; then the rest, zone by zone.
    assert_eq!(parts, [0, 4, 0, 4, 0, 4, 6, 8]);
    let looks = play.change.looks().into_values().flatten().cloned().collect::<Vec<_>>();
    assert_eq!(looks.iter().map(|look| look.units).collect::<Vec<_>>(), [8]);
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut ChangeDraft), running: &[&ChangePlan], expected: &str) {
    let mut draft = draft(40);
    change(&mut draft);
    let error = ChangePlan::new(draft, running).expect_err("refused").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_plan_that_cannot_be_judged_is_refused() {
    check_refused(|draft| draft.hosts.clear(), &[], "none is in the scope");
    check_refused(|draft| draft.hosts[0].group = "g2".to_owned(), &[], "plan g2: of 1 no two have equal");
    let other =
        |draft: &mut ChangeDraft| draft.hosts[..10].iter_mut().for_each(|host| host.group = "g2".into());
    check_refused(
        |draft| {
            other(draft);
            draft.takes_turns = false;
        },
        &[],
        "of plan g2: 4 pairs are fewer than the 8 of a look",
    );
    check_refused(
        |draft| draft.hosts.push(PlannedHost { group: "g2".to_owned(), ..host(3) }),
        &[],
        "the host h003: it is in the scope twice, with different plans",
    );
    let first = ChangePlan::new(draft(3), &[]).expect("a plan");
    check_refused(|_| (), &[&first], "the host h000: the change 1 is on its way there and on 2 others");
    // A host that two scopes name is taken once; a kind that a person accepts is not judged.
    let mut twice = draft(40);
    twice.hosts.push(host(3));
    twice.hosts[0].group = "g2".to_owned();
    twice.hosts.pop();
    twice.accepted.insert(HostsAlike { class: None, group: "g2".to_owned() });
    assert_eq!(ChangePlan::new(twice, &[]).expect("a plan").hosts.len(), 40);
}

#[test]
fn two_controllers_draw_the_same_pairs_and_another_change_draws_others() {
    let told = |number| {
        let mut play = Play::begin(ChangeDraft { number: ChangeNumber(number), ..draft(200) });
        play.until(1);
        play.told()
    };
    assert_eq!(told(1), told(1));
    assert_ne!(told(1), told(2));
}

#[test]
fn nobody_is_told_before_the_register_has_it_and_what_it_has_is_gone_on_from() {
    let mut play = Play::begin(draft(200));
    while play.change.to_write().is_none_or(|progress| progress.told.is_empty()) {
        play.change.on(ChangeEvent::Tick, play.now);
        play.hear();
        if play.change.to_write().is_some_and(|progress| progress.told.is_empty()) {
            play.write();
        } else if play.change.to_write().is_none() {
            play.now = play.change.next_call().expect("it goes on");
        }
    }
    assert!(play.told().is_empty());
    let text = serde_json::to_string(play.change.to_write().expect("a decision")).expect("it is JSON");
    let read: ChangeProgress = serde_json::from_str(&text).expect("it is a record");
    assert_eq!(Some(&read), play.change.to_write());
    play.change = FleetChange::resume(play.change.plan().clone(), read, play.now);
    assert_eq!(play.told().len(), 8);
    play.hear();
    play.until(200);
    assert_eq!(play.told().len(), 200);
}

#[test]
fn a_host_that_has_not_confirmed_is_never_counted() {
    let mut play = Play::begin(draft(200));
    play.until(8);
    let canary = play.told()[0].clone();
    play.say(&canary, HostWord::Trying { attempt: 1 });
    assert!(!play.change.changed().any(|host| host.as_str() == canary));
    play.say(&canary, HostWord::Lapsed { attempt: 1 });
    play.write();
    // What it says of an attempt that has lapsed does not count; it gets another one.
    play.say(&canary, HostWord::Changed { attempt: 1 });
    assert!(!play.change.changed().any(|host| host.as_str() == canary));
    play.say(&canary, HostWord::AsBefore);
    play.write();
    let order = play.change.order(&canary.parse().expect("a name")).expect("an order");
    assert_eq!(order.attempt, Some(2));
}

#[test]
fn hosts_that_cannot_apply_it_are_left_out_and_three_of_them_halt_it() {
    let mut play = Play::begin(draft(200));
    play.until(8);
    let canaries = play.told();
    let failed = || HostWord::Failed { attempt: 1, reason: "no space left on device".to_owned() };
    play.say(&canaries[0], failed());
    while play.write() {}
    let left_out: Vec<_> = play.change.left_out().map(|(host, why)| format!("{host} {why}")).collect();
    assert_eq!(left_out, [format!("{} could not apply it: no space left on device", canaries[0])]);
    // The next pair takes its place.
    assert_eq!(play.told().len(), 8);
    play.say(&canaries[1], failed());
    play.write();
    play.say(&canaries[2], failed());
    while play.write() {}
    let state = play.change.state();
    let ChangeState::Undone(cause) = state else { panic!("{state:?}") };
    let words = cause.to_string();
    assert!(words.starts_with("3 hosts are in trouble with it; h"), "{words}");
}

/// What halts a change that no host may fail with, when these canaries say so.
#[track_caller]
fn check_nobody_may_fail(lost: usize, failed: usize, expected: &str) {
    let settings = WaveSettings { troubled_max: 0, ..WaveSettings::default() };
    let mut play = Play::begin(ChangeDraft { settings, ..draft(200) });
    play.until(8);
    let canaries = play.told();
    for canary in &canaries[..lost] {
        play.odd.insert(canary.clone());
        let host = canary.parse().expect("a name");
        play.change.note(ChangeEvent::Silent { host, since: play.now }, play.now);
    }
    for canary in &canaries[8 - failed..] {
        play.say(canary, HostWord::Failed { attempt: 1, reason: "no space".to_owned() });
    }
    play.now = Now { us: play.now.us + 26_000_000 };
    play.change.on(ChangeEvent::Tick, play.now);
    while play.write() {}
    let state = play.change.state();
    assert_eq!(state.word(), expected, "{state:?}");
}

#[test]
fn where_no_host_may_fail_one_may_fall_silent() {
    check_nobody_may_fail(1, 0, "going");
    check_nobody_may_fail(2, 0, "going");
    check_nobody_may_fail(3, 0, "undoing");
    check_nobody_may_fail(0, 1, "undone");
}

#[test]
fn an_undo_goes_back_step_by_step_and_remembers_who_is_away() {
    let mut play = Play::begin(ChangeDraft {
        settings: WaveSettings { on_halt: OnHalt::Keep, ..WaveSettings::default() },
        ..draft(200)
    });
    play.until(30);
    let told = play.told();
    let away = told[0].clone();
    play.odd.insert(away.clone());
    let host: HostId = away.parse().expect("a name");
    play.change.on(ChangeEvent::Silent { host: host.clone(), since: play.now }, play.now);
    let (from, reason) = (SignalSource::Objective, "p99 is 9 ms".to_owned());
    let signal = ChangeEvent::Signal { from, reason, about: BTreeSet::new() };
    play.change.on(signal, play.now);
    while play.write() {}
    assert_eq!(play.change.state().word(), "halted");
    assert_eq!(play.told().len(), 30);
    play.now = Now { us: play.now.us + 60_000_000 };
    play.change.on(ChangeEvent::Undo { reason: "enough".to_owned() }, play.now);
    let mut left = vec![play.told().len()];
    while play.write() {
        left.push(play.told().len());
    }
    assert_eq!(left.last(), Some(&0), "{left:?}");
    assert!(left.windows(2).all(|two| two[0] >= two[1]) && left.len() > 3, "{left:?}");
    assert!(matches!(play.change.state(), ChangeState::Undoing { left: 1, .. }), "{:?}", play.change.state());
    play.say(&away, HostWord::AsBefore);
    while play.write() {}
    let state = play.change.state();
    let ChangeState::Undone(cause) = &state else { panic!("{state:?}") };
    assert_eq!(cause.to_string(), "the objective is missed: p99 is 9 ms");
}

#[test]
fn a_look_without_figures_is_none_and_halts_in_the_end() {
    let mut play = Play::begin(draft(200));
    for number in 0..200 {
        play.odd.insert(format!("h{number:03}"));
        let host = format!("h{number:03}").parse().expect("a name");
        play.change.note(ChangeEvent::Said { host, word: HostWord::AsBefore }, play.now);
    }
    play.until(1);
    let state = play.change.state();
    let ChangeState::Undone(cause) = &state else { panic!("{state:?}") };
    assert_eq!(
        cause.to_string(),
        "plan g1 cannot be judged: requests_per_cpu_s is known of 0 pairs, and a look needs 8"
    );
    assert!(play.told().is_empty());
}

#[test]
fn frozen_and_silent_hosts_are_left_out_and_named() {
    let mut play = Play::begin(draft(200));
    for number in [3, 4] {
        play.odd.insert(format!("h{number:03}"));
    }
    play.change.on(ChangeEvent::Frozen { host: "h005".parse().expect("a name") }, play.now);
    let mut silent = Play::begin(draft(200));
    std::mem::swap(&mut silent.odd, &mut play.odd);
    silent.change = FleetChange::begin(play.change.plan().clone(), Now::default());
    silent.change.on(ChangeEvent::Frozen { host: "h005".parse().expect("a name") }, Now::default());
    silent.hear();
    silent.until(200);
    assert_eq!(silent.change.state(), ChangeState::Done);
    let left_out: Vec<_> = silent.change.left_out().map(|(host, why)| format!("{host} {why}")).collect();
    assert_eq!(left_out, ["h003 is not heard from", "h004 is not heard from", "h005 is in a frozen scope"]);
}

#[test]
fn one_host_of_a_cluster_restarts_at_a_time() {
    let mut play = Play::begin(ChangeDraft { restarts: true, ..draft(200) });
    play.until(1);
    for _ in 0..200 {
        let under_way = play
            .told()
            .into_iter()
            .filter(|host| !play.change.changed().any(|changed| changed.as_str() == host));
        let clusters: Vec<usize> =
            under_way.map(|host| host[1..].parse::<usize>().expect("a number") / 20).collect();
        let distinct: BTreeSet<_> = clusters.iter().collect();
        assert_eq!(distinct.len(), clusters.len(), "{clusters:?}");
        play.change.on(ChangeEvent::Tick, play.now);
        if let Some(version) = play.change.to_write().map(|progress| progress.version) {
            // The hosts have not done it yet.
            play.change.written(version);
        } else {
            play.hear();
            play.now = play.change.next_call().unwrap_or(play.now);
        }
    }
}

#[test]
fn hosts_with_controllers_come_last_and_one_after_the_other() {
    let mut draft = ChangeDraft { restarts: true, ..draft(40) };
    let controllers = ["h003", "h017", "h038"];
    let is_last = |host: &&mut PlannedHost| controllers.contains(&host.host.as_str());
    draft.hosts.iter_mut().filter(is_last).for_each(|host| host.is_last = true);
    // A kind of them alone has nothing to be compared with, and needs nobody who accepts that.
    draft.hosts[38].group = "g2".to_owned();
    let mut play = Play::begin(draft);
    let is_controller = |host: &&String| controllers.contains(&host.as_str());
    let mut most = 0;
    for _ in 0..2_000 {
        let (told, changed) = (play.told(), play.change.changed().map(ToString::to_string));
        let changed: BTreeSet<String> = changed.collect();
        let last: Vec<&String> = told.iter().filter(is_controller).collect();
        most = most.max(last.len());
        if !last.is_empty() {
            assert_eq!(told.iter().filter(|host| !is_controller(host)).count(), 37, "others wait for nobody");
            assert!(told.iter().all(|host| is_controller(&host) || changed.contains(host)), "{told:?}");
            let under_way = last.iter().filter(|host| !changed.contains(**host)).count();
            assert!(under_way <= 1, "{last:?}");
        }
        if play.change.state() == ChangeState::Done {
            break;
        }
        play.change.on(ChangeEvent::Tick, play.now);
        if let Some(version) = play.change.to_write().map(|progress| progress.version) {
            // The hosts have not done it yet.
            play.change.written(version);
        } else {
            play.hear();
            play.now = play.change.next_call().unwrap_or(play.now);
        }
    }
    assert_eq!((play.change.state(), most), (ChangeState::Done, controllers.len()));
}

#[test]
fn what_was_asked_for_is_not_lost_if_another_controller_was_first() {
    let mut play = Play::begin(draft(200));
    play.until(8);
    let mut others = play.change.to_write().cloned().unwrap_or_else(|| play.change.written.clone());
    others.version += 1;
    play.change.on(ChangeEvent::Undo { reason: "enough".to_owned() }, play.now);
    assert_eq!(play.change.state().word(), "undoing");
    play.change.adopt(others);
    assert_eq!(play.change.state().word(), "going");
    play.change.on(ChangeEvent::Tick, play.now);
    while play.write() {}
    assert_eq!(play.change.state().word(), "undone");
}

#[test]
fn the_record_of_a_large_fleet_is_small() {
    let mut play = Play::begin(draft(5_000));
    play.until(5_000);
    let length = serde_json::to_string(&play.change.written).expect("it is JSON").len();
    assert!((50_000..150_000).contains(&length), "{length}");
}

/// What the register has is read by a controller that has just begun.
fn hand_over(play: &mut Play) {
    let text = serde_json::to_string(&play.change.written).expect("it is JSON");
    let read = serde_json::from_str(&text).expect("it is a record");
    play.change = FleetChange::resume(play.change.plan().clone(), read, play.now);
    play.hear();
}

#[test]
fn what_a_person_has_seen_halts_no_more_until_it_is_over() {
    let settings = WaveSettings { on_halt: OnHalt::Keep, ..WaveSettings::default() };
    let mut play = Play::begin(ChangeDraft { settings, ..draft(200) });
    play.until(8);
    let reason = "3 of 9 samples differ".to_owned();
    let signal = ChangeEvent::Signal { from: SignalSource::Gate, reason, about: ["gate".to_owned()].into() };
    play.change.on(signal, play.now);
    while play.write() {}
    let ChangeState::Halted(cause) = play.change.state() else { panic!("{:?}", play.change.state()) };
    assert_eq!(cause.to_string(), "the gate is missed: 3 of 9 samples differ");
    hand_over(&mut play);
    assert!(!play.change.is_excused("gate"));
    play.change.on(ChangeEvent::Resume, play.now);
    while play.write() {}
    hand_over(&mut play);
    assert!(play.change.is_excused("gate") && !play.change.is_excused("cluster/web"));
    play.change.on(ChangeEvent::SignalOver { about: "gate".to_owned() }, play.now);
    while play.write() {}
    hand_over(&mut play);
    assert!(!play.change.is_excused("gate"));
    assert_eq!(play.change.state().word(), "going");
}

#[test]
fn a_host_that_says_that_it_is_at_work_gets_longer_and_is_not_said_to_have_gone_back() {
    let settings = WaveSettings { troubled_max: 0, ..WaveSettings::default() };
    let confirm_us = settings.confirm_ms * 1000;
    let mut play = Play::begin(ChangeDraft { settings, ..draft(200) });
    play.until(8);
    let slow = play.told()[..3].to_vec();
    slow.iter().for_each(|host| play.say(host, HostWord::Trying { attempt: 1 }));
    let began = play.now.us;
    play.now = Now { us: began + 2 * confirm_us };
    play.change.on(ChangeEvent::Tick, play.now);
    assert!(!play.write() && slow.iter().all(|host| play.told().contains(host)));
    assert!(play.change.next_call().is_some_and(|next| next.us <= began + 4 * confirm_us));
    play.now = Now { us: began + 4 * confirm_us };
    play.change.on(ChangeEvent::Tick, play.now);
    while play.write() {}
    let state = play.change.state();
    let ChangeState::Undoing { cause, .. } = &state else { panic!("{state:?}") };
    assert!(cause.to_string().ends_with("was at work on it and did not come to an end in time"), "{cause}");
}

#[test]
fn a_host_is_aside_as_long_as_it_says_so() {
    let mut play = Play::begin(draft(200));
    let host: HostId = "h005".parse().expect("a name");
    let (reason, aside) = ("tuned changes it".to_owned(), host.clone());
    play.change.on(ChangeEvent::SteppedAside { host: aside, reason }, play.now);
    assert_eq!(play.change.left_out().count(), 1);
    play.change.on(ChangeEvent::NotAside { host }, play.now);
    assert_eq!(play.change.left_out().count(), 0);
}
