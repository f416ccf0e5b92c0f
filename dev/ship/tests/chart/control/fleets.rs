//! Rendered pods that run as a fleet: the commands that Helm prints bring it into being, and a spare takes the slot of a lost pod.

use super::super::command_lines::evenkeel;
use super::super::{Rendered, is_all};
use super::played::Cluster;
use super::{printed_commands, with_control};
use end_to_end::clock;
use end_to_end::fleet::etcd_program;
use end_to_end::network::in_namespaces;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the program says in a pod, which must not complain.
#[track_caller]
fn said(cluster: &Cluster, pod: &str, command: &str) -> String {
    let output = cluster.execute(pod, command);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{pod}, {command}: {said}{complained}\n{}", cluster.said());
    said
}

/// Loses these pods, of which `lost` has the slot s0, until another member has it and all routers know. Returns the status then.
#[track_caller]
fn lose_until_a_spare_has_its_slot(cluster: &mut Cluster, pods: &[&str], lost: &str) -> String {
    let begun = clock::now();
    pods.iter().for_each(|pod| cluster.lose(pod));
    let status = wait_for_status(cluster, "a spare takes over", |status| {
        member_of(status, "cache/s0").is_some_and(|member| member != lost)
            && status.contains("all routers have it")
    });
    println!(
        "a spare had the slot of a lost pod, and all routers had it, after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    status
}

/// Waits until the status of the fleet is as asked.
#[track_caller]
fn wait_for_status(cluster: &Cluster, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    let controller = "cache-evenkeel-control-0";
    let found = clock::wait_for(|| {
        clock::pass(Duration::from_millis(300));
        Some(said(cluster, controller, "evenkeel control status")).filter(|status| is_so(status))
    });
    found.unwrap_or_else(|| {
        panic!("{what}: {}\n{}", said(cluster, controller, "evenkeel control status"), cluster.said())
    })
}

/// What is answered to a request of a client of a router.
#[track_caller]
fn asked(cluster: &Cluster, router: &str, request: &str) -> String {
    let (address, request) = (format!("{}:11211", cluster.address(router)), format!("{request}\r\nquit\r\n"));
    if cluster.speaks_tls() {
        return over_tls(cluster, &address, "clients", &request);
    }
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&address)?;
        stream.set_read_timeout(Some(clock::PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().unwrap_or_else(|error| panic!("{router}: {error}\n{}", cluster.said()))
}

/// The same with the certificate of a folder, until the other side closes the connection.
#[track_caller]
fn over_tls(cluster: &Cluster, address: &str, folder: &str, request: &str) -> String {
    let mut client = Command::new("openssl");
    client.args([
        "s_client",
        "-quiet",
        "-verify_return_error",
        "-CAfile",
        "ca.crt",
        "-cert",
        "tls.crt",
        "-key",
        "tls.key",
    ]);
    client.args(["-connect", address]).current_dir(cluster.folder().join(folder));
    let mut child =
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("openssl");
    child.stdin.take().expect("a pipe").write_all(request.as_bytes()).expect("write to openssl");
    let output = child.wait_with_output().expect("openssl ends");
    assert!(
        output.status.success(),
        "{address}: {}\n{}",
        String::from_utf8_lossy(&output.stderr),
        cluster.said()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The time in which a controller that was started replaces nothing (docs/control/health.md), and room for those that start last.
const OBSERVATION: Duration = Duration::from_secs(65);

/// Keys of several slots.
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Stores all keys through one router, and reads them through the other.
#[track_caller]
fn check_keys(cluster: &Cluster, value: &str) {
    for key in KEYS {
        let stored =
            asked(cluster, "cache-evenkeel-router-0", &format!("set {key} 0 0 {}\r\n{value}", value.len()));
        assert_eq!(stored, "STORED\r\n", "{key}: {}", cluster.said());
        let found = asked(cluster, "cache-evenkeel-router-1", &format!("get {key}"));
        assert_eq!(found, format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()), "{key}");
    }
}

/// The member of a slot, by the status of the fleet.
fn member_of(status: &str, slot: &str) -> Option<String> {
    let line = status.lines().find(|line| line.split_whitespace().any(|word| word == slot))?;
    line.split_whitespace().next().map(str::to_owned)
}

fn start_all(cluster: &mut Cluster, names: &[(&str, usize)]) {
    for (set, count) in names {
        (0..*count).for_each(|number| cluster.start(&format!("{set}-{number}")));
    }
    for (set, count) in names {
        (0..*count).for_each(|number| cluster.wait_until_ready(&format!("{set}-{number}")));
    }
}

/// What Helm prints is typed, until routers have the policy.
fn follow_the_notes(cluster: &Cluster, rendered: &Rendered, members: usize) {
    let commands = printed_commands(rendered);
    assert_eq!(commands.len(), 4, "{}", rendered.name);
    for (pod, command) in &commands {
        said(cluster, pod, command);
        if command == "evenkeel control status" {
            wait_for_status(cluster, "servers are spares", |status| {
                status.matches(" spare ").count() == members
            });
        }
    }
    wait_for_status(cluster, "routers have the policy", |status| status.contains("all routers have it"));
}

#[test]
fn rendered_pods_are_a_fleet_in_which_a_spare_takes_over() {
    if !is_all() {
        return eprintln!("left out: a fleet of rendered pods takes two minutes (EVENKEEL_TEST_ALL=1)");
    }
    if !in_namespaces("chart::control::fleets::rendered_pods_are_a_fleet_in_which_a_spare_takes_over") {
        return;
    }
    let program = evenkeel().expect("the program was built");
    let all = with_control();
    let rendered = all.iter().find(|rendered| rendered.name == "control-directory").expect("there is one");
    let mut cluster = Cluster::new(rendered, program, &[]);
    start_all(
        &mut cluster,
        &[("cache-evenkeel-control", 1), ("cache-evenkeel", 3), ("cache-evenkeel-router", 2)],
    );
    // Before the first policy, a request fails and is not stored where nobody will look for it.
    let early = asked(&cluster, "cache-evenkeel-router-0", "set a 0 0 1\r\n1");
    assert!(early.starts_with("SERVER_ERROR"), "{early}");
    let started = clock::now();
    follow_the_notes(&cluster, rendered, 3);
    check_keys(&cluster, "first");

    // A server whose container is started again keeps its slot.
    let status = said(&cluster, "cache-evenkeel-control-0", "evenkeel control status");
    let lost = member_of(&status, "cache/s0").expect("the slot has a member");
    cluster.restart(&lost, "evenkeel");
    cluster.wait_until_ready(&lost);
    let answers = clock::wait_for(|| {
        let stored = asked(&cluster, "cache-evenkeel-router-0", "set restarted 0 0 1\r\n1") == "STORED\r\n";
        let other = asked(&cluster, "cache-evenkeel-router-1", "get restarted").starts_with("VALUE");
        (stored && other).then_some(())
    });
    assert!(answers.is_some(), "{}", cluster.said());
    check_keys(&cluster, "again");
    let status = said(&cluster, "cache-evenkeel-control-0", "evenkeel control status");
    assert_eq!(member_of(&status, "cache/s0").as_ref(), Some(&lost), "{status}");
    // A controller that has just started replaces nothing for a minute, in which it comes to know the fleet.
    clock::pass(OBSERVATION.saturating_sub(started.elapsed()));
    let status = lose_until_a_spare_has_its_slot(&mut cluster, &[&lost], &lost);
    check_keys(&cluster, "second");

    // Kubernetes makes the pod again, with the same name and empty: it is a spare now.
    cluster.start(&lost);
    let is_spare =
        |status: &str| status.lines().any(|line| line.starts_with(&lost) && line.contains(" spare "));
    wait_for_status(&cluster, "the pod is back as a spare", is_spare);
    assert_eq!(
        member_of(&status, "cache/s1"),
        member_of(&said(&cluster, "cache-evenkeel-control-0", "evenkeel control status"), "cache/s1")
    );

    // A router that is made again has its routes before it serves.
    cluster.lose("cache-evenkeel-router-1");
    cluster.start("cache-evenkeel-router-1");
    cluster.wait_until_ready("cache-evenkeel-router-1");
    let has_routes = clock::wait_for(|| {
        asked(&cluster, "cache-evenkeel-router-1", "get a").contains("second").then_some(())
    });
    assert!(has_routes.is_some(), "{}", cluster.said());

    // Without controllers all goes on, also what is started again in its pod.
    cluster.lose("cache-evenkeel-control-0");
    cluster.restart("cache-evenkeel-router-0", "router");
    cluster.wait_until_ready("cache-evenkeel-router-0");
    check_keys(&cluster, "third");

    // The controller has its decisions and its audit log on its volume.
    cluster.start("cache-evenkeel-control-0");
    cluster.wait_until_ready("cache-evenkeel-control-0");
    let history = said(&cluster, "cache-evenkeel-control-0", "evenkeel control history");
    assert!(history.contains("release 1") && history.lines().count() >= 2, "{history}");
}

/// An etcd under three names that asks for certificates and passwords, with the user that docs/control/register.md makes.
fn start_etcd(cluster: &mut Cluster, program: &Path) {
    let address = cluster.address("etcd");
    let names = "DNS:etcd-0.etcd.stores,DNS:etcd-1.etcd.stores,DNS:etcd-2.etcd.stores";
    let folder = cluster.folder().join("etcd");
    cluster.certificate(&folder, &format!("{names},IP:{address}"), "serverAuth,clientAuth");
    let url = format!("https://{address}:2379");
    let program = program.to_str().expect("a path is text");
    let mut words = vec![
        program,
        "--data-dir",
        "etcd/data",
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
    ];
    words.extend([
        "--listen-peer-urls",
        "http://127.0.0.1:2380",
        "--client-cert-auth",
        "--trusted-ca-file",
        "etcd/ca.crt",
    ]);
    words.extend([
        "--cert-file",
        "etcd/tls.crt",
        "--key-file",
        "etcd/tls.key",
        "--unsafe-no-fsync",
        "--bcrypt-cost",
        "4",
        "--logger",
        "zap",
    ]);
    cluster.start_other("etcd", &words);
    let place = format!("{address}:2379");
    assert!(clock::wait_for(|| TcpStream::connect(&place).ok()).is_some(), "{}", cluster.said());
    // In base64: "/evenkeel/shop/", and the first key behind all that begin like this.
    let range = r#""key": "L2V2ZW5rZWVsL3Nob3Av", "range_end": "L2V2ZW5rZWVsL3Nob3Aw""#;
    let grant = format!(r#"{{"name": "evenkeel", "perm": {{"permType": "READWRITE", {range}}}}}"#);
    for (path, body) in [
        ("user/add", r#"{"name": "root", "password": "other"}"#),
        ("role/add", r#"{"name": "root"}"#),
        ("user/grant", r#"{"user": "root", "role": "root"}"#),
        ("role/add", r#"{"name": "evenkeel"}"#),
        ("role/grant", &grant),
        ("user/add", r#"{"name": "evenkeel", "password": "secret"}"#),
        ("user/grant", r#"{"user": "evenkeel", "role": "evenkeel"}"#),
        ("enable", "{}"),
    ] {
        let head = format!(
            "POST /v3/auth/{path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}",
            body.len()
        );
        let answer = over_tls(cluster, &place, "etcd", &format!("{head}\r\n\r\n{body}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
}

#[test]
fn three_rendered_controllers_over_tls_replace_a_server_while_one_of_them_is_lost() {
    if !is_all() {
        return eprintln!("left out: three rendered controllers take two minutes (EVENKEEL_TEST_ALL=1)");
    }
    if !in_namespaces(
        "chart::control::fleets::three_rendered_controllers_over_tls_replace_a_server_while_one_of_them_is_lost",
    ) {
        return;
    }
    let etcd = etcd_program().expect("there is no etcd (Debian: etcd-server)");
    let program = evenkeel().expect("the program was built");
    let all = with_control();
    let rendered = all.iter().find(|rendered| rendered.name == "control-etcd").expect("there is one");
    let names = ["etcd-0.etcd.stores", "etcd-1.etcd.stores", "etcd-2.etcd.stores"];
    let mut cluster = Cluster::new(rendered, program, &names);
    start_etcd(&mut cluster, &etcd);
    cluster.certificate(&cluster.folder().join("clients"), "DNS:client", "clientAuth");
    start_all(
        &mut cluster,
        &[("cache-evenkeel-control", 3), ("cache-evenkeel", 4), ("cache-evenkeel-router", 2)],
    );
    let started = clock::now();
    follow_the_notes(&cluster, rendered, 4);
    check_keys(&cluster, "first");
    let status = said(&cluster, "cache-evenkeel-control-0", "evenkeel control status");
    let lost = member_of(&status, "cache/s0").expect("the slot has a member");
    // A controller that has just started replaces nothing for a minute, in which it comes to know the fleet.
    clock::pass(OBSERVATION.saturating_sub(started.elapsed()));
    lose_until_a_spare_has_its_slot(&mut cluster, &["cache-evenkeel-control-2", &lost], &lost);
    check_keys(&cluster, "second");
}
