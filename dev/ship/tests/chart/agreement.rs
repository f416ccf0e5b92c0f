//! Names, ports and lists that have to agree: containers, probes, flags, Services, policies, monitors, files.

use super::{Rendered, containers, elements, pod, text, value_of};
use serde_json::Value;

/// Objects that a value file names and somebody else makes.
const OF_OTHERS: [&str; 6] =
    ["cache-certificate", "cache-cache-users", "etcd-certificate", "etcd-password", "variables", "secrets"];

/// The number of a port of a container or a pod.
fn port<'a>(containers: impl Iterator<Item = &'a Value>, name: &str) -> Option<i64> {
    let mut ports = containers.flat_map(|container| elements(&container["ports"]));
    ports.find(|port| port["name"] == name)?["containerPort"].as_i64()
}

/// Whether labels have all that a selector asks for.
fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().filter(|selector| !selector.is_empty());
    selector.is_some_and(|selector| selector.iter().all(|(key, value)| labels[key] == *value))
}

/// Objects with pods that a selector selects.
fn selected<'a>(rendered: &'a Rendered, selector: &'a Value) -> Vec<&'a Value> {
    let labels = |workload: &'a Value| &workload["spec"]["template"]["metadata"]["labels"];
    rendered.workloads().filter(|workload| selects(selector, labels(workload))).collect()
}

#[test]
fn probes_ask_pages_at_ports_of_their_container() {
    let mut asked = 0;
    for rendered in Rendered::all() {
        for container in rendered.workloads().flat_map(|workload| containers(pod(workload))) {
            let begin = format!("{}, {}", rendered.name, text(&container["name"]));
            for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
                let page = if probe == "livenessProbe" { "/healthz" } else { "/readyz" };
                let http = &container[probe]["httpGet"];
                assert!(http.is_null() || http["path"] == page, "{begin}: {probe} asks {}", http["path"]);
                for way in ["httpGet", "tcpSocket"] {
                    let Some(name) = container[probe][way]["port"].as_str() else { continue };
                    assert!(port([container].into_iter(), name).is_some(), "{begin}: {probe} asks {name}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked >= 60, "probes are missed");
}

#[test]
fn ports_are_those_of_the_flags() {
    let mut compared = 0;
    for rendered in Rendered::all() {
        for workload in rendered.workloads() {
            let annotations = &workload["spec"]["template"]["metadata"]["annotations"];
            for container in containers(pod(workload)) {
                let flags = rendered.flags(pod(workload), container);
                if flags.is_empty() {
                    continue;
                }
                let given = |flag| {
                    value_of(&flags, flag).map(|value| value.trim_start_matches("*:").parse::<i64>().unwrap())
                };
                let [clients, metrics] =
                    ["memcached", "metrics"].map(|name| port([container].into_iter(), name));
                let begin = format!("{}, {}", rendered.name, text(&container["name"]));
                assert_eq!(given("--ssl-port").or_else(|| given("--port")), clients, "{begin}: clients");
                assert_eq!(given("--metrics-listen"), metrics, "{begin}: metrics");
                if let Some(scraped) = annotations["prometheus.io/port"].as_str() {
                    assert_eq!(scraped.parse().ok(), metrics, "{begin}: annotations for Prometheus");
                }
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "containers are missed");
}

#[test]
fn services_policies_and_budgets_select_pods_that_have_their_ports() {
    for rendered in Rendered::all() {
        for object in &rendered.objects {
            let spec = &object["spec"];
            let (selector, ports): (&Value, Vec<&Value>) = match object["kind"].as_str() {
                Some("Service") => (
                    &spec["selector"],
                    elements(&spec["ports"]).iter().map(|port| &port["targetPort"]).collect(),
                ),
                Some("NetworkPolicy") => {
                    let rules = elements(&spec["ingress"]).iter();
                    let ports = rules.flat_map(|rule| elements(&rule["ports"])).map(|port| &port["port"]);
                    (&spec["podSelector"]["matchLabels"], ports.collect())
                }
                Some("PodDisruptionBudget") => (&spec["selector"]["matchLabels"], Vec::new()),
                _ => continue,
            };
            let begin =
                format!("{}, {} {}", rendered.name, text(&object["kind"]), text(&object["metadata"]["name"]));
            let workloads = selected(&rendered, selector);
            assert!(!workloads.is_empty(), "{begin} selects no pods");
            for (workload, name) in
                workloads.iter().flat_map(|workload| ports.iter().map(move |port| (workload, port)))
            {
                assert!(
                    port(containers(pod(workload)), text(name)).is_some(),
                    "{begin}: pods have no port {name}"
                );
            }
        }
    }
}

#[test]
fn objects_with_pods_and_monitors_select_what_they_are_for() {
    let mut monitors = 0;
    for rendered in Rendered::all() {
        // Kubernetes makes the selector of a Job.
        for workload in rendered.workloads().filter(|workload| workload["kind"] != "Job") {
            let found = selected(&rendered, &workload["spec"]["selector"]["matchLabels"]);
            assert!(found == [workload], "{}: a selector fits other pods", rendered.name);
        }
        for monitor in rendered.of_kind("ServiceMonitor") {
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            let services: Vec<&Value> = rendered
                .of_kind("Service")
                .filter(|service| selects(selector, &service["metadata"]["labels"]))
                .collect();
            // One for servers, routers and controllers, and one for agents where there are any.
            let has_agents = rendered.name.starts_with("control-");
            assert_eq!(services.len(), if has_agents { 2 } else { 1 }, "{}", rendered.name);
            for service in services {
                assert_eq!(service["spec"]["ports"][0]["name"], monitor["spec"]["endpoints"][0]["port"]);
                assert_eq!(
                    service["metadata"]["namespace"],
                    monitor["spec"]["namespaceSelector"]["matchNames"][0]
                );
                let job = text(&monitor["spec"]["jobLabel"]);
                assert_eq!(
                    service["metadata"]["labels"][job], "evenkeel",
                    "the alerts know a job by this name"
                );
            }
            monitors += 1;
        }
    }
    assert!(monitors > 0, "no monitor is rendered");
}

#[test]
fn volumes_and_variables_name_objects_that_are_there() {
    for rendered in Rendered::all() {
        for workload in rendered.workloads() {
            let volumes = elements(&pod(workload)["volumes"]).iter();
            let of_volumes = volumes.flat_map(|volume| {
                [("ConfigMap", &volume["configMap"]["name"]), ("Secret", &volume["secret"]["secretName"])]
            });
            let sources = containers(pod(workload)).flat_map(|container| elements(&container["envFrom"]));
            let of_variables = sources.flat_map(|source| {
                [("ConfigMap", &source["configMapRef"]["name"]), ("Secret", &source["secretRef"]["name"])]
            });
            for (kind, name) in
                of_volumes.chain(of_variables).filter_map(|(kind, name)| Some((kind, name.as_str()?)))
            {
                let makes =
                    |object: &Value| object["kind"] == "Certificate" && object["spec"]["secretName"] == name;
                let is_there = OF_OTHERS.contains(&name)
                    || rendered.of_kind(kind).any(|object| object["metadata"]["name"] == name)
                    || rendered.objects.iter().any(makes);
                assert!(is_there, "{}: there is no {kind} {name}", rendered.name);
            }
        }
    }
}

/// Names of all servers in the order of their numbers, from the StatefulSet.
fn servers(rendered: &Rendered) -> Vec<String> {
    let set = rendered.servers();
    let [name, service] = [&set["metadata"]["name"], &set["spec"]["serviceName"]].map(text);
    rendered.object("Service", service);
    let port = port(containers(pod(set)), "memcached").expect("servers have a port");
    let count = set["spec"]["replicas"].as_i64().expect("a number");
    (0..count).map(|number| format!("{name}-{number}.{service}.shop.svc.cluster.local:{port}")).collect()
}

#[test]
fn routers_and_clients_with_discovery_are_told_all_servers() {
    let (mut routes, mut lists) = (0, 0);
    for rendered in Rendered::all() {
        for map in rendered.of_kind("ConfigMap") {
            if let Some(route) = map["data"]["route.json"].as_str() {
                let route: Value = serde_json::from_str(route).expect("a configuration is JSON");
                assert_eq!(
                    route["pools"]["cache"]["servers"],
                    serde_json::json!(servers(&rendered)),
                    "{}",
                    rendered.name
                );
                routes += 1;
            }
            let Some(members) = map["data"]["members"].as_str() else { continue };
            let (revision, members) = members.split_once('\n').expect("a revision");
            assert!(
                revision.parse::<u64>().is_ok_and(|revision| revision > 0),
                "{}: {revision}",
                rendered.name
            );
            let members: Vec<String> = members.lines().map(|member| member.replace("||", ":")).collect();
            let expected = match map["data"]["route.json"].is_null() {
                true => servers(&rendered),
                false => vec!["cache-evenkeel.shop.svc.cluster.local:11211".to_owned()],
            };
            assert_eq!(members, expected, "{}", rendered.name);
            lists += 1;
        }
    }
    assert!(routes >= 8 && lists >= 2, "files are missed");
}
