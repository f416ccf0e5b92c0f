//! `evenkeel load --kubernetes-job`: its output is YAML, and the commands in it work, with a `kubectl` without a
//! cluster.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// Records its arguments. `exec` runs the command here instead of in a pod.
const KUBECTL: &str = r#"#!/bin/sh
echo "$@" >> calls
case "$1 $2" in
"get pods") echo evenkeel-load-0-ab1cd evenkeel-load-1-ef2gh ;;
"exec -i") [ "$4 $5 $6" = "-c agent --" ] && shift 6 && exec "$@" ;;
esac
"#;

/// A folder with that `kubectl`, `evenkeel` and the manifest.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, flags: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("evenkeel-kubernetes-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kubectl"), KUBECTL).unwrap();
        fs::set_permissions(folder.join("kubectl"), PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(EVENKEEL, folder.join("evenkeel")).unwrap();
        let words = flags.split_ascii_whitespace();
        let printed = Command::new(EVENKEEL).arg("load").args(words).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        fs::write(folder.join("load.yaml"), printed.stdout).unwrap();
        Folder(folder)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The address of a server that has no items.
fn empty_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that disconnects ends the thread.
            thread::spawn(move || {
                BufReader::new(&stream).lines().try_for_each(|line| line.and((&stream).write_all(b"END\r\n")))
            });
        }
    });
    address
}

#[test]
fn the_printed_commands_generate_the_load() {
    let load = "--rate 1000 --requests 400 --connections 4 --warm-up 0 --json result.json";
    let flags = format!("--kubernetes-job 2 --image x --server {} {load}", empty_server());
    let folder = Folder::new("commands", &flags);
    let manifest = folder.read("load.yaml");
    let commands: Vec<&str> = manifest.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &commands.join("\n")]).current_dir(&folder.0).env("PATH", path);
    let Output { status, stdout, stderr } = shell.output().unwrap();
    let said = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{said}{}", String::from_utf8_lossy(&stderr));
    assert!(said.contains("  agent     evenkeel-load-1-ef2gh: "), "{said}");
    let summary: Value = serde_json::from_str(&folder.read("result.json")).unwrap();
    assert_eq!(summary["requests"], 400);
    let calls = folder.read("calls");
    let mut calls: Vec<&str> = calls.lines().collect();
    // The agents are started at the same time.
    calls[3..5].sort_unstable();
    let selected =
        "get pods -l batch.kubernetes.io/job-name=evenkeel-load -o jsonpath={.items[*].metadata.name}";
    let exec = |pod| format!("exec -i evenkeel-load-{pod} -c agent -- evenkeel load --agent");
    assert_eq!(
        calls,
        [
            "apply -f load.yaml",
            "wait --for=jsonpath={.status.ready}=2 --timeout=10m job/evenkeel-load",
            selected,
            &exec("0-ab1cd"),
            &exec("1-ef2gh"),
            "delete job/evenkeel-load",
        ]
    );
}

#[test]
fn the_manifest_is_an_indexed_job() {
    let folder = Folder::new(
        "yaml",
        "--kubernetes-job 4 --image a.b:5000/evenkeel:0.1.0 --server c:11211 --threads 3",
    );
    // Debian's package, for Debian's own Python.
    let read = "import json, yaml; print(json.dumps(list(yaml.safe_load_all(open('load.yaml')))))";
    let Ok(parsed) = Command::new("/usr/bin/python3").args(["-c", read]).current_dir(&folder.0).output()
    else {
        return eprintln!("there is no python3 here");
    };
    let why = String::from_utf8_lossy(&parsed.stderr);
    if why.contains("No module named 'yaml'") {
        return eprintln!("there is no python3-yaml here");
    }
    assert!(parsed.status.success(), "{why}");
    let documents: Value = serde_json::from_slice(&parsed.stdout).unwrap();
    let labels = json!({ "app.kubernetes.io/name": "evenkeel-load" });
    let resources = json!({ "cpu": 4, "memory": "1Gi" });
    let wanted = json!([{
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "evenkeel-load" },
        "spec": {
            "completionMode": "Indexed",
            "completions": 4,
            "parallelism": 4,
            "backoffLimit": 0,
            "activeDeadlineSeconds": 3611,
            "ttlSecondsAfterFinished": 600,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 1,
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": { "matchLabels": labels },
                    }] } },
                    "containers": [{
                        "name": "agent",
                        "image": "a.b:5000/evenkeel:0.1.0",
                        "command": ["evenkeel", "load", "--agent"],
                        "stdin": true,
                        "resources": { "requests": resources, "limits": resources },
                    }],
                },
            },
        },
    }]);
    assert_eq!(documents, wanted);
}
