//! `evenkeel kube warm-upgrade`: what ends it, with the reason and the way on, and that no further server is touched.

use crate::kube_upgrade::{check_servers, done, run};
use crate::support::cluster::{Answers, Cluster, Image, Reply, status};

/// Checks what ends the upgrade of two servers, and that the second was not touched.
#[track_caller]
fn check(prepare: impl FnOnce(&Cluster), more: &[&str], expected: (i32, &[&str])) -> Cluster {
    let cluster = Cluster::new(2);
    prepare(&cluster);
    let (code, out, err) = run(&cluster, more);
    let said = format!("{out}{err}");
    assert_eq!(code, expected.0, "{said}");
    for part in expected.1 {
        assert!(said.contains(part), "expected `{part}` in: {said}");
    }
    assert_eq!(cluster.state().pods["cache-1"].starts, 1, "{said}");
    cluster
}

fn image(kind: Image) -> impl FnOnce(&Cluster) {
    move |cluster| {
        cluster.state().images.insert("evenkeel:2".to_owned(), kind);
    }
}

fn answers(
    answers: impl FnMut(&str, &str, usize) -> Option<Reply> + Send + 'static,
) -> impl FnOnce(&Cluster) {
    let answers: Answers = Box::new(answers);
    move |cluster| cluster.state().answers = Some(answers)
}

/// An answer to requests of this method below this path.
fn says(method: &'static str, below: &'static str, code: u16, body: String) -> impl FnOnce(&Cluster) {
    answers(move |asked, path, _| {
        (asked == method && path.starts_with(below)).then(|| Reply::Says(code, body.clone()))
    })
}

const PODS: &str = "/api/v1/namespaces/ns/pods/";
const SETS: &str = "/apis/apps/v1/namespaces/ns/statefulsets/";

#[test]
fn a_server_that_comes_back_empty_halts_until_somebody_says_go_on() {
    let expected = [
        "halted at cache-0, with 0 of 2 servers done: the server came back empty: it had 1000 items before",
        "annotate pod cache-0 evenkeel/warm-upgrade-",
    ];
    let cluster = check(image(Image::Empty), &[], (75, &expected));
    // Run again, it halts again: it has not lost its memory of it.
    assert_eq!(run(&cluster, &[]).0, 75);
    // What the message says leads on.
    cluster.state().images.insert("evenkeel:2".to_owned(), Image::Good);
    cluster.state().pods.get_mut("cache-0").expect("a pod").annotations.clear();
    done(&cluster);
    assert_eq!(cluster.state().pods["cache-1"].server["restored_items"], 1001);
}

#[test]
fn a_server_that_does_not_say_what_it_has_kept_halts() {
    check(
        image(Image::Silent),
        &[],
        (75, &["does not say whether it has the items of the one before (restored_items)"]),
    );
}

#[test]
fn a_server_that_does_not_come_back_halts() {
    check(
        image(Image::Crashes),
        &[],
        (75, &["the server ends again and again (CrashLoopBackOff", "logs cache-0 --previous"]),
    );
    let late = ["waited 1 s for the new server to be ready", "run this again"];
    check(image(Image::Hangs), &["--patience", "1"], (75, &late));
}

#[test]
fn a_server_that_could_not_keep_its_items_is_not_touched() {
    let never = |cluster: &Cluster| {
        for pod in cluster.state().pods.values_mut() {
            pod.server["restored_items"] = serde_json::Value::Null;
        }
    };
    let cluster = check(
        never,
        &[],
        (75, &["the items of the server are not in a file (-e)", "delete the pods one by one"]),
    );
    assert_eq!(cluster.state().pods["cache-0"].starts, 1);
    let unknown = |cluster: &Cluster| {
        for pod in cluster.state().pods.values_mut() {
            pod.server.as_object_mut().expect("an object").remove("restored_items");
        }
    };
    let cluster = check(unknown, &[], (75, &["does not say whether its items outlive it"]));
    assert_eq!(cluster.state().pods["cache-0"].starts, 1);
    let rolling = |cluster: &Cluster| cluster.state().strategy = "RollingUpdate";
    check(rolling, &[], (75, &["is not OnDelete, so Kubernetes itself replaces pods"]));
}

#[test]
fn a_server_that_cannot_be_asked_is_not_touched() {
    let page = says(
        "GET",
        "/api/v1/namespaces/ns/pods/cache-0:9150",
        503,
        status(503, "ServiceUnavailable", "error trying to reach service").to_string(),
    );
    let cluster = check(
        page,
        &["--patience", "1"],
        (
            75,
            &[
                "waited 1 s for the server to say how many items it has: its page has status 503: error trying to reach service",
            ],
        ),
    );
    assert_eq!(cluster.state().pods["cache-0"].starts, 1);
    let page = says("GET", "/api/v1/namespaces/ns/pods/cache-0:9150", 200, "[".repeat(100_000));
    check(page, &["--patience", "1"], (75, &["expected JSON, found something else"]));
}

#[test]
fn flags_that_do_not_reach_the_pod_halt() {
    let cluster = |cluster: &Cluster| cluster.state().flags = Some("bbbb".to_owned());
    check(cluster, &["--patience", "1"], (75, &["waited 1 s for the new flags to reach the pod"]));
}

#[test]
fn what_the_api_server_refuses_is_told() {
    let forbidden =
        "pods \"cache-0\" is forbidden: User \"system:serviceaccount:ns:x\" cannot patch resource \"pods\"";
    let body = status(403, "Forbidden", forbidden).to_string();
    check(
        says("PATCH", PODS, 403, body),
        &[],
        (1, &["the API server refuses: pods \"cache-0\" is forbidden", "get and patch its pods"]),
    );
    let body = status(401, "Unauthorized", "Unauthorized").to_string();
    check(says("GET", SETS, 401, body), &[], (1, &["refuses: Unauthorized (status 401)", "--token-file"]));
    let body = status(404, "NotFound", "statefulsets.apps \"cache\" not found").to_string();
    check(says("GET", SETS, 404, body), &[], (1, &["there is none in namespace ns"]));
    let body = status(
        422,
        "Invalid",
        "Pod \"cache-0\" is invalid: spec: Forbidden: pod updates may not change fields",
    )
    .to_string();
    check(says("PATCH", PODS, 422, body), &[], (1, &["Pod \"cache-0\" is invalid: spec: Forbidden"]));
}

#[test]
fn a_pod_that_changes_all_the_time_is_given_up() {
    let body = status(409, "Conflict", "the object has been modified").to_string();
    check(
        says("PATCH", PODS, 409, body),
        &["--patience", "1"],
        (75, &["a moment in which nobody else changes the pod"]),
    );
}

#[test]
fn an_api_server_that_is_away_for_a_while_is_waited_for() {
    let cluster = Cluster::new(2);
    cluster.state().answers = Some(Box::new(|_, _, count| match count {
        3..6 => Some(Reply::Closes),
        9 => Some(Reply::Says(503, "etcdserver: request timed out".to_owned())),
        12 => Some(Reply::Says(429, status(429, "TooManyRequests", "too many requests").to_string())),
        _ => None,
    }));
    done(&cluster);
    check_servers(&cluster, "evenkeel:2", 2);
    check(
        answers(|_, _, _| Some(Reply::Closes)),
        &["--patience", "1"],
        (69, &["ask the API server at http://127.0.0.1", "run this again"]),
    );
    let busy =
        answers(|_, _, count| (count > 2).then(|| Reply::Says(500, "etcdserver: leader changed".to_owned())));
    check(busy, &["--patience", "1"], (69, &["etcdserver: leader changed (status 500)"]));
}

#[test]
fn a_hostile_answer_is_an_error() {
    let object = |text: &str| says("GET", PODS, 200, text.to_owned());
    check(object("[]"), &[], (1, &["expected an object for GET"]));
    check(object("<html>"), &[], (1, &["expected an object for GET"]));
    check(
        object("{}"),
        &[],
        (
            1,
            &[
                "understand an object of Kubernetes: pod cache-0: expected an element with the name evenkeel at spec.containers, found others, or none",
            ],
        ),
    );
    let image = r#"{"metadata":{"resourceVersion":7},"spec":{"containers":[{"name":"evenkeel","image":"evenkeel:1"}]}}"#;
    check(
        object(image),
        &[],
        (1, &["pod cache-0: expected a text at metadata.resourceVersion, found another number"]),
    );
    let deep = format!("{{\"a\":{}", "[".repeat(1_000_000));
    check(object(&deep), &[], (1, &["expected an object for GET"]));
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(9 << 20));
    check(object(&long), &[], (1, &["expected at most 8388608 bytes, found more"]));
    let set = says("GET", SETS, 200, r#"{"spec":{"replicas":"many"}}"#.to_owned());
    check(set, &[], (1, &["expected a number that is not negative at spec.replicas, found a text"]));
    // What others say is a part of a line of ours.
    let body = status(503, "X", "a\nhalted at cache-1\u{1b}[2J").to_string();
    let page = says("GET", "/api/v1/namespaces/ns/pods/cache-0:9150", 503, body);
    let cluster = check(page, &["--patience", "1"], (75, &["its page has status 503: a\\u000ahalted"]));
    assert!(!run(&cluster, &["--patience", "1"]).1.contains(['\u{1b}']));
    // Control characters do not reach the terminal.
    let body = status(403, "Forbidden", "\u{1b}[2Jforbidden").to_string();
    let cluster = check(says("GET", SETS, 403, body), &[], (1, &["forbidden"]));
    assert!(!run(&cluster, &[]).2.contains('\u{1b}'));
}

#[test]
fn another_release_meanwhile_ends_it() {
    let cluster = Cluster::new(2);
    let mut sets = 0;
    cluster.state().answers = Some(Box::new(move |_, path, _| {
        sets += usize::from(path.starts_with(SETS));
        let other = r#"{"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"},"template":{"spec":{"containers":[{"name":"evenkeel","image":"evenkeel:3"}]}}}}"#;
        (path.starts_with(SETS) && sets > 2).then(|| Reply::Says(200, other.to_owned()))
    }));
    let (code, out, err) = run(&cluster, &[]);
    assert_eq!(code, 75, "{out}{err}");
    assert!(out.contains("ended with 1 of 2 servers done: the StatefulSet wants another image"), "{out}");
}

#[test]
fn a_wrong_command_line_is_told() {
    let cluster = Cluster::new(1);
    let check = |more: &[&str], expected: (i32, &str)| {
        let (code, out, err) = run(&cluster, more);
        assert!(code == expected.0 && err.contains(expected.1), "{code} {out}{err}");
    };
    check(&["--server", "http://10.1.2.3:80"], (64, "cannot be used multiple times"));
    check(&["--token-file", "/nowhere/token"], (71, "read the token /nowhere/token"));
    let outside = |words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(words)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output();
        let output = output.expect("the binary starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = outside(&["kube", "warm-upgrade", "cache"]);
    assert!(
        code == Some(64) && err.contains("this is no pod of a cluster") && err.contains("kubectl proxy"),
        "{err}"
    );
    let (code, err) = outside(&["kube", "warm-upgrade", "cache", "--server", "http://10.1.2.3:8001"]);
    assert!(code == Some(64) && err.contains("expected https://"), "{err}");
    let (code, err) = outside(&["kube", "warm-upgrade", "../x", "--server", "https://k"]);
    assert!(code == Some(64) && err.contains("expected a name of Kubernetes"), "{err}");
}
