//! Auto-discovery: the list of routers that clients are told.

use ::protocol::discovery::{DiscoveryList, DiscoveryState};

use super::*;

fn discovering() -> Conversation {
    Conversation::with_settings(ONE, Settings { discovers: true, ..Settings::default() })
}

impl Conversation {
    fn tell(&self, file: &str) {
        let list = DiscoveryList::parse(file.as_bytes()).expect("a list");
        let state = DiscoveryState { list: Some(Arc::new(list)), is_current: true, refusals: 2 };
        self.shared.set_discovery(state);
    }

    /// What a client gets for a line; the server answers with `END`.
    #[track_caller]
    fn check_discovery(&mut self, line: &str, asked: &str, expected: &str) {
        let client = self.clients[0];
        self.send(client, &format!("{line}\\r\\n"));
        if !asked.is_empty() {
            self.play(&format!("a> {asked}\na< END"));
        }
        let received = std::mem::take(&mut self.world.handler::<End>(client).received);
        assert_eq!(received.escape_ascii().to_string(), expected, "{line}");
    }
}

#[test]
fn clients_are_told_the_routers_of_the_file() {
    let mut conversation = discovering();
    conversation.play("> mn\n< MN");
    conversation.tell("7\nr1||1\nr2||2\n");
    let list = r"14\r\n7\nr1||1 r2||2\n\r\n";
    let config = format!(r"CONFIG cluster 0 {list}END\r\n");
    let value = format!(r"VALUE AmazonElastiCache:cluster 0 {list}END\r\n");
    conversation.check_discovery("config get cluster", "", &config);
    conversation.check_discovery("get AmazonElastiCache:cluster", "", &value);
    conversation.check_discovery("get abc AmazonElastiCache:cluster", "get abc", &value);
    let key = "gets AmazonElastiCache:cluster";
    conversation.check_discovery(key, key, r"END\r\n");
    conversation.check_discovery("config set cluster 0 1", "", r"ERROR\r\n");
    conversation.tell("8\nr1||1\n");
    conversation.check_discovery("config get cluster", "", r"CONFIG cluster 0 8\r\n8\nr1||1\n\r\nEND\r\n");
    let stats = conversation.stats("detailed");
    let figure = |name: &str| stats[name].clone();
    assert_eq!(figure("evenkeel_cluster_revision"), "8");
    assert_eq!(figure("evenkeel_cluster_members"), "1");
    assert_eq!(figure("evenkeel_cluster_file_current"), "1");
    assert_eq!(figure("evenkeel_cluster_file_refused"), "2");
    assert_eq!(conversation.sample("evenkeel_route_cluster_revision{}"), 8.0);
    conversation.end();
}

const UNKNOWN: &str = "> config get cluster
     < ERROR
     > get AmazonElastiCache:cluster
     a> get AmazonElastiCache:cluster
     a< END
     < END";

#[test]
fn without_a_list_the_requests_are_unknown() {
    let mut conversation = discovering();
    conversation.play(UNKNOWN);
    conversation.end();
    play(ONE, UNKNOWN);
}
