//! New configurations under load.

use super::*;

/// Configurations that are put in force; after each comes one that cannot be used.
const CHANGES: usize = 100;

#[test]
fn a_hundred_changes_under_load_lose_no_request() {
    let servers = [evenkeel(), evenkeel(), evenkeel()];
    let folder = Folder::new();
    let in_force = "a new configuration is in force";
    let refused = "the configuration stays as it was";
    let good = [
        pool(&servers[..1]),
        pool(&servers),
        pool(&servers[1..])
            .replace("\"PoolRoute|A\"", r#"{"type": "FailoverRoute", "children": ["PoolRoute|A"]}"#),
        pool(&servers).replace("\"PoolRoute|A\"", r#"{"type": "AllSyncRoute", "children": ["PoolRoute|A"]}"#),
    ];
    let bad = ["{", "{}", r#"{"route": "PoolRoute|none"}"#, r#"{"route": "NoSuchRoute|A"}"#];
    let path = folder.write("route.json", &good[0]);
    let file = format!("file:{}", path.display());
    let router = router(&file, &["--num-proxies=2", "--disable-reload-configs"]);
    let keys = || (0..50).map(|number| format!("key{number}")).collect();
    let loads: Vec<OpenLoop> = (0..2)
        .map(|_| OpenLoop::start(router.connect().expect("a connection"), keys()).expect("a load"))
        .collect();
    let count = |text: &str| router.said().matches(text).count();
    let read = |text: &str, line: &str| {
        let before = count(line);
        folder.write("route.json", text);
        let pid = Pid::from_raw(router.pid() as i32).expect("an id");
        kill_process(pid, Signal::HUP).expect("send a signal");
        let seen = clock::wait_for(|| (count(line) > before).then_some(()));
        assert!(seen.is_some(), "{text} is read: {}", router.said());
    };
    for number in 0..CHANGES {
        read(&good[(number + 1) % good.len()], in_force);
        read(bad[number % bad.len()], refused);
        loads.iter().for_each(|load| load.go_on_for(1).expect("answers"));
    }
    let mut requests = 0;
    for load in loads {
        let all = load.stop().expect("an answer to each");
        assert!(all.iter().all(|request| !request.is_error()), "{all:?}");
        requests += all.len();
    }
    println!("{requests} requests, {CHANGES} changes");
}
