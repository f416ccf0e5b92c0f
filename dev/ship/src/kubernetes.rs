//! Programs of Kubernetes, built from its Go module: an API server, a controller manager, a scheduler, a kubelet.
//!
//! Kubernetes publishes its parts (`k8s.io/api`, …) as modules of their own and replaces them by folders of its repository, which the
//! module does not contain. So its programs are built as those of a module that names the published parts.

use crate::chart::schemas::{KUBERNETES, module};
use crate::programs::run;
use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs.
pub const PROGRAMS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"];

/// How a part of Kubernetes is replaced in its go.mod.
const REPLACED: &str = " => ./staging/src/";

/// The folder with the programs, built if one is missing; that takes a quarter of an hour of CPU time once.
///
/// # Errors
/// Reports that Go is missing, or what it says.
pub fn programs() -> Result<PathBuf> {
    let folder = folder();
    for name in PROGRAMS.iter().filter(|name| !folder.join(name).exists()) {
        eprintln!("{name} {KUBERNETES} is built once, which takes minutes");
        let source = folder.join("source");
        fs::create_dir_all(&source).with_context(|| format!("make {}", source.display()))?;
        let of_kubernetes = module()?.join("go.mod");
        let of_kubernetes = fs::read_to_string(&of_kubernetes)
            .with_context(|| format!("read {}", of_kubernetes.display()))?;
        fs::write(source.join("go.mod"), manifest(&of_kubernetes)?).context("write go.mod")?;
        build(&source, name)?;
        // The name comes last: half a program must not be there.
        fs::rename(source.join(name), folder.join(name)).with_context(|| format!("place {name}"))?;
    }
    Ok(folder)
}

/// Whether all of them are built.
#[must_use]
pub fn are_built() -> bool {
    PROGRAMS.iter().all(|name| folder().join(name).exists())
}

fn folder() -> PathBuf {
    target_directory().join("programs").join(format!("kubernetes-{KUBERNETES}"))
}

fn build(source: &Path, name: &str) -> Result<()> {
    let variable = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let mut numbers = KUBERNETES.split('.');
    // Without them, `helm` sees version 0.0.0, which no chart is for.
    let flags = [
        "-s -w".to_owned(),
        variable("gitVersion", &format!("v{KUBERNETES}")),
        variable("gitMajor", numbers.next().unwrap_or_default()),
        variable("gitMinor", numbers.next().unwrap_or_default()),
    ];
    let mut go = Command::new("go");
    go.args(["build", "-mod=mod", "-trimpath", "-ldflags", &flags.join(" "), "-o", "./"]);
    go.arg(format!("k8s.io/kubernetes/cmd/{name}")).current_dir(source).env("CGO_ENABLED", "0");
    run(&mut go)
}

/// The go.mod of a module that builds them, from that of Kubernetes.
fn manifest(of_kubernetes: &str) -> Result<String> {
    let line = |start: &str| of_kubernetes.lines().find(|line| line.starts_with(start));
    let go = line("go ").context("the go.mod of Kubernetes names no version of Go")?;
    let settings = line("godebug ").unwrap_or_default();
    let mut manifest = format!(
        "module kubernetes.programs\n\n{go}\n{settings}\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n"
    );
    let part = |line: &str| line.split_once(REPLACED).map(|(name, _)| name.trim().to_owned());
    let parts: Vec<String> = of_kubernetes.lines().filter_map(part).collect();
    ensure!(!parts.is_empty(), "the go.mod of Kubernetes replaces no part of it by a folder");
    let version = KUBERNETES.trim_start_matches("1.");
    for part in parts {
        let _ = writeln!(manifest, "replace {part} => {part} v0.{version}");
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_kubernetes_are_replaced_by_published_ones() {
        let of_kubernetes = "module k8s.io/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let expected = "module kubernetes.programs\n\ngo 1.24.0\ngodebug default=go1.24\n\nrequire k8s.io/kubernetes v1.34.4\nreplace k8s.io/api => k8s.io/api v0.34.4\n";
        assert_eq!(manifest(of_kubernetes).unwrap(), expected);
        assert!(manifest("go 1.24.0\n").is_err());
    }
}
