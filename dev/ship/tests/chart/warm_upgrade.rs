//! The Job of a warm upgrade: its rights, its image, and that its checksum of the flags is that of the file in the pod.

use super::{Rendered, containers, elements, pod, text};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// SHA-256 as the program of that name has it.
fn sha256(content: &str) -> String {
    let mut sum = Command::new("sha256sum");
    let mut child = sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start sha256sum");
    child.stdin.take().expect("piped").write_all(content.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a checksum").to_owned()
}

#[test]
fn the_checksum_of_flags_is_that_of_the_file_that_servers_read() {
    let mut checked = 0;
    for rendered in Rendered::all() {
        for set in rendered.of_kind("StatefulSet") {
            let configuration = rendered.object("ConfigMap", text(&set["metadata"]["name"]));
            let Some(file) = configuration["data"]["serve.conf"].as_str() else { continue };
            let annotation = &set["spec"]["template"]["metadata"]["annotations"]["checksum/flags"];
            assert_eq!(text(annotation), sha256(file), "{}", rendered.name);
            checked += 1;
        }
    }
    assert!(checked >= 12, "only {checked} StatefulSets");
}

/// The rendered objects of a value file.
fn rendered(name: &str) -> Rendered {
    Rendered::all().into_iter().find(|rendered| rendered.name == name).expect("there is one")
}

#[test]
fn the_job_has_the_rights_that_it_needs_and_no_others() {
    let rendered = rendered("warm-upgrade-closed");
    let name = "cache-evenkeel-warm-upgrade";
    let rule = |group: &str, kind: &str, names: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": [kind], "resourceNames": names, "verbs": verbs });
    let expected = json!([
        rule("apps", "statefulsets", &["cache-evenkeel"], &["get"]),
        rule("", "pods", &["cache-evenkeel-0", "cache-evenkeel-1"], &["get", "patch"]),
    ]);
    let roles: Vec<&Value> = rendered.of_kind("Role").collect();
    let [role] = roles.as_slice() else { panic!("expected one Role") };
    assert_eq!((&role["metadata"]["name"], &role["rules"]), (&name.into(), &expected));
    let binding = rendered.object("RoleBinding", name);
    assert_eq!(binding["roleRef"]["name"], name);
    let job = pod(rendered.object("Job", name));
    assert_eq!(binding["subjects"][0]["name"], job["serviceAccountName"]);
    rendered.object("ServiceAccount", name);
}

#[test]
fn the_job_runs_the_image_that_the_servers_get_after_an_upgrade_and_after_a_rollback() {
    for name in ["warm-upgrade", "warm-upgrade-closed"] {
        let rendered = rendered(name);
        let job = rendered.object("Job", "cache-evenkeel-warm-upgrade");
        assert_eq!(job["metadata"]["annotations"]["helm.sh/hook"], "post-upgrade,post-rollback");
        let image = |workload| containers(pod(workload)).next().map(|container| container["image"].clone());
        assert_eq!(image(job), image(rendered.object("StatefulSet", "cache-evenkeel")), "{name}");
        // Statuses of `evenkeel kube`: 69 may be another one the next time.
        let statuses = &job["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"];
        assert_eq!(*statuses, json!([1, 64, 71, 75]));
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
    }
    for name in ["default", "warm-upgrade-by-hand"] {
        let rendered = rendered(name);
        for kind in ["Job", "Role", "RoleBinding"] {
            assert_eq!(rendered.of_kind(kind).count(), 0, "{name}: {kind}");
        }
    }
}

#[test]
fn the_job_reaches_servers_whose_network_is_closed() {
    let rendered = rendered("warm-upgrade-closed");
    let labels =
        &rendered.object("Job", "cache-evenkeel-warm-upgrade")["spec"]["template"]["metadata"]["labels"];
    let admits = |policy: &Value| {
        elements(&policy["spec"]["ingress"]).iter().any(|rule| {
            rule["ports"] == json!([{ "port": "metrics" }])
                && elements(&rule["from"]).iter().any(|peer| peer["podSelector"]["matchLabels"] == *labels)
        })
    };
    assert!(admits(rendered.object("NetworkPolicy", "cache-evenkeel")));
    assert!(!admits(rendered.object("NetworkPolicy", "cache-evenkeel-router")));
    let own = &rendered.object("NetworkPolicy", "cache-evenkeel-warm-upgrade")["spec"];
    assert_eq!((&own["podSelector"]["matchLabels"], &own["ingress"]), (labels, &json!([])));
    let server = &rendered.object("StatefulSet", "cache-evenkeel")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(own["egress"][0]["to"][0]["podSelector"]["matchLabels"], *server);
}
