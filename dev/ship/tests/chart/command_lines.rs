//! Command lines of the rendered pods, and the files of flags that they name: the program accepts them all.

use super::{Rendered, Scratch, containers, elements, is_all, pod, text};
use checkout::target_directory;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program: that of `EVENKEEL_BIN`, or the one that cargo has built.
pub(super) fn evenkeel() -> Option<PathBuf> {
    let named = std::env::var_os("EVENKEEL_BIN").map(PathBuf::from);
    let path = named.unwrap_or_else(|| target_directory().join("debug/evenkeel"));
    if path.exists() || is_all() {
        return Some(path);
    }
    eprintln!("left out: there is no {} (cargo build, or EVENKEEL_BIN)", path.display());
    None
}

fn output(program: &Path, words: &[String]) -> Output {
    // The name of the pod, which agents have in their files.
    let output = Command::new(program).args(words).env("POD_NAME", "cache-evenkeel-0").output();
    output.unwrap_or_else(|error| panic!("start {}: {error}", program.display()))
}

/// What the program says of a command line that it does not accept. Nothing is started.
fn refusal(program: &Path, words: &[String]) -> Option<String> {
    let last = match words[0].as_str() {
        "serve" => "--check",
        "route" => "--validate-config",
        "agent" => "--check",
        // clap reads words in their order, and refuses a wrong one before it comes to this.
        _ => "--help",
    };
    let output = output(program, &[words, &[last.to_owned()]].concat());
    (!output.status.success())
        .then(|| format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
}

/// The folders of a pod, below a folder of the test.
struct Place {
    scratch: Scratch,
    /// Whether there is a certificate.
    has_certificate: bool,
}

impl Place {
    fn new() -> Place {
        let scratch = Scratch::new("command-lines");
        for folder in ["auth", "tls", "items", "flash", "run/evenkeel"] {
            fs::create_dir_all(scratch.0.join(folder)).expect("make a folder");
        }
        // An agent has written it before its router starts.
        fs::write(scratch.0.join("run/evenkeel/route.json"), "{\"route\": \"ErrorRoute\"}")
            .expect("write routes");
        fs::write(scratch.0.join("auth/users"), "shop:secret\n").expect("write users");
        let tls = scratch.0.join("tls");
        let mut openssl = Command::new("openssl");
        openssl.args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=cache".split(' '),
        );
        openssl.args([
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-addext",
            "subjectAltName=DNS:cache",
        ]);
        openssl.arg("-keyout").arg(tls.join("tls.key")).arg("-out").arg(tls.join("tls.crt"));
        let has_certificate = openssl.output().is_ok_and(|output| output.status.success());
        if has_certificate {
            fs::copy(tls.join("tls.crt"), tls.join("ca.crt")).expect("copy a certificate");
        } else {
            assert!(!is_all(), "there is no openssl (Debian: openssl)");
            eprintln!(
                "left out, of the command lines those with certificates: there is no openssl (Debian: openssl)"
            );
        }
        Place { scratch, has_certificate }
    }

    /// A text with the paths of a pod, with those of this place.
    fn moved(&self, words: &str) -> String {
        let to = |path: &str| format!("{}{path}", self.scratch.0.display());
        ["/etc/evenkeel/", "/run/evenkeel/", "/auth/", "/tls/", "/items/", "/flash/"]
            .iter()
            .fold(words.to_owned(), |words, path| words.replace(path, &to(path)))
    }

    /// Puts the files of a ConfigMap where a container has them.
    fn write(&self, configuration: &Value) {
        let folder = self.scratch.0.join("etc/evenkeel");
        fs::create_dir_all(&folder).expect("make a folder");
        for (name, contents) in configuration["data"].as_object().expect("it has data") {
            fs::write(folder.join(name), self.moved(text(contents))).expect("write a file of a ConfigMap");
        }
    }
}

#[test]
fn every_command_line_is_accepted() {
    let Some(program) = evenkeel() else { return };
    let help = output(&program, &["serve".to_owned(), "--help".to_owned()]);
    if !String::from_utf8_lossy(&help.stdout).contains("--check") {
        assert!(!is_all(), "{} has no `serve --check`", program.display());
        return eprintln!("left out: {} has no `serve --check`", program.display());
    }
    let place = Place::new();
    let (mut accepted, mut refused) = (0, Vec::new());
    for rendered in Rendered::all() {
        if (rendered.name.starts_with("tls") || rendered.name == "control-etcd") && !place.has_certificate {
            continue;
        }
        for workload in rendered.workloads() {
            let pod = pod(workload);
            for container in
                containers(pod).filter(|container| text(&container["image"]).contains("evenkeel"))
            {
                if let Some(configuration) = rendered.configuration(pod, container) {
                    place.write(configuration);
                }
                let hook = &container["lifecycle"]["preStop"]["exec"]["command"];
                let lines = [elements(&container["args"]), elements(hook).get(1..).unwrap_or_default()];
                for line in lines.iter().filter(|line| !line.is_empty()) {
                    let words: Vec<String> = line.iter().map(|word| place.moved(text(word))).collect();
                    match refusal(&program, &words) {
                        Some(why) => refused.push(format!("{}: {why}", rendered.name)),
                        None => accepted += 1,
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted >= 30, "command lines are missed");
}

/// Without this, a program that accepts everything would pass.
#[test]
fn a_flag_that_nobody_knows_is_refused() {
    let Some(program) = evenkeel() else { return };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for line in ["serve --memory-limits=64", "tune watch --repairs=never", "tune apply --profile=memcache"] {
        assert!(refusal(&program, &words(line)).is_some(), "`{line}` is accepted");
    }
}
