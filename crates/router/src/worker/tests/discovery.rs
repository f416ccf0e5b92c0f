//! Auto-discovery: the list of routers that clients are told.

use ::protocol::discovery::{DiscoveryList, DiscoveryState};

use super::*;

fn discovering() -> Conversation {
    Conversation::with_settings(ONE, Settings { discovers: true, ..Settings::default() })
}

fn tell(conversation: &Conversation, file: &str) {
    let list = DiscoveryList::parse(file.as_bytes()).expect("a list");
    let state = DiscoveryState { list: Some(Arc::new(list)), is_current: true, refusals: 2 };
    conversation.shared.set_discovery(state);
}

#[test]
fn clients_are_told_the_routers_of_the_file() {
    let mut conversation = discovering();
    tell(&conversation, "7\nr1||1\nr2||2\n");
    conversation.play(
        "> config get cluster
         < CONFIG cluster 0 16
         < 7\\nr1||1 r2||2\\n
         < END
         > get AmazonElastiCache:cluster
         < VALUE AmazonElastiCache:cluster 0 16
         < 7\\nr1||1 r2||2\\n
         < END
         > get abc AmazonElastiCache:cluster
         a> get abc
         a< END
         < VALUE AmazonElastiCache:cluster 0 16
         < 7\\nr1||1 r2||2\\n
         < END
         > gets AmazonElastiCache:cluster
         a> gets AmazonElastiCache:cluster
         a< END
         < END
         > config set cluster 0 1
         < ERROR",
    );
    tell(&conversation, "8\nr1||1\n");
    conversation.play(
        "> config get cluster
         < CONFIG cluster 0 9
         < 8\\nr1||1\\n
         < END",
    );
    let stats = conversation.stats("detailed");
    let figure = |name: &str| stats[name].clone();
    assert_eq!(figure("evenkeel_cluster_revision"), "8");
    assert_eq!(figure("evenkeel_cluster_members"), "1");
    assert_eq!(figure("evenkeel_cluster_file_current"), "1");
    assert_eq!(figure("evenkeel_cluster_file_refused"), "2");
    assert_eq!(conversation.sample("evenkeel_route_cluster_revision"), 8.0);
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
