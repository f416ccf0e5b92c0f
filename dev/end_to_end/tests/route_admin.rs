//! The router, watched: `stats`, `get __mcrouter__.…`, metrics, its files.

use end_to_end::bystander::{Bystander, Client};
use end_to_end::clients;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use stdx::exposition::read;

/// A folder for as long as this value exists.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-route-admin-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("make a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// In one step.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).expect("write");
        fs::rename(self.path("new"), self.path(name)).expect("rename");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn evenkeel() -> Server {
    Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &["-m", "64"]).expect("a server")
}

/// One pool of these addresses.
fn pool<'a>(servers: impl IntoIterator<Item = &'a str>) -> String {
    let servers: Vec<String> = servers.into_iter().map(|server| format!("\"{server}\"")).collect();
    format!(r#"{{"pools": {{"A": {{"servers": [{}]}}}}, "route": "PoolRoute|A"}}"#, servers.join(", "))
}

fn router(config: &Path, flags: &[&str]) -> Server {
    let config = format!("--config=file:{}", config.display());
    Server::start_router(&[&[&*config][..], flags].concat()).expect("a router")
}

/// Sends a line, and reads until `END`.
fn ask(router: &Server, line: &str) -> String {
    let mut stream = router.connect().expect("a connection");
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("send");
    let mut text = Vec::new();
    let mut part = [0; 65536];
    while !text.ends_with(b"END\r\n") {
        let count = stream.read(&mut part).expect("an answer");
        assert!(count > 0, "closed after {}", text.escape_ascii());
        text.extend_from_slice(&part[..count]);
    }
    String::from_utf8(text).expect("text")
}

/// The value of one key about the router.
#[track_caller]
fn about(router: &Server, request: &str) -> String {
    let reply = ask(router, &format!("get __mcrouter__.{request}"));
    let (head, rest) = reply.split_once("\r\n").expect("a line");
    let len = head.rsplit(' ').next().and_then(|len| len.parse().ok()).unwrap_or_else(|| panic!("{reply}"));
    rest[..len].to_owned()
}

#[track_caller]
fn stat(router: &Server, group: &str, name: &str) -> String {
    let stats = ask(router, &format!("stats {group}"));
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {stats}")).to_owned()
}

/// The address of the endpoint, from the line at the start.
fn endpoint(router: &Server) -> SocketAddr {
    let address = || {
        let said = router.said();
        let (_, behind) = said.split_once("metrics at http://")?;
        behind.split_once("/metrics")?.0.parse().ok()
    };
    clock::wait_for(address).expect("the line at the start names it")
}

/// A page, after its head.
fn fetch(address: SocketAddr, path: &str) -> String {
    let (head, body) = answer(address, path);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body
}

/// The head of an answer, and what follows it.
fn answer(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(clock::PATIENCE)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("send");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer in text");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Waits until this is so.
#[track_caller]
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    assert!(clock::wait_for(|| ready().then_some(())).is_some(), "{what}");
}

#[test]
fn a_router_tells_what_it_has_done() {
    let (servers, folder) = ([evenkeel(), evenkeel()], Folder::new());
    let addresses = servers.each_ref().map(|server| server.address().to_string());
    let config = pool(addresses.iter().map(String::as_str));
    folder.write("route.json", &config);
    let router = router(&folder.path("route.json"), &["--num-proxies=2", "--metrics-listen=127.0.0.1:0"]);
    let mut client = Client::new(router.connect().expect("a connection"));
    for number in 0..20 {
        let set = format!("set key{number} 0 0 1\r\nx\r\n");
        assert_eq!(client.ask(set.as_bytes()).expect("an answer"), "STORED");
    }
    assert_eq!(client.ask(b"get nothing\r\n").expect("an answer"), "END");

    assert_eq!(stat(&router, "", "cmd_set_count"), "20");
    assert_eq!(stat(&router, "count", "request_sent_count"), "21");
    assert_eq!(stat(&router, "all", "num_servers_up"), "2");
    assert_eq!(stat(&router, "all", "pid"), router.pid().to_string());
    assert!(stat(&router, "", "commandargs").starts_with("route -p "));
    assert!(stat(&router, "", "ps_rss").parse::<u64>().expect("a number") > 1_000_000);
    let per_server = ask(&router, "stats servers");
    assert_eq!(per_server.lines().count(), 3, "{per_server}");
    let stored: u64 = per_server
        .split("stored:")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(stored, 20, "{per_server}");

    assert_eq!(about(&router, "config_file"), folder.path("route.json").display().to_string());
    assert!(addresses.contains(&about(&router, "route(get,key1)")));
    let digest = about(&router, "config_md5_digest");
    assert_eq!(digest.len(), 32, "{digest}");
    assert!(about(&router, "config_sources_info").contains(&digest));
    assert!(about(&router, "preprocessed_config").contains("\"route\": \"PoolRoute|A\""));
    assert!(about(&router, "global_params").contains("\"num-proxies\": 2"));
    assert_eq!(about(&router, "options(num_proxies)"), "2");
    assert!(about(&router, "hostid").parse::<u32>().is_ok());
    assert!(about(&router, "config_age").parse::<u32>().is_ok());

    let address = endpoint(&router);
    let text = fetch(address, "/metrics");
    let families = read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
    let sum = |name: &str| -> f64 {
        let samples = families.iter().flat_map(|family| &family.samples);
        samples.filter(|sample| sample.name == name).map(|sample| sample.value).sum()
    };
    assert_eq!(sum("evenkeel_route_requests_total"), 21.0);
    assert_eq!(sum("evenkeel_route_server_latency_seconds_count"), 21.0);
    assert_eq!(sum("evenkeel_route_pool_servers"), 2.0);
    assert_eq!(sum("mcrouter_command_count"), 21.0);
    assert!(sum("evenkeel_route_bytes_total") > 1000.0 && sum("mcrouter_resident_memory_bytes") > 1e6);
    assert_eq!(fetch(address, "/readyz"), "ready\n");
    assert!(fetch(address, "/api/v1/stats").contains("\"cmd_set_count\": 20"));
    let servers: String = fetch(address, "/api/v1/servers").split_whitespace().collect();
    assert!(addresses.iter().all(|server| servers.contains(&format!("\"{server}\":{{"))), "{servers}");
    assert_eq!(servers.matches("\"available\":true").count(), 2, "{servers}");
    assert_eq!(stat(&router, "count", "get_misses_count"), "1");

    let top = std::process::Command::new(end_to_end::subject::router().get_program())
        .args(["top", "--once", "--json", &address.to_string()])
        .output()
        .expect("run top");
    let shown = String::from_utf8_lossy(&top.stdout);
    for figure in [
        "\"unavailable_servers\": 0,",
        "\"connections_up\": 2,",
        "\"hit_ratio\": null,",
        "\"errors_per_s\": 0.0,",
    ] {
        assert!(shown.contains(figure), "{figure}: {shown}");
    }
    assert!(shown.contains(&format!("\"router\": \"{address}\"")), "{shown}");
    assert_eq!(top.status.code(), Some(0), "{shown}");

    // Another configuration has another digest, and is counted.
    folder.write("route.json", &format!("{config}  // changed"));
    until("another digest", || about(&router, "config_md5_digest") != digest);
    assert_eq!(stat(&router, "all", "config_full_attempt"), "2");
    folder.write("route.json", "{");
    until("a failure", || stat(&router, "all", "config_failures") == "1");
    drop(servers);
}

#[test]
fn hot_keys_are_a_page_unless_they_are_hidden() {
    let (server, folder) = (evenkeel(), Folder::new());
    let config = pool([&*server.address().to_string()]);
    folder.write("route.json", &config.replace("]}", r#"], "hot_cache": {"ttl_ms": 10000}}"#));
    let metrics = "--metrics-listen=127.0.0.1:0";
    let open = router(&folder.path("route.json"), &[metrics]);
    let mut client = Client::new(open.connect().expect("a connection"));
    assert_eq!(client.ask(b"set hot 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
    for _ in 0..100 {
        assert_eq!(client.ask(b"get hot\r\n").expect("an answer"), "VALUE hot 0 1");
        assert_eq!(client.line().expect("a value") + &client.line().expect("the end"), "xEND");
    }
    assert_eq!(client.ask(b"get warm<%22>\r\n").expect("an answer"), "END");
    let address = endpoint(&open);
    let (head, page) = answer(address, "/api/v1/hot_keys");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
    let number = |name: &str| -> f64 {
        let (_, after) =
            page.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("no {name}: {page}"));
        let end = after.find([',', '\n']).expect("an end");
        after[..end].parse().unwrap_or_else(|_| panic!("{name}: {page}"))
    };
    // The hottest is the first of the list.
    assert_eq!(number("requests"), 102.0);
    assert!((number("share") - 101.0 / 102.0).abs() < 1e-9, "{page}");
    assert!(number("share_min") <= number("share") && number("share") <= number("share_max"), "{page}");
    let keys: Vec<usize> = ["\"hot\"", "\"warm<%22>\""].map(|key| page.find(key).expect(key)).into();
    assert!(keys[0] < keys[1], "{page}");
    assert!(page.contains("\"hot_cache\": true") && page.contains("\"hot_cache\": false"), "{page}");
    assert_eq!(stat(&open, "hot", "1:hot_cache"), "1");
    assert_eq!(stat(&open, "hot", "1:key"), "hot");

    let hidden = router(&folder.path("route.json"), &[metrics, "--hide-hot-keys"]);
    let (head, page) = answer(endpoint(&hidden), "/api/v1/hot_keys");
    assert!(head.starts_with("HTTP/1.1 404 ") && !page.contains("share"), "{head}: {page}");
}

#[test]
fn pymemcache_reads_the_statistics() {
    let (server, folder) = (evenkeel(), Folder::new());
    folder.write("route.json", &pool([&*server.address().to_string()]));
    let router = router(&folder.path("route.json"), &[]);
    clients::passes(clients::python("pymemcache_route_stats.py"), &router).expect("it passes");
}

#[test]
fn clients_that_ask_in_a_loop_delay_nobody_for_long() {
    let (server, folder) = (evenkeel(), Folder::new());
    let address = server.address().to_string();
    // Most of these are never asked for anything.
    let others: Vec<String> = (1..2000).map(|port| format!("127.0.0.1:{port}")).collect();
    let others = others.iter().map(|other| format!("\"{other}\"")).collect::<Vec<_>>().join(", ");
    folder.write(
        "route.json",
        &format!(
            r#"{{"pools": {{"A": {{"servers": ["{address}"]}}, "B": {{"servers": [{others}]}}}},
                "route": {{"type": "PrefixSelectorRoute", "policies": {{"none": "AllSyncRoute|Pool|B"}},
                    "wildcard": "PoolRoute|A"}}}}"#
        ),
    );
    // Whoever waits for a busy machine is no finding.
    let router = router(&folder.path("route.json"), &["-t", "60000"]);
    let bystander = Bystander::start(&router).expect("a bystander");
    let hostile: String = (0..20)
        .map(|number| {
            let rubbish = "x,(".repeat(60);
            format!(
                "stats servers\r\nstats all\r\nget __mcrouter__.route(get,none{number}{rubbish}) __mcrouter__.pools\r\n\
                 get __mcrouter__.route_handles(set,none{number})\r\n"
            )
        })
        .collect();
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let (mut stream, hostile) = (router.connect().expect("a connection"), hostile.clone());
            std::thread::spawn(move || {
                stream.write_all(hostile.as_bytes()).expect("send");
                let (mut ends, mut tail) = (0, Vec::new());
                let mut part = vec![0; 1 << 18];
                while ends < 80 {
                    let count = stream.read(&mut part).expect("an answer");
                    assert!(count > 0, "closed after {ends} answers");
                    tail.extend_from_slice(&part[..count]);
                    ends += tail.windows(7).filter(|window| window == b"\r\nEND\r\n").count();
                    let kept = tail.len().saturating_sub(6);
                    tail.drain(..kept);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("all its answers"));
    let experience = bystander.stop().expect("correct answers");
    assert!(experience.longest.as_millis() < 500, "{experience:?}");
}

/// Lines of a router with this text.
fn count(router: &Server, text: &str) -> usize {
    router.said().matches(text).count()
}

const IN_FORCE: &str = "a new configuration is in force";

#[test]
fn a_config_map_is_followed_and_a_thousand_changes_are_few_loads() {
    let (one, other, folder) = (evenkeel(), evenkeel(), Folder::new());
    // As Kubernetes mounts one: a link to a link to a folder that is swapped.
    let version = |name: &str, server: &Server| {
        let path = folder.path(name);
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("route.json"), pool([&*server.address().to_string()])).expect("write");
    };
    let swap = |name: &str| {
        let _ = fs::remove_file(folder.path("..tmp"));
        std::os::unix::fs::symlink(name, folder.path("..tmp")).expect("a link");
        fs::rename(folder.path("..tmp"), folder.path("..data")).expect("swap");
    };
    version("..1", &one);
    version("..2", &other);
    swap("..1");
    std::os::unix::fs::symlink("..data/route.json", folder.path("route.json")).expect("a link");
    let router = router(&folder.path("route.json"), &["--reconfiguration-delay-ms=0"]);
    let target = || about(&router, "route(get,a)");
    assert_eq!(target(), one.address().to_string());
    swap("..2");
    until("the other server", || target() == other.address().to_string());
    fs::remove_dir_all(folder.path("..1")).expect("remove");

    let before = count(&router, IN_FORCE);
    let began = clock::now();
    for number in 0..1000 {
        version(&format!("..{}", 3 + number % 2), if number % 2 == 0 { &one } else { &other });
        swap(&format!("..{}", 3 + number % 2));
    }
    let lasted = began.elapsed();
    version("..9", &one);
    swap("..9");
    until("the last one", || target() == one.address().to_string());
    // One in 100 ms at most.
    let loads = count(&router, IN_FORCE) - before;
    assert!(loads as u128 <= 4 + (began.elapsed().as_millis() / 100), "{loads} in {lasted:?}");
    drop((one, other));
}

#[test]
fn a_configuration_that_becomes_something_else_changes_nothing() {
    let (server, folder) = (evenkeel(), Folder::new());
    let config = pool([&*server.address().to_string()]);
    folder.write("route.json", &config);
    let file = folder.path("route.json");
    let router = router(&file, &["--reconfiguration-delay-ms=0"]);
    let works = || about(&router, "route(get,a)") == server.address().to_string();
    let replace = |what: &dyn Fn()| {
        let failures = stat(&router, "all", "config_failures");
        fs::remove_file(&file).or_else(|_| fs::remove_dir(&file)).expect("remove");
        what();
        until("another failure", || stat(&router, "all", "config_failures") != failures);
        assert!(works());
    };
    replace(&|| fs::create_dir(&file).expect("a folder"));
    replace(&|| {
        assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo").success());
    });
    replace(&|| std::os::unix::fs::symlink("/dev/zero", &file).expect("a link"));
    replace(&|| std::os::unix::fs::symlink("route.json", &file).expect("a link"));
    let said = router.said();
    assert!(said.contains("expected a file, found a folder, a fifo or a device"), "{said}");
    let before = count(&router, IN_FORCE);
    fs::remove_file(&file).expect("remove");
    folder.write("route.json", &config);
    until("the good one", || count(&router, IN_FORCE) > before);
    assert!(works());
}

#[test]
fn the_last_good_configuration_is_kept_and_used_at_a_start() {
    let (server, folder) = (evenkeel(), Folder::new());
    let config = pool([&*server.address().to_string()]);
    folder.write("route.json", &config);
    let root = format!("--config-dump-root={}", folder.path("dump").display());
    let flags = ["--router-name=r", "--service-name=s", &root, "--reconfiguration-delay-ms=0"];
    let first = router(&folder.path("route.json"), &flags);
    let copy = folder
        .path("dump/s/r")
        .join(format!("file-{}", folder.path("route.json").display().to_string().replace('/', "%2f")));
    until("a copy", || fs::read_to_string(&copy).is_ok_and(|text| text == config));
    folder.write("route.json", "{ not a configuration");
    until("a failure", || stat(&first, "all", "config_failures") == "1");
    drop(first);
    assert_eq!(fs::read_to_string(&copy).expect("the copy"), config, "a bad one is not kept");

    let second = router(&folder.path("route.json"), &flags);
    assert_eq!(about(&second, "route(get,a)"), server.address().to_string());
    assert_eq!(stat(&second, "all", "configs_from_disk"), "1");
    assert!(second.said().contains("the configuration is a copy of the last good one"), "{}", second.said());
    assert_eq!(fs::read_to_string(&copy).expect("the copy"), config);
    let better = format!("{config}  // better");
    folder.write("route.json", &better);
    until("the better one", || stat(&second, "all", "configs_from_disk") == "0");
    until("its copy", || fs::read_to_string(&copy).is_ok_and(|text| text == better));
    drop(second);

    folder.write("route.json", "{");
    let old = [&flags[..], &["--max-dumped-config-age=0", "-p", "0"]].concat();
    let config = format!("--config=file:{}", folder.path("route.json").display());
    clock::pass(std::time::Duration::from_millis(20));
    let output = end_to_end::subject::router().arg(config).args(old).output().expect("run a router");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn files_for_those_who_read_mcrouters_are_written_wherever_that_works() {
    let (server, folder) = (evenkeel(), Folder::new());
    folder.write("route.json", &pool([&*server.address().to_string()]));
    let root = folder.path("stats");
    let (stats, fifos) = (format!("--stats-root={}", root.display()), folder.path("fifos"));
    let fifo_flag = format!("--debug-fifo-root={}", fifos.display());
    let flags = ["--router-name=r", &stats, "--stats-logging-interval=100", &fifo_flag];
    let router = router(&folder.path("route.json"), &flags);
    let file = |name: &str| root.join(format!("libmcrouter.mcrouter.r.{name}"));
    let has = |name: &str, text: &str| fs::read_to_string(file(name)).is_ok_and(|found| found.contains(text));
    until("statistics", || has("stats", "\"libmcrouter.mcrouter.r.num_servers\": 1"));
    until("options", || has("startup_options", &format!("\"pid\": \"{}\"", router.pid())));
    until("sources", || has("config_sources_info", "\"config_file\""));
    use std::os::unix::fs::FileTypeExt;
    let is_fifo = |end: &str| {
        let path = fifos.join(format!("libmcrouter.mcrouter.r.{end}.debugfifo"));
        fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
    };
    assert!(is_fifo("client") && is_fifo("server"));

    // The folder vanishes, is a file for a while, and is a folder again.
    until("no folder", || fs::remove_dir_all(&root).is_ok());
    until("a folder again", || has("stats", "num_servers"));
    let complaint = "statistics are not written to";
    loop {
        let _ = fs::remove_dir_all(&root);
        if fs::write(&root, "no folder").is_ok() {
            break;
        }
    }
    until("a complaint", || count(&router, complaint) > 0);
    clock::pass(std::time::Duration::from_millis(500));
    assert!(
        count(&router, complaint) <= 2,
        "once, and once for a folder that was removed: {}",
        router.said()
    );
    fs::remove_file(&root).expect("remove");
    until("a folder again", || has("stats", "num_servers"));
    assert_eq!(about(&router, "version"), "1.6.45");
}

#[test]
fn pools_have_statistics_of_their_own_where_a_file_names_them() {
    let (servers, folder) = ([evenkeel(), evenkeel()], Folder::new());
    let [east, west] = servers.each_ref().map(|server| server.address().to_string());
    folder.write(
        "route.json",
        &format!(
            r#"{{"pools": {{"east": {{"servers": ["{east}"]}}, "west.1": {{"servers": ["{west}"]}}}},
                "route": {{"type": "PrefixSelectorRoute", "policies": {{"e": "PoolRoute|east"}}, "wildcard": "PoolRoute|west.1"}}}}"#
        ),
    );
    folder.write("pools.json", r#"{"stats_enabled_pools": ["west", "south", 5]}"#);
    let (root, pools) = (folder.path("stats"), folder.path("pools.json"));
    let pools_flag = format!("--pool-stats-config-file={}", pools.display());
    let root_flag = format!("--stats-root={}", root.display());
    let flags =
        ["--router-name=r", "--num-proxies=2", &root_flag, "--stats-logging-interval=100", &pools_flag];
    let router = router(&folder.path("route.json"), &flags);
    until("the name that is none", || {
        count(&router, "pools.json: line 1: expected the name of a pool, ") == 1
    });
    let mut client = Client::new(router.connect().expect("a connection"));
    for key in ["e1", "w1", "w2", "w3"] {
        assert_eq!(client.ask(format!("delete {key}\r\n").as_bytes()).expect("an answer"), "NOT_FOUND");
    }
    assert_eq!(stat(&router, "ods", "west.requests.sum"), "3");
    assert_eq!(stat(&router, "all", "west.connections"), "1");
    assert_eq!(stat(&router, "count", "south.requests.sum"), "0");
    for absent in ["east.", "west.1."] {
        assert!(!ask(&router, "stats all").contains(&format!("STAT {absent}requests")), "{absent}");
    }
    let stats = root.join("libmcrouter.mcrouter.r.stats");
    let in_file = |text: &str| fs::read_to_string(&stats).is_ok_and(|found| found.contains(text));
    until("the file", || in_file("\"libmcrouter.mcrouter.r.west.requests.sum\": 3,"));
    for name in ["final_result_error.sum", "duration_us.avg", "total_duration_us.avg"] {
        assert!(in_file(&format!("\"libmcrouter.mcrouter.r.west.{name}\": ")), "{name}");
    }
    assert_eq!(about(&router, "options(pool_stats_config_file)"), pools.display().to_string());

    // A file that is none is a line, and the router routes.
    fs::remove_file(&pools).expect("remove");
    let without = self::router(&folder.path("route.json"), &[&pools_flag]);
    until("a line", || count(&without, "--pool-stats-config-file: no pool has statistics of its own: ") == 1);
    assert!(!ask(&without, "stats all").contains("west.requests"));
}

#[test]
fn a_full_disk_is_a_line_and_not_an_end() {
    let (server, folder) = (evenkeel(), Folder::new());
    folder.write("route.json", &pool([&*server.address().to_string()]));
    // Writing there always fails: as on a full disk, also for root.
    let flags = ["--router-name=r", "--stats-root=/proc/evenkeel", "--stats-logging-interval=100"];
    let dump = ["--config-dump-root=/proc/evenkeel", "--debug-fifo-root=/proc/evenkeel"];
    let router = router(&folder.path("route.json"), &[&flags[..], &dump].concat());
    for line in
        ["statistics are not written to", "the configuration is not kept in", "there are no debug fifos in"]
    {
        until(line, || count(&router, line) == 1);
    }
    assert_eq!(about(&router, "route(get,a)"), server.address().to_string());
}

#[test]
fn flush_all_and_shutdown_do_what_mcrouter_does() {
    let (servers, folder) = ([evenkeel(), evenkeel()], Folder::new());
    let addresses = servers.each_ref().map(|server| server.address().to_string());
    folder.write("route.json", &pool(addresses.iter().map(String::as_str)));
    let mut router = router(&folder.path("route.json"), &["--enable-flush-cmd"]);
    let mut client = Client::new(router.connect().expect("a connection"));
    for number in 0..20 {
        client.ask(format!("set key{number} 0 0 1\r\nx\r\n").as_bytes()).expect("an answer");
    }
    assert_eq!(client.ask(b"flush_all\r\n").expect("an answer"), "OK");
    for number in 0..20 {
        let reply = client.ask(format!("get key{number}\r\n").as_bytes()).expect("an answer");
        assert_eq!(reply, "END", "key{number}");
    }
    let mut stream = router.connect().expect("a connection");
    stream.write_all(b"shutdown\r\n").expect("send");
    assert_eq!(router.wait().expect("a status"), 0);
    drop(servers);
}
