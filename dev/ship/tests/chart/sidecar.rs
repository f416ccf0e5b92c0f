//! The router as a sidecar: a chart of an application that depends on this one.

use super::{Rendered, Scratch, cases, chart, elements, files, helm, objects, pod, read, rendering::render};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().expect("start cp");
    assert!(status.success(), "cp -r {} {}", from.display(), to.display());
}

/// What the application's chart renders, with these values.
fn rendered(values: &[&str]) -> Option<Rendered> {
    let helm = helm()?;
    let scratch = Scratch::new(&format!("sidecar-{}", values.len()));
    let app = scratch.0.join("app");
    copy(&cases().join("app"), &app);
    fs::create_dir(app.join("charts")).expect("make a folder");
    copy(&chart(), &app.join("charts"));
    let text = render(&helm, &app, values).unwrap_or_else(|why| panic!("{why}"));
    Some(Rendered { name: "app".to_owned(), objects: objects(&text).expect("read what Helm writes") })
}

#[test]
fn an_application_has_a_router_of_its_own() {
    let Some(rendered) = rendered(&[]) else { return };
    let application = pod(rendered.object("Deployment", "shop"));
    let [sidecar] = elements(&application["initContainers"]) else { panic!("expected one container before") };
    assert_eq!(sidecar["restartPolicy"], "Always", "without it, the application would wait for its end");
    let flags = rendered.flags(application, sidecar);
    assert!(
        flags.contains(&"--listen-addresses=127.0.0.1") && flags.contains(&"--port=11211"),
        "{}",
        flags.join(" ")
    );
    assert_eq!(sidecar["ports"], json!([{"name": "router-metrics", "containerPort": 9442}]));
    assert_eq!(sidecar["startupProbe"]["httpGet"]["port"], "router-metrics");
    // The pod's own security context is the application's.
    let context = &sidecar["securityContext"];
    assert_eq!([&context["runAsNonRoot"], &context["readOnlyRootFilesystem"]], [true, true]);
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    assert!(rendered.workloads().all(|workload| workload["kind"] != "DaemonSet"), "there are other routers");
}

#[test]
fn a_sidecar_speaks_tls_to_servers_and_none_to_its_application() {
    let tls = ["--set", "evenkeel.tls.enabled=true", "--set", "evenkeel.tls.existingSecret=certificate"];
    let Some(rendered) = rendered(&tls) else { return };
    let application = pod(rendered.object("Deployment", "shop"));
    let flags = rendered.flags(application, &application["initContainers"][0]);
    assert!(flags.contains(&"--ssl-verify-peers") && flags.contains(&"--port=11211"), "{}", flags.join(" "));
    assert!(!flags.iter().any(|flag| flag.starts_with("--ssl-port")), "{}", flags.join(" "));
    let volumes = elements(&application["volumes"]).iter();
    let secrets: Vec<&str> = volumes.filter_map(|volume| volume["secret"]["secretName"].as_str()).collect();
    assert_eq!(secrets, ["certificate"]);
}

/// The page shows the template of the test's application.
#[test]
fn the_page_shows_the_application_that_is_tried() {
    let page = read(&checkout::workspace().join("docs/kubernetes.md"));
    let (_, template) =
        files(&cases().join("app/templates")).into_iter().next().expect("the application has a template");
    for line in read(&template).lines().filter(|line| line.contains("evenkeel.routerSidecar")) {
        assert!(page.contains(line.trim()), "the page lacks `{}`", line.trim());
    }
}
