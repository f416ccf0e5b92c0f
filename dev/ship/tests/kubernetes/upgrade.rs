//! Upgrades of a release on a real Kubernetes, under load: by `helm upgrade`, whose Job does it, and by the verb from outside.

use super::cluster::{Cluster, is_ready, until};
use super::traffic::{Asking, ITEMS, Seen, fill};
use crate::tools::binary;
use checkout::workspace;
use os::clock::{Stopwatch, pause};
use serde_json::Value;
use ship::chart::CHART;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Two servers with room for all items.
const VALUES: &str = "replicaCount: 2\nmemory: 256Mi\nrouter: {kind: none}\nresources: {requests: {cpu: 50m}}\nwarmUpgrade: {enabled: true, job: {patience: 120}}\n";

/// The servers' pods.
const PODS: [&str; 2] = ["cache-evenkeel-0", "cache-evenkeel-1"];

/// The namespace.
const NAMESPACE: &str = "cache";

/// What there is of a pod, that an upgrade in place leaves as it is or changes.
#[derive(Clone, Debug, PartialEq)]
struct PodNow {
    uid: String,
    address: SocketAddr,
    image: String,
    restarts: u64,
}

impl PodNow {
    fn of(cluster: &Cluster, name: &str) -> PodNow {
        let pod = cluster.object("pod", &format!("{NAMESPACE}/{name}")).expect("a pod");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let address = format!("{}:11211", text(&pod["status"]["podIP"]));
        PodNow {
            uid: text(&pod["metadata"]["uid"]),
            address: address.parse().unwrap_or_else(|error| panic!("{address}: {error}")),
            image: text(&pod["spec"]["containers"][0]["image"]),
            restarts: pod["status"]["containerStatuses"][0]["restartCount"].as_u64().expect("a number"),
        }
    }

    fn all(cluster: &Cluster) -> Vec<PodNow> {
        PODS.iter().map(|name| PodNow::of(cluster, name)).collect()
    }

    /// A statistic of its server.
    fn statistic(&self, name: &str) -> String {
        let stream = TcpStream::connect(self.address).expect("a server");
        (&stream)
            .write_all(if name == "num_threads" { b"stats settings\r\n" } else { b"stats\r\n" })
            .expect("a server");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("a server"));
        let mut found = lines
            .take_while(|line| line != "END")
            .filter_map(|line| line.strip_prefix(&format!("STAT {name} ")).map(str::to_owned));
        found.next().unwrap_or_else(|| panic!("there is no statistic {name}"))
    }
}

/// All of them, one after the other, on one release.
pub(super) fn all(cluster: &Cluster) {
    cluster.told(&["create", "namespace", NAMESPACE]);
    cluster.told(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]);
    install(cluster);
    let image = |tag: &str| format!("image.tag={tag}");
    let by_image = restarted(cluster, "another image", &|| helm(cluster, &[&image("0.1.1")]));
    assert!(by_image.iter().all(|pod| pod.image == "evenkeel/evenkeel:0.1.1"), "{by_image:?}");
    let by_flags = restarted(cluster, "other flags", &|| helm(cluster, &[&image("0.1.1"), "threads=1"]));
    assert!(
        by_flags.iter().all(|pod| pod.image.starts_with("evenkeel/evenkeel:0.1.1@sha256:")),
        "{by_flags:?}"
    );
    assert!(by_flags.iter().all(|pod| pod.statistic("num_threads") == "1"));
    let both = restarted(cluster, "another image and other flags", &|| {
        helm(cluster, &[&image("0.1.0"), "threads=2"])
    });
    assert!(
        both.iter().all(|pod| pod.image == "evenkeel/evenkeel:0.1.0" && pod.statistic("num_threads") == "2")
    );
    nothing_to_do(cluster);
    by_hand(cluster);
    an_image_that_nobody_has(cluster);
    a_server_that_cannot_start(cluster);
    a_server_that_came_back_empty(cluster);
    an_upgrade_that_is_killed_again_and_again(cluster);
    pod_security(cluster);
}

fn install(cluster: &Cluster) {
    let values = cluster.file("values.yaml", VALUES);
    let chart = workspace().join(CHART);
    let clock = Stopwatch::start();
    let (done, said) = cluster.helm(&[
        "install",
        "cache",
        &chart.display().to_string(),
        "--namespace",
        NAMESPACE,
        "--values",
        &values.display().to_string(),
    ]);
    assert!(done, "{said}");
    until("servers that are ready", || {
        PODS.iter().all(|name| {
            cluster.object("pod", &format!("{NAMESPACE}/{name}")).is_some_and(|pod| is_ready(&pod))
        })
    });
    let first = PodNow::all(cluster);
    first.iter().for_each(|pod| drop(pod.statistic("version")));
    println!("{:.1} s from the chart to replies of both servers", clock.passed().as_secs_f64());
    first.iter().for_each(|pod| fill(pod.address));
}

/// An upgrade of the release with these settings; returns all that was said.
fn upgrade(cluster: &Cluster, settings: &[&str], timeout: &str) -> (bool, String) {
    let (chart, values) = (workspace().join(CHART), cluster.file("values.yaml", VALUES));
    let (chart, values) = (chart.display().to_string(), values.display().to_string());
    let mut words =
        vec!["upgrade", "cache", &chart, "--namespace", NAMESPACE, "--values", &values, "--timeout", timeout];
    settings.iter().for_each(|setting| words.extend(["--set", setting]));
    cluster.helm(&words)
}

fn helm(cluster: &Cluster, settings: &[&str]) {
    let (done, said) = upgrade(cluster, settings, "10m");
    assert!(done, "{said}");
}

/// Does something under load that restarts each server once, and checks that nothing else has happened to them.
#[track_caller]
fn restarted(cluster: &Cluster, what: &str, act: &dyn Fn()) -> Vec<PodNow> {
    let before = PodNow::all(cluster);
    let clients: Vec<Asking> = before.iter().map(|pod| Asking::start(pod.address)).collect();
    act();
    let seen: Vec<Seen> = clients.into_iter().map(Asking::end).collect();
    let after = PodNow::all(cluster);
    for ((before, after), (seen, name)) in before.iter().zip(&after).zip(seen.iter().zip(PODS)) {
        let Seen { hits, misses, failures, longest_gap } = seen;
        println!(
            "{what}: {name}: {hits} hits, {misses} misses, {failures} failures, longest gap {:.2} s",
            longest_gap.as_secs_f64()
        );
        assert_eq!(
            (&after.uid, after.address, after.restarts),
            (&before.uid, before.address, before.restarts + 1),
            "{name}"
        );
        assert_eq!(after.statistic("curr_items"), ITEMS.to_string(), "{name}");
        assert_eq!(*misses, 0, "{name}");
        assert!(*hits > 100, "{name}");
    }
    after
}

/// An upgrade that changes nothing restarts nothing.
fn nothing_to_do(cluster: &Cluster) {
    let before = PodNow::all(cluster);
    helm(cluster, &["image.tag=0.1.0", "threads=2"]);
    assert_eq!(PodNow::all(cluster), before);
}

/// docs/kubernetes.md, "By hand": through `kubectl proxy`, and with kubectl alone.
fn by_hand(cluster: &Cluster) {
    let mut proxy =
        cluster.kubectl_command(&["proxy", "--port=8001"]).stdout(Stdio::null()).spawn().expect("kubectl");
    until("kubectl proxy", || TcpStream::connect("127.0.0.1:8001").is_ok());
    want_image(cluster, "evenkeel/evenkeel:0.1.1");
    let typed = [
        "kube",
        "warm-upgrade",
        "cache-evenkeel",
        "--namespace",
        "cache",
        "--server",
        "http://127.0.0.1:8001",
    ];
    for (more, expected) in [(Some("--dry-run"), "nothing was changed"), (None, "2 of them were restarted")] {
        let output = Command::new(binary().expect("it was there"))
            .args(typed)
            .args(more)
            .output()
            .expect("the binary");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(expected), "{said}");
    }
    proxy.kill().expect("a child");
    proxy.wait().expect("a child");
    want_image(cluster, "evenkeel/evenkeel:0.1.0");
    let patch =
        r#"[{"op": "replace", "path": "/spec/containers/0/image", "value": "evenkeel/evenkeel:0.1.0"}]"#;
    for name in PODS {
        let before = PodNow::of(cluster, name);
        cluster.told(&["-n", NAMESPACE, "patch", "pod", name, "--type=json", "-p", patch]);
        // "look again"
        until("the new container", || PodNow::of(cluster, name).restarts > before.restarts);
        cluster.told(&[
            "-n",
            NAMESPACE,
            "wait",
            &format!("pod/{name}"),
            "--for=condition=Ready",
            "--timeout=5m",
        ]);
        let said = cluster.told(&["-n", NAMESPACE, "logs", name, "--tail=5"]);
        assert!(said.contains(&format!("with {ITEMS} items of the last server")), "{said}");
    }
}

/// The Job has the same image: where that cannot be had, no server is touched.
fn an_image_that_nobody_has(cluster: &Cluster) {
    let before = PodNow::all(cluster);
    let (done, said) = upgrade(cluster, &["image.tag=none", "threads=2"], "15s");
    assert!(!done, "{said}");
    assert_eq!(PodNow::all(cluster), before);
    let (done, said) = cluster.helm(&["rollback", "cache", "--namespace", NAMESPACE, "--timeout", "10m"]);
    assert!(done, "{said}");
    assert_eq!(PodNow::all(cluster), before);
    println!("an image that nobody has: no server was touched, and `helm rollback` ends well");
}

/// The verb, from outside: by the API server.
fn verb_command(cluster: &Cluster) -> Command {
    let mut verb = Command::new(binary().expect("it was there"));
    verb.args(["kube", "warm-upgrade", "cache-evenkeel", "--namespace", NAMESPACE, "--patience", "60"]);
    verb.args(["--server", &cluster.url(), "--token-file"]).arg(cluster.token());
    verb.arg("--certificate-authority").arg(cluster.authority());
    verb
}

/// Runs it to its end: its status, and all that it said.
fn verb(cluster: &Cluster) -> (Option<i32>, String) {
    let output = verb_command(cluster).output().expect("the binary");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn want_image(cluster: &Cluster, image: &str) {
    let patch = format!(
        r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"evenkeel","image":"{image}"}}]}}}}}}}}"#
    );
    cluster.told(&["patch", "statefulset", "cache-evenkeel", "--namespace", NAMESPACE, "--patch", &patch]);
}

/// A server whose new image cannot be had: the others are not touched, and the image of before brings its items back.
fn a_server_that_cannot_start(cluster: &Cluster) {
    let before = PodNow::all(cluster);
    want_image(cluster, "evenkeel/evenkeel:none");
    let (status, said) = verb(cluster);
    assert_eq!(status, Some(75), "{said}");
    assert!(
        said.contains("halted at cache-evenkeel-0, with 0 of 2 servers done: the image cannot be had"),
        "{said}"
    );
    assert_eq!(PodNow::of(cluster, PODS[1]), before[1]);
    want_image(cluster, "evenkeel/evenkeel:0.1.0");
    let (status, said) = verb(cluster);
    assert_eq!(status, Some(0), "{said}");
    // Fields that the API server has completed are the same in both.
    assert!(!said.contains("which only another pod gets"), "{said}");
    let after = PodNow::all(cluster);
    assert_eq!(after[1], before[1]);
    assert_eq!((&after[0].uid, &after[0].image), (&before[0].uid, &before[0].image));
    assert_eq!(after[0].statistic("curr_items"), ITEMS.to_string());
    println!("an image of a server that nobody has: {}", said.lines().next().unwrap_or_default());
}

/// A server that has no orderly end comes back empty: that halts, until a person says that it may stay so.
fn a_server_that_came_back_empty(cluster: &Cluster) {
    let before = PodNow::all(cluster);
    let pod = cluster.object("pod", &format!("{NAMESPACE}/{}", PODS[0])).expect("a pod");
    let uid = pod["metadata"]["uid"].as_str().expect("a text");
    // What the old server leaves at its end is taken away before the new one looks for it.
    let left = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/items/items.meta");
    let removal = std::thread::spawn(move || {
        let began = Stopwatch::start();
        while began.passed() < Duration::from_secs(60) {
            if std::fs::remove_file(&left).is_ok() {
                return true;
            }
            pause(Duration::from_millis(1));
        }
        false
    });
    let (done, said) = upgrade(cluster, &["image.tag=0.1.1", "threads=2"], "10m");
    assert!(removal.join().expect("the thread"), "the old server has left nothing: {said}");
    // Helm prints the log of the Job.
    assert!(!done, "{said}");
    let halted = format!(
        "halted at {}, with 0 of 2 servers done: the server came back empty: it had {ITEMS} items before",
        PODS[0]
    );
    assert!(said.contains(&halted), "{said}");
    assert_eq!(PodNow::of(cluster, PODS[1]), before[1]);
    // Again, it halts again; the way on is what it says.
    assert_eq!(verb(cluster).0, Some(75));
    assert!(said.contains("annotate pod cache-evenkeel-0 evenkeel/warm-upgrade-"), "{said}");
    cluster.told(&["annotate", "pod", PODS[0], "evenkeel/warm-upgrade-", "--namespace", NAMESPACE]);
    let (status, said) = verb(cluster);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(PodNow::of(cluster, PODS[1]).statistic("curr_items"), ITEMS.to_string());
    println!("a server that came back empty: {halted}");
}

/// The verb is killed at other moments each time, until it has come to its end: each server was restarted once.
fn an_upgrade_that_is_killed_again_and_again(cluster: &Cluster) {
    let before = PodNow::all(cluster);
    let first = before[0].statistic("curr_items");
    want_image(cluster, "evenkeel/evenkeel:0.1.0");
    let mut kills = 0;
    for attempt in 0_u64.. {
        assert!(attempt < 60, "it comes to no end");
        let mut child =
            verb_command(cluster).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
        let (began, least) = (Stopwatch::start(), Duration::from_millis(attempt * 250));
        let time = least + Duration::from_millis(attempt * 7919 % 500);
        let ended = loop {
            match child.try_wait().expect("a child") {
                Some(status) => break Some(status),
                None if began.passed() > time => break None,
                None => pause(Duration::from_millis(5)),
            }
        };
        if let Some(status) = ended {
            assert!(status.success(), "{status}");
            break;
        }
        child.kill().expect("a child");
        child.wait().expect("a child");
        kills += 1;
    }
    let after = PodNow::all(cluster);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&after.uid, after.restarts), (&before.uid, before.restarts + 1));
        assert_eq!(after.image, "evenkeel/evenkeel:0.1.0");
    }
    assert_eq!(after[0].statistic("curr_items"), first);
    assert_eq!(after[1].statistic("curr_items"), ITEMS.to_string());
    println!("an upgrade that was killed {kills} times: each server was restarted once");
}

/// "restricted" refuses what the chart's pods do not ask for.
fn pod_security(cluster: &Cluster) {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "root", "namespace": NAMESPACE },
        "spec": { "containers": [{ "name": "a", "image": "evenkeel/evenkeel:0.1.0", "securityContext": { "runAsNonRoot": false } }] },
    });
    let file = cluster.file("root.json", &pod.to_string());
    let output = cluster.kubectl(&["create", "--filename", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("violates PodSecurity \"restricted"), "{said}");
    assert!(said.contains("runAsNonRoot"), "{said}");
}
