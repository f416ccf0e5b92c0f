//! The control plane of the chart: files that the program accepts, names that agree, and rendered pods that run as a fleet.

mod fleets;
mod played;

use super::command_lines::evenkeel;
use super::rendering::render;
use super::{
    Rendered, Scratch, cases, chart, containers, elements, helm, objects, pod, read, text, value_of,
};
use end_to_end::clock;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Everything that was rendered with a control plane.
fn with_control() -> Vec<Rendered> {
    let all = Rendered::all().into_iter().filter(|rendered| rendered.name.starts_with("control-"));
    let all: Vec<Rendered> = all.collect();
    assert!(all.len() >= 3, "golden files are missed");
    all
}

fn control_map(rendered: &Rendered) -> &Value {
    &rendered.object("ConfigMap", "cache-evenkeel-control")["data"]
}

/// The line of a text file that begins like this, without its beginning.
#[track_caller]
fn after<'a>(file: &'a str, begins: &str) -> &'a str {
    file.lines()
        .find_map(|line| line.strip_prefix(begins))
        .unwrap_or_else(|| panic!("no line begins with {begins}"))
}

/// The identity that the pods of an object have, with `${POD_NAME}` in it.
fn identity(workload: &Value) -> &str {
    let volume = elements(&pod(workload)["volumes"]).iter().find(|volume| volume["name"] == "identity");
    let attributes = &volume.expect("there is an identity")["csi"]["volumeAttributes"];
    text(&attributes["csi.cert-manager.io/uri-sans"])
}

#[test]
fn identities_are_those_that_the_fleet_expects() {
    for rendered in with_control() {
        let policy = text(&control_map(&rendered)["policy.toml"]);
        let fleet = after(policy, "fleet = ").trim_matches('"');
        for (name, role) in [
            ("cache-evenkeel", "agent"),
            ("cache-evenkeel-router", "agent"),
            ("cache-evenkeel-control", "controller"),
        ] {
            let found = identity(rendered.object("StatefulSet", name));
            // An agent speaks for the host of its certificate, and a host is a pod here.
            assert_eq!(found, format!("evenkeel://{fleet}/{role}/${{POD_NAME}}"), "{}", rendered.name);
        }
    }
}

#[test]
fn members_are_the_pods_of_servers_under_the_names_that_routers_use() {
    for rendered in with_control() {
        let set = rendered.object("StatefulSet", "cache-evenkeel");
        let members = text(&control_map(&rendered)["members.toml"]);
        let listed: Vec<&str> = members.lines().filter_map(|line| line.strip_prefix("address = ")).collect();
        let expected: Vec<String> = (0..set["spec"]["replicas"].as_u64().expect("a number"))
            .map(|number| {
                format!("\"cache-evenkeel-{number}.cache-evenkeel-headless.shop.svc.cluster.local:11211\"")
            })
            .collect();
        assert_eq!(listed, expected, "{}", rendered.name);
        for number in 0..expected.len() {
            let (id, host) =
                (format!("id = \"cache-evenkeel-{number}\""), format!("host = \"cache-evenkeel-{number}\""));
            assert!(members.contains(&id) && members.contains(&host), "{}", rendered.name);
        }
    }
}

#[test]
fn controllers_are_where_agents_look_for_them() {
    for rendered in with_control() {
        let set = rendered.object("StatefulSet", "cache-evenkeel-control");
        let service = text(&set["spec"]["serviceName"]);
        rendered.object("Service", service);
        let expected: Vec<String> = (0..set["spec"]["replicas"].as_u64().expect("a number"))
            .map(|number| format!("cache-evenkeel-control-{number}.{service}.shop.svc.cluster.local:7500"))
            .collect();
        let flags = text(&control_map(&rendered)["control.conf"]);
        assert_eq!(after(flags, "--controllers="), expected.join(","), "{}", rendered.name);
        for kind in ["cache", "router"] {
            let map = rendered.object("ConfigMap", &format!("cache-evenkeel-agent-{kind}"));
            let file = text(&map["data"]["agent.toml"]);
            let listed: Vec<String> = serde_json::from_str(after(file, "controllers = ")).expect("a list");
            assert_eq!(listed, expected, "{}", rendered.name);
            // Where the agent's zone is not that of its members, what it says of them does not count.
            assert_eq!(
                after(file, "zone = ").trim_matches('"'),
                after(flags, "--zone="),
                "{}",
                rendered.name
            );
        }
    }
}

/// An agent and what it is beside share a folder, and mean the same files and addresses in it.
#[test]
fn agents_find_their_processes() {
    for rendered in with_control() {
        for (name, kind, process, pid_file) in [
            ("cache-evenkeel", "cache", "evenkeel", "/run/evenkeel/server.pid"),
            ("cache-evenkeel-router", "router", "router", "/run/evenkeel/router.pid"),
        ] {
            let pod = pod(rendered.object("StatefulSet", name));
            assert_eq!(
                pod["shareProcessNamespace"], true,
                "{}: the number in the file is of another namespace",
                rendered.name
            );
            let beside = containers(pod).find(|container| container["name"] == process).expect("a process");
            let agent = containers(pod).find(|container| container["name"] == "agent").expect("an agent");
            assert_eq!(agent["restartPolicy"], "Always", "{}", rendered.name);
            for container in [beside, agent] {
                let mut mounts = elements(&container["volumeMounts"]).iter();
                assert!(mounts.any(|mount| mount["mountPath"] == "/run/evenkeel" && mount["name"] == "run"));
            }
            let flags = rendered.flags(pod, beside);
            assert_eq!(value_of(&flags, "--pidfile"), Some(pid_file), "{}", rendered.name);
            let map = rendered.object("ConfigMap", &format!("cache-evenkeel-agent-{kind}"));
            let file = text(&map["data"]["agent.toml"]);
            assert_eq!(after(file, "pid_file = ").trim_matches('"'), pid_file, "{}", rendered.name);
            if kind == "router" {
                let socket = value_of(&flags, "--unix-domain-sock").expect("a router has a socket file");
                assert_eq!(after(file, "address = ").trim_matches('"'), format!("unix:{socket}"));
                let config = value_of(&flags, "--config").expect("a router has a file");
                assert_eq!(config, format!("file:{}", after(file, "file = ").trim_matches('"')));
            }
        }
    }
}

/// Whether a rule of a policy names this port and pods of this component.
fn allows(rules: &Value, peers: &str, port: &Value, component: &str) -> bool {
    elements(rules).iter().any(|rule| {
        let is_peer =
            |peer: &Value| peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == component;
        elements(&rule["ports"]).iter().any(|found| found["port"] == *port)
            && elements(&rule[peers]).iter().any(is_peer)
    })
}

#[test]
fn a_closed_network_lets_agents_and_controllers_through() {
    let all = with_control();
    let rendered = all.iter().find(|rendered| rendered.name == "control-etcd").expect("there is one");
    let policy = |name: &str| &rendered.object("NetworkPolicy", name)["spec"];
    let [servers, routers, controllers] =
        ["cache-evenkeel", "cache-evenkeel-router", "cache-evenkeel-control"].map(policy);
    // Turns of agents, and what controllers tell each other, at both ends; then probes of servers.
    let (name, number) = (Value::from("control"), Value::from(7500));
    for component in ["cache", "router", "control"] {
        assert!(allows(&controllers["ingress"], "from", &name, component), "from {component}");
    }
    for (what, policy) in [("cache", servers), ("router", routers), ("control", controllers)] {
        assert!(allows(&policy["egress"], "to", &number, "control"), "{what} to controllers");
    }
    assert!(allows(&servers["ingress"], "from", &Value::from("memcached"), "control"), "probes arrive");
    assert!(allows(&controllers["egress"], "to", &Value::from(11211), "cache"), "probes leave");
    let etcd = |rule: &Value| rule["ports"] == serde_json::json!([{"port": 2379}]) && rule["to"].is_null();
    assert!(elements(&controllers["egress"]).iter().any(etcd), "etcd may be anywhere");
}

/// A controller of a fleet with a socket file, whose register is new.
struct Controller {
    child: Child,
    scratch: Scratch,
    program: PathBuf,
}

impl Controller {
    /// With the thresholds and durations of a ConfigMap.
    fn start(program: PathBuf, fleet: &str, files: &Value) -> Controller {
        let scratch = Scratch::new("controller");
        let run = |words: &str| {
            let output = Command::new(&program).args(words.split(' ')).current_dir(&scratch.0).output();
            let output = output.expect("start the program");
            assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run(&format!("control init ca --fleet {fleet} --operator ann"));
        run("control certificate --authority ca --role controller --id c --host 127.0.0.1 --out c.pem");
        let serve = "control serve --zone main --socket socket --register directory:register --tls-ca ca/authority.pem --tls-cert c.pem";
        let mut command = Command::new(&program);
        command.args(serve.split(' ')).current_dir(&scratch.0).stderr(Stdio::null());
        for name in ["health", "rollout"] {
            if let Some(contents) = files[format!("{name}.toml")].as_str() {
                fs::write(scratch.0.join(name), contents).expect("write a file");
                command.args([format!("--{name}"), name.to_owned()]);
            }
        }
        let child = command.spawn().expect("start a controller");
        let controller = Controller { child, scratch, program };
        let serves = clock::wait_for(|| controller.asks("status").status.success().then_some(()));
        assert!(serves.is_some(), "the controller does not serve");
        controller
    }

    fn asks(&self, words: &str) -> Output {
        let mut command = Command::new(&self.program);
        command
            .arg("control")
            .args(words.split(' '))
            .args(["--at", "unix:socket"])
            .current_dir(&self.scratch.0);
        command.output().expect("start the program")
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn policies_members_and_thresholds_are_accepted_by_a_controller() {
    let Some(program) = evenkeel() else { return };
    for rendered in with_control() {
        let map = control_map(&rendered);
        let fleet = after(text(&map["policy.toml"]), "fleet = ").trim_matches('"');
        let controller = Controller::start(program.clone(), fleet, map);
        for name in ["policy.toml", "members.toml"] {
            fs::write(controller.scratch.0.join(name), text(&map[name])).expect("write a file");
        }
        let members = controller.asks("members members.toml --apply --why first");
        assert!(members.status.success(), "{}: {}", rendered.name, String::from_utf8_lossy(&members.stderr));
        let plan = controller.asks("plan --policy policy.toml");
        let said = String::from_utf8_lossy(&plan.stderr);
        // No server runs here, which is the only thing to complain about.
        assert!(
            said.contains("find a member for slot 0") && said.contains("no probe of it was answered yet"),
            "{}: {said}",
            rendered.name
        );
    }
}

#[test]
fn files_of_agents_are_accepted_with_the_name_of_a_pod() {
    let Some(program) = evenkeel() else { return };
    let scratch = Scratch::new("agents");
    let path = scratch.0.join("agent.toml");
    for rendered in with_control() {
        for kind in ["cache", "router"] {
            let map = rendered.object("ConfigMap", &format!("cache-evenkeel-agent-{kind}"));
            fs::write(&path, text(&map["data"]["agent.toml"])).expect("write a file");
            let mut command = Command::new(&program);
            command.args(["agent", "--check"]).arg(&path);
            let without = command.output().expect("start the program");
            let said = String::from_utf8_lossy(&without.stderr);
            assert!(said.contains("the environment has no variable POD_NAME"), "{said}");
            let with = command.env("POD_NAME", "cache-evenkeel-0").output().expect("start the program");
            assert!(
                with.status.success(),
                "{}, {kind}: {}",
                rendered.name,
                String::from_utf8_lossy(&with.stderr)
            );
        }
    }
}

#[test]
fn another_number_of_controllers_restarts_no_server() {
    let Some(helm) = helm() else { return };
    let values = cases().join("control-etcd.yaml");
    let values = values.to_str().expect("a path is text");
    let [three, five] = ["3", "5"].map(|count| {
        let count = format!("controlPlane.replicaCount={count}");
        let rendered = render(&helm, &chart(), &["--values", values, "--set", &count]).expect("it renders");
        Rendered { name: count, objects: objects(&rendered).expect("read what Helm writes") }
    });
    let file =
        |rendered: &Rendered| rendered.object("ConfigMap", "cache-evenkeel-agent-cache")["data"].clone();
    assert_ne!(file(&three), file(&five), "an agent that starts knows all controllers");
    assert_eq!(three.servers(), five.servers(), "a server that is restarted loses its items");
    let routers = |rendered: &Rendered| rendered.object("StatefulSet", "cache-evenkeel-router").clone();
    assert_ne!(
        routers(&three),
        routers(&five),
        "a router is restarted, so that its agent knows all controllers"
    );
}

/// Commands that Helm prints, as far as they are executed in a pod: the pod, and what is executed.
fn printed_commands(rendered: &Rendered) -> Vec<(String, String)> {
    let golden = read(&cases().join("golden").join(format!("{}.yaml", rendered.name)));
    let lines = golden.lines().map_while(|line| line.strip_prefix('#'));
    let commands = lines.filter_map(|line| line.trim().strip_prefix("kubectl --namespace shop exec "));
    commands
        .map(|command| command.split_once(" -- ").expect("a command behind --"))
        .map(|(pod, command)| (pod.to_owned(), command.to_owned()))
        .collect()
}

#[test]
fn the_page_shows_the_commands_that_helm_prints() {
    let page = read(&checkout::workspace().join("docs/kubernetes.md"));
    for rendered in with_control() {
        let commands = printed_commands(&rendered);
        assert_eq!(commands.len(), 4, "{}", rendered.name);
        for (pod, command) in commands {
            let line = format!("\nkubectl --namespace cache exec {pod} -- {command}\n");
            assert!(page.contains(&line), "the page lacks `{}`", line.trim());
        }
    }
}
