//! Hot keys: that they are found and shown, and what keys of hostile clients do to the lists.

use super::*;

impl Conversation {
    /// The client asks for each of these keys, and nobody has it.
    fn ask<'k>(&mut self, keys: impl Iterator<Item = &'k str>) {
        for key in keys {
            self.play(&format!("> get {key}"));
            let (server, client) = (self.host("a"), self.clients[0]);
            self.world.handler::<End>(server).received.clear();
            self.send(server, "END\\r\\n");
            self.world.handler::<End>(client).received.clear();
        }
    }

    pub(crate) fn hot_facts(&self) -> ReportFacts {
        ReportFacts { now: self.world.now(), unix_s: 1000, process: ProcessFacts::default() }
    }

    /// The lines of `stats hot`.
    pub(crate) fn hot_lines(&mut self) -> Vec<String> {
        self.play("> stats hot");
        let client = self.clients[0];
        let received = std::mem::take(&mut self.world.handler::<End>(client).received);
        let text = String::from_utf8(received).expect("readable text");
        text.split("\r\n").map(str::to_owned).collect()
    }
}

#[test]
fn the_keys_with_most_requests_are_listed_with_their_shares() {
    let mut conversation = Conversation::new(ONE);
    conversation.ask(["hot", "warm", "hot", "hot"].into_iter());
    let lines = conversation.hot_lines();
    for line in [
        "STAT requests 4",
        "STAT 1:key hot",
        "STAT 1:percent 75.00",
        "STAT 2:key warm",
        "STAT 2:percent 25.00",
        "END",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:?}");
    }
    let json = conversation.shared.hot_keys_json(&conversation.hot_facts()).expect("a list");
    assert!(json.contains(r#""key": "hot""#) && json.contains(r#""share": 0.75"#), "{json}");
    assert_eq!(conversation.sample("evenkeel_route_hot_key_share{key=hot}"), 0.75);
}

#[test]
fn what_several_workers_have_sampled_is_added_up() {
    let shared = Arc::new(RouterShared::new(Settings::default(), RoutePlan::default()));
    for (seed, others) in [(1, ["one", "two"]), (2, ["three", "four"])] {
        let mut worker = RouteWorker::new(Arc::clone(&shared), seed);
        for key in others.into_iter().chain(["hot", "hot"]) {
            worker.samples.count(key.as_bytes(), worker.now);
        }
    }
    let hot = crate::reports::hot_keys::hottest(&shared, stdx::clock::Now::default()).expect("a list");
    assert_eq!((hot.accesses, hot.requests.len()), (8, 5));
    assert_eq!((&*hot.requests[0].key, hot.requests[0].share), (&b"hot"[..], 0.5));
}

#[test]
fn each_key_of_a_multiget_and_of_a_meta_request_counts_with_its_prefix() {
    let mut conversation = play(
        ONE,
        "> get one two
         a> get one two
         a< END
         < END
         > mg /././one v
         a> mg one v O1
         a< EN O1
         < EN",
    );
    let lines = conversation.hot_lines();
    assert!(lines.contains(&"STAT requests 3".to_owned()), "{lines:?}");
    for key in ["one", "two", "/././one"] {
        assert!(lines.iter().any(|line| line.ends_with(&format!(":key {key}"))), "{key}: {lines:?}");
    }
}

#[test]
fn a_key_gives_no_orders_to_a_terminal_a_page_or_a_quoted_text() {
    let mut conversation = Conversation::new(ONE);
    conversation.ask(["\u{1b}[2J\u{7f}", "a\"}1", "b\\"].into_iter());
    let lines = conversation.hot_lines();
    assert!(lines.iter().all(|line| !line.chars().any(char::is_control)), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(":key %1B[2J%7F")), "{lines:?}");
    let json = conversation.shared.hot_keys_json(&conversation.hot_facts()).expect("a list");
    assert!(parse(0, json.as_bytes()).is_ok(), "{json}");
    // The family is read as Prometheus reads it.
    let families = conversation.families();
    let family = families.iter().find(|family| family.name == "evenkeel_route_hot_key_share");
    assert_eq!(family.expect("the family").samples.len(), 3);
}

#[test]
fn at_most_thirty_two_keys_are_listed() {
    let mut conversation = Conversation::new(ONE);
    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    conversation.ask(keys.iter().map(String::as_str));
    let lines = conversation.hot_lines();
    assert_eq!(lines.iter().filter(|line| line.contains(":key ")).count(), 32);
}

#[test]
fn a_client_that_cycles_through_keys_does_not_wash_a_hot_one_away() {
    let mut conversation = Conversation::new(ONE);
    let keys: Vec<String> = (0..2000)
        .map(|number| if number % 10 == 0 { "hot".to_owned() } else { format!("cycle{number}") })
        .collect();
    conversation.ask(keys.iter().map(String::as_str));
    let lines = conversation.hot_lines();
    assert!(lines.contains(&"STAT 1:key hot".to_owned()), "{lines:?}");
}

#[test]
fn keys_that_nobody_asks_for_any_more_leave_the_list_after_two_windows() {
    let mut conversation = Conversation::new(ONE);
    conversation.ask(["hot"; 5].into_iter());
    conversation.play("wait 11000");
    let lines = conversation.hot_lines();
    assert!(lines.contains(&"STAT requests 0".to_owned()), "{lines:?}");
}

#[test]
fn hidden_keys_are_shown_nowhere() {
    let settings = Settings { shows_hot_keys: false, ..Settings::default() };
    let mut conversation = Conversation::with_settings(ONE, settings);
    conversation.ask(["secret"; 5].into_iter());
    let lines = conversation.hot_lines();
    assert_eq!(lines, ["STAT hidden hot keys are hidden (--hide-hot-keys)", "END", ""]);
    conversation.play(
        "> get __mcrouter__.hot_keys
         < VALUE __mcrouter__.hot_keys 0 44
         < ERROR: hot keys are hidden (--hide-hot-keys)
         < END",
    );
    assert_eq!(conversation.shared.hot_keys_json(&conversation.hot_facts()), None);
    assert!(conversation.families().iter().all(|family| !family.name.contains("hot_key")));
}
