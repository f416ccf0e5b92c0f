//! Rights of pods: those of servers and routers keep to the pod security standard "restricted", and to less than it allows.

use super::{Rendered, containers, elements, pod, text};
use serde_json::Value;

/// The name in the labels of a workload's pods.
fn component(workload: &Value) -> &str {
    text(&workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"])
}

/// A setting of a container, or that of its pod.
fn setting<'a>(pod: &'a Value, container: &'a Value, key: &str) -> &'a Value {
    match &container["securityContext"][key] {
        Value::Null => &pod["securityContext"][key],
        own => own,
    }
}

/// What "restricted" asks of a pod (kubernetes.io, "Pod Security Standards"), as far as the chart's pods have it.
fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if pod[key] == true {
            found.push(format!("{key} is true"));
        }
    }
    for volume in elements(&pod["volumes"]) {
        let kinds = ["configMap", "csi", "secret", "emptyDir"];
        if !kinds.iter().any(|kind| !volume[kind].is_null()) {
            found.push(format!("volume {} is none of {}", volume["name"], kinds.join(", ")));
        }
    }
    // Containers that a user adds are the user's.
    for container in containers(pod).filter(|container| text(&container["image"]).contains("evenkeel")) {
        let seccomp = &setting(pod, container, "seccompProfile")["type"];
        let facts = [
            (setting(pod, container, "runAsNonRoot") == true, "runAsNonRoot is not true"),
            (
                setting(pod, container, "runAsUser").as_i64().is_some_and(|user| user > 0),
                "runAsUser is root or missing",
            ),
            (container["securityContext"]["allowPrivilegeEscalation"] == false, "it may gain privileges"),
            (container["securityContext"]["privileged"] != true, "it is privileged"),
            (
                container["securityContext"]["capabilities"]["drop"] == serde_json::json!(["ALL"]),
                "it has capabilities",
            ),
            (seccomp == "RuntimeDefault" || seccomp == "Localhost", "it has no seccomp profile"),
        ];
        found.extend(
            facts
                .iter()
                .filter(|(holds, _)| !holds)
                .map(|(_, what)| format!("{}: {what}", container["name"])),
        );
    }
    found
}

#[test]
fn servers_and_routers_keep_to_restricted() {
    let mut looked_at = 0;
    for rendered in Rendered::all() {
        for workload in rendered.workloads().filter(|workload| component(workload) != "tune") {
            let found = violations(pod(workload));
            assert!(found.is_empty(), "{}, {}: {}", rendered.name, component(workload), found.join("; "));
            looked_at += 1;
        }
    }
    assert!(looked_at >= 20, "pods are missed");
}

/// Without this, the check above might find nothing.
#[test]
fn a_pod_that_changes_its_host_is_not_restricted() {
    let rendered =
        Rendered::all().into_iter().find(|rendered| rendered.name == "tune-apply").expect("there is one");
    let tune = rendered.workloads().find(|workload| component(workload) == "tune").expect("it has pods");
    let found = violations(pod(tune)).join("\n");
    for expected in ["hostPID is true", "volume \"journals\" is none", "\"apply\": it is privileged"] {
        assert!(found.contains(expected), "expected `{expected}`, found {found}");
    }
}

#[test]
fn no_pod_but_that_of_a_warm_upgrade_has_a_token_and_every_file_system_is_read_only() {
    for rendered in Rendered::all() {
        for workload in rendered.workloads() {
            let pod = pod(workload);
            assert_eq!(
                [&pod["automountServiceAccountToken"], &pod["enableServiceLinks"]],
                [component(workload) == "warm-upgrade", false],
                "{}",
                rendered.name
            );
            for container in
                containers(pod).filter(|container| text(&container["image"]).contains("evenkeel"))
            {
                assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{}", rendered.name);
            }
        }
    }
}

#[test]
fn hosts_are_only_looked_at_without_privileges() {
    let rendered =
        Rendered::all().into_iter().find(|rendered| rendered.name == "tune-check").expect("there is one");
    let tune = rendered.workloads().find(|workload| component(workload) == "tune").expect("it has pods");
    assert_eq!(violations(pod(tune)), ["hostNetwork is true", "hostPID is true"]);
}
