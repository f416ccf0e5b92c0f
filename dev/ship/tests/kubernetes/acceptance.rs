//! Objects of the chart at a real API server, which looks at what no schema says.

use super::cluster::Cluster;
use checkout::workspace;
use std::fs;

/// Kinds of others, which this cluster does not have.
const FOREIGN: [&str; 3] = ["Certificate", "PrometheusRule", "ServiceMonitor"];

/// All value files' objects, as they are rendered.
pub(super) fn every_object_of_the_chart_is_accepted(cluster: &Cluster) {
    for namespace in ["shop", "monitoring"] {
        cluster.told(&["create", "namespace", namespace]);
    }
    let folder = workspace().join("deploy/helm/tests/golden");
    let mut counted = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let is_foreign =
            |object: &&str| FOREIGN.iter().any(|kind| object.contains(&format!("\nkind: {kind}\n")));
        let objects: Vec<&str> = text.split("\n---\n").filter(|object| !is_foreign(object)).collect();
        counted += objects.iter().filter(|object| object.contains("kind:")).count();
        let file = cluster.file("objects.yaml", &objects.join("\n---\n"));
        let output =
            cluster.kubectl(&["create", "--dry-run=server", "--filename", &file.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("Warning"), "{}: {said}", path.display());
    }
    assert!(counted > 150, "only {counted} objects");
    println!("the API server accepts {counted} objects of the chart");
}

/// The same server refuses what is wrong with them.
pub(super) fn what_is_wrong_is_refused(cluster: &Cluster) {
    let golden = workspace().join("deploy/helm/tests/golden/warm-upgrade.yaml");
    let golden = fs::read_to_string(golden).unwrap();
    let check = |from: &str, to: &str, expected: &str| {
        assert!(golden.contains(from), "{from}");
        let file = cluster.file("wrong.yaml", &golden.replace(from, to));
        let output =
            cluster.kubectl(&["create", "--dry-run=server", "--filename", &file.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{from} -> {to}: {said}");
    };
    check("readinessProbe:", "readynessProbe:", "readynessProbe");
    check("periodSeconds: 1", "periodSeconds: -1", "greater than or equal to 0");
    check("type: OnDelete", "type: OnDeletion", "OnDeletion");
}
