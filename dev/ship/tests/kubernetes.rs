//! A real Kubernetes: API server, controllers, scheduler, kubelet and containerd, in namespaces of this test.
//!
//! It takes a quarter of an hour of CPU time once, to build them, and some minutes each time: `EVENKEEL_TEST_KUBERNETES=1`.
//! The network has no name server and enforces no NetworkPolicy; pods get addresses of one bridge.

mod acceptance;
mod cluster;
mod images;
mod isolation;
mod traffic;
mod upgrade;

use crate::tools::{binary, have, is_thorough, leave_out};
use cluster::Cluster;
use ship::commands::said;
use ship::programs::HELM;
use std::process::Command;

/// Debian's programs, and those that every host has.
const PROGRAMS: [(&str, &str); 11] = [
    ("containerd", "Debian: containerd"),
    ("ctr", "Debian: containerd"),
    ("runc", "Debian: runc"),
    ("kubectl", "Debian: kubernetes-client"),
    ("umoci", "Debian: umoci"),
    ("skopeo", "Debian: skopeo"),
    ("openssl", "Debian: openssl"),
    ("unshare", "Debian: util-linux"),
    ("setpriv", "Debian: util-linux"),
    ("ip", "Debian: iproute2"),
    ("go", "Debian: golang-go, 1.24 or later"),
];

#[test]
fn servers_on_kubernetes_are_upgraded_with_their_items() {
    const NAME: &str = "kubernetes::servers_on_kubernetes_are_upgraded_with_their_items";
    if !isolation::is_inner() {
        if !is_possible() {
            return;
        }
        let Some(binary) = binary() else { return };
        // Both take long, and need the network that the inner run has not.
        ship::kubernetes::programs().expect("programs of Kubernetes");
        HELM.path().expect("helm");
        let work = isolation::work_folder();
        images::make(&binary, &work);
        isolation::run_inside(NAME, &work);
        return;
    }
    let cluster = Cluster::start(&isolation::work_folder());
    acceptance::every_object_of_the_chart_is_accepted(&cluster);
    acceptance::what_is_wrong_is_refused(&cluster);
    upgrade::all(&cluster);
    cluster.end();
}

fn is_possible() -> bool {
    let is_asked_for = std::env::var_os("EVENKEEL_TEST_KUBERNETES").is_some_and(|value| value == "1");
    if !is_asked_for && !is_thorough() {
        return leave_out("a real Kubernetes (EVENKEEL_TEST_KUBERNETES=1 has it)");
    }
    let is_root = said(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let has_etcd = cluster::etcd().is_some() || leave_out("there is no etcd (Debian: etcd-server)");
    let has_plugins = cluster::network_plugins().is_some()
        || leave_out("there are no network plugins (Debian: containernetworking-plugins)");
    have(&PROGRAMS)
        && has_etcd
        && has_plugins
        && (is_root || leave_out("a real Kubernetes, which only root can start"))
}
