//! Probations as conversations: lines of what an agent sees, with what it does after `→`.
//!
//! `t=SECONDS` sets the time; `target gN` is a generation with text N; `sees file=N loaded=N pid=N requests=N errors=N`
//! changes what is seen and is an observation; `restart` keeps nothing but the JSON. Texts are numbers. `unreached=N` of the errors are of
//! servers; `lost=a,b` are servers that the router marks as unavailable, with a `?` if they never answered; `has=a,b` are all that it has.

use super::*;

mod lost_servers;

fn digest(number: &str) -> TextDigest {
    format!("{number:0>32}").parse().expect("a digest")
}

fn short(digest: &TextDigest) -> String {
    digest.to_string().trim_start_matches('0').to_owned()
}

fn told(action: &AgentAction) -> Option<String> {
    let of = |word: &str, text: &GivenText| format!("{word} g{}", text.generation);
    Some(match action {
        AgentAction::Keep => return None,
        AgentAction::Write(digest) => format!("write {}", short(digest)),
        AgentAction::Report(AgentReport::Loaded(text)) => of("loaded", text),
        AgentAction::Report(AgentReport::Refused(text, why)) => format!("{}: {why}", of("refused", text)),
        AgentAction::Report(AgentReport::Crashed(text, why)) => format!("{}: {why}", of("crashed", text)),
        AgentAction::Report(AgentReport::Foreign(found)) => format!("foreign {}", short(found)),
    })
}

fn lost(names: &str) -> Vec<LostServer> {
    let names = names.split(',').filter(|name| *name != "none");
    let server = |name: &str| LostServer {
        name: name.trim_end_matches('?').to_owned(),
        has_answered: !name.ends_with('?'),
    };
    names.map(server).collect()
}

#[track_caller]
fn check(conversation: &str) {
    let (mut probation, mut now) = (Probation::default(), Now::default());
    let mut seen =
        RouterObservation { process: None, loaded: None, file: None, counts: None, lost: Vec::new() };
    for line in conversation.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (events, expected) = line.split_once('→').unwrap_or((line, ""));
        let mut actions = Vec::new();
        let mut is_observation = false;
        for word in events.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("t", seconds) => now = Now::at_ms(seconds.parse::<u64>().expect("seconds") * 1000),
                ("target", "") => {}
                ("restart", "") => {
                    let json = serde_json::to_string(&probation).expect("JSON");
                    probation = serde_json::from_str(&json).expect("its own JSON");
                }
                ("sees", "") => is_observation = true,
                ("file", text) => seen.file = (text != "none").then(|| digest(text)),
                ("loaded", text) => seen.loaded = (text != "none").then(|| digest(text)),
                ("pid", pid) => seen.process = pid.parse().ok(),
                ("requests", count) => {
                    seen.counts.get_or_insert_default().requests = count.parse().expect("a count");
                }
                ("errors", count) => {
                    seen.counts.get_or_insert_default().errors = count.parse().expect("a count")
                }
                ("unreached", count) => {
                    seen.counts.get_or_insert_default().of_servers = count.parse().expect("a count");
                }
                ("lost", names) => seen.lost = lost(names),
                ("has", names) => probation.note_servers(names.split(',').map(str::to_owned).collect()),
                // g9: a generation with a text of the same number; g9=7: with the text 7.
                (target, text) if target.starts_with('g') => {
                    let text = if text.is_empty() { &target[1..] } else { text };
                    let generation = GenerationNumber(target[1..].parse().expect("a number"));
                    actions.extend(probation.on_target(GivenText { generation, digest: digest(text) }, now));
                }
                _ => panic!("{word:?} is no word of a conversation"),
            }
        }
        if is_observation {
            actions.extend(probation.on_observation(seen.clone(), now));
        }
        let found = actions.iter().filter_map(told).collect::<Vec<_>>().join(", ");
        assert_eq!(found, expected.trim(), "in {line:?}");
    }
}

const BEGIN: &str = "t=0 sees file=6 loaded=6 pid=1 requests=0 errors=0
    t=60 sees requests=100000 errors=100
    target g7 → write 7
    t=61 sees file=7
    t=62 sees loaded=7 → loaded g7
";

#[track_caller]
fn check_after(rest: &str) {
    check(&format!("{BEGIN}{rest}"));
}

#[test]
fn a_text_that_is_loaded_and_well_for_30_seconds_is_good() {
    check_after(
        "t=92 sees
        target g8 → write 8
        t=93 sees file=8 loaded=8 → loaded g8
        t=94 sees pid=2
        t=94 sees pid=102 → write 7, crashed g8: the router ended twice",
    );
}

#[test]
fn a_text_that_crashed_is_refused_for_good() {
    check_after(
        "t=70 sees pid=2
        t=70 sees pid=102 loaded=none → write 6, crashed g7: the router ended twice
        restart
        t=71 sees file=6 loaded=6
        target g7 → refused g7: this text failed here before",
    );
}

#[test]
fn a_router_that_ends_once_and_loads_the_text_again_keeps_it() {
    check_after(
        "t=70 sees pid=none loaded=none
        t=71 sees pid=2
        t=72 sees loaded=7 requests=0 errors=0
        t=99 sees
        t=100 sees
        t=101 sees pid=3
        target g8 → write 8
        t=102 sees file=8
        t=103 sees pid=none loaded=none
        t=104 sees
        t=105 sees
        t=106 sees → write 7, crashed g8: the router ended, and is not back",
    );
}

#[test]
fn an_end_is_remembered_by_an_agent_that_is_started_again() {
    check_after(
        "t=70 sees pid=2
        restart
        t=71 sees
        t=75 sees pid=3 → write 6, crashed g7: the router ended twice",
    );
}

#[test]
fn errors_of_the_process_after_an_end_count_from_its_start() {
    check_after(
        "t=70 sees pid=2 requests=10 errors=0
        t=72 sees requests=1000 errors=60 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn errors_that_double_put_the_old_text_back() {
    check_after(
        "t=63 sees requests=101000 errors=149
        t=64 sees requests=101000 errors=160 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn a_router_that_was_idle_is_not_blamed_for_its_first_errors() {
    check(
        "t=0 sees file=6 loaded=6 pid=1 requests=0 errors=0
        target g7 → write 7
        t=1 sees file=7 loaded=7 → loaded g7
        t=2 sees requests=10 errors=10
        t=3 sees requests=2000 errors=60
        t=4 sees requests=2000 errors=900 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn a_router_that_hangs_is_noticed_after_some_observations() {
    check_after(
        "t=63 sees loaded=none
        t=64 sees
        t=65 sees
        t=66 sees
        t=67 sees → write 6, crashed g7: the router does not answer",
    );
}

#[test]
fn a_router_that_never_loads_refuses() {
    check(
        "t=0 sees file=6 loaded=6 pid=1
        target g7 → write 7
        t=1 sees file=7
        t=89 sees
        t=90 sees → write 6, refused g7: it was not loaded",
    );
}

#[test]
fn a_restarted_agent_goes_on_and_watches_anew() {
    check_after(
        "restart
        t=100 sees
        t=129 sees
        t=130 sees pid=2
        t=130 sees pid=102 → write 6, crashed g7: the router ended twice",
    );
    check(
        "t=0 sees file=6 loaded=6 pid=1
        target g7 → write 7
        restart
        t=5 sees → write 7
        t=6 sees file=7 loaded=7 → loaded g7",
    );
}

#[test]
fn an_agent_that_ended_before_the_old_text_was_back_puts_it_back() {
    check_after(
        "t=70 sees pid=2
        t=70 sees pid=102 → write 6, crashed g7: the router ended twice
        restart
        t=71 sees → write 6
        t=72 sees file=6",
    );
}

#[test]
fn a_clock_that_stands_still_ends_no_probation_and_hides_no_crash() {
    check_after(
        "t=62 sees
        t=62 sees
        t=10 sees
        t=62 sees pid=2
        t=62 sees pid=102 → write 6, crashed g7: the router ended twice",
    );
}

#[test]
fn a_foreign_file_stays_as_it_is() {
    check_after(
        "t=63 sees file=99 → foreign 99
        t=64 sees pid=2
        target g8
        t=65 sees file=6
        target g8 → write 8",
    );
}

#[test]
fn a_file_that_is_put_back_is_the_agents_again_and_the_router_says_what_it_has() {
    // The last good text.
    check_after(
        "t=93 sees
        t=100 sees file=99 → foreign 99
        t=101 sees loaded=99
        t=102 sees file=7
        t=103 sees loaded=7 → loaded g7
        t=104 sees",
    );
    // One on probation: its time begins anew.
    check_after(
        "t=63 sees file=99 loaded=99 → foreign 99
        t=64 sees file=7
        t=65 sees loaded=7 → loaded g7
        t=94 sees
        t=96 sees
        t=97 sees pid=2
        t=98 sees pid=3",
    );
    // The text before one on probation, which is what the next generation stands on.
    check_after(
        "t=93 sees
        target g8 → write 8
        t=94 sees file=8 loaded=8 → loaded g8
        t=95 sees file=99 → foreign 99
        t=96 sees file=7 loaded=7 → loaded g7
        target g8 → write 8",
    );
}

#[test]
fn whoever_takes_a_file_away_that_he_has_written_gives_it_back() {
    check_after(
        "t=93 sees
        t=100 sees file=99 loaded=99 → foreign 99
        t=101 sees file=none → write 7
        t=102 sees file=7
        t=103 sees loaded=7 → loaded g7",
    );
    check_after(
        "t=63 sees file=99 loaded=99 → foreign 99
        t=64 sees file=none → write 7
        t=65 sees file=7 loaded=7 → loaded g7",
    );
    // What was there before the first generation was never sent: there is nothing to write.
    check(
        "t=0 sees file=6 loaded=6 pid=1
        t=1 sees file=99 → foreign 99
        t=2 sees file=none → loaded g0",
    );
}

#[test]
fn an_older_generation_is_ignored() {
    check_after(
        "target g7
        target g5",
    );
}

#[test]
fn a_text_that_fails_is_replaced_by_the_one_before_it_although_that_is_on_probation() {
    check_after(
        "target g8 → write 8
         t=63 sees file=8
         t=64 sees loaded=8 → loaded g8
         t=65 sees loaded=none pid=2
         t=65 sees pid=102 → write 7, crashed g8: the router ended twice
         restart
         t=66 sees file=7
         t=67 sees loaded=7
         t=70 sees loaded=none pid=3
         t=70 sees pid=103 → write 6, crashed g7: the router ended twice
         t=71 sees file=6 loaded=6",
    );
}

#[test]
fn a_text_that_was_put_back_becomes_good_after_its_time() {
    check_after(
        "target g8 → write 8
         t=63 sees file=8
         t=64 sees loaded=none pid=2
         t=64 sees pid=102 → write 7, crashed g8: the router ended twice
         t=66 sees file=7 loaded=7
         t=97 sees
         target g9 → write 9
         t=98 sees file=9
         t=99 sees loaded=9 → loaded g9
         t=100 sees loaded=none pid=4
         t=100 sees pid=104 → write 7, crashed g9: the router ended twice",
    );
}

#[test]
fn an_agent_that_ends_before_it_writes_knows_the_text_before_although_that_was_on_probation() {
    check_after(
        "target g8 → write 8
         restart
         t=65 sees → write 8
         t=66 sees file=8
         t=67 sees loaded=8 → loaded g8
         t=68 sees file=7 → foreign 7",
    );
}

#[test]
fn a_generation_that_goes_back_to_the_text_that_was_put_back_is_loaded_with_it() {
    check_after(
        "target g8 → write 8
         t=63 sees file=8
         t=64 sees loaded=none pid=2
         t=64 sees pid=102 → write 7, crashed g8: the router ended twice
         target g9=7
         t=66 sees file=7
         t=67 sees loaded=7 → loaded g9",
    );
    check_after(
        "target g8 → write 8
         t=63 sees file=8
         t=64 sees loaded=none pid=2
         t=64 sees pid=102 → write 7, crashed g8: the router ended twice
         t=66 sees file=7
         t=67 sees loaded=7
         target g9=7 → loaded g9",
    );
}
