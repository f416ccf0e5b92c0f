//! The Helm chart: what it renders, what it refuses, and whether its parts agree with each other, the program and the pages.

use anyhow::Result;
use checkout::{target_directory, workspace};
use serde_json::Value;
use ship::chart::{CHART, KUBECONFORM, yaml};
use ship::programs::{GoProgram, HELM};
use std::fs;
use std::path::{Path, PathBuf};

mod agreement;
mod command_lines;
mod control;
mod memory;
mod pages;
mod pods;
mod rendering;
mod sidecar;
mod warm_upgrade;

/// Value files, with `golden` and `refused` beside them.
fn cases() -> PathBuf {
    workspace().join("deploy/helm/tests")
}

fn chart() -> PathBuf {
    workspace().join(CHART)
}

/// The YAML files of a folder, by their names without `.yaml`.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).expect("list a folder of the chart's tests");
    let paths = entries.map(|entry| entry.expect("list a folder of the chart's tests").path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let name = |path: &PathBuf| path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let mut files: Vec<(String, PathBuf)> = yaml.map(|path| (name(&path), path)).collect();
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Everything that was rendered of a value file. Rules of Prometheus are left out: they are another file's, and long.
struct Rendered {
    /// The name of the value file.
    name: String,
    objects: Vec<Value>,
}

impl Rendered {
    /// All of the golden files.
    fn all() -> Vec<Rendered> {
        let all: Vec<Rendered> = files(&cases().join("golden"))
            .into_iter()
            .map(|(name, path)| {
                let objects = objects(&read(&path)).unwrap_or_else(|error| panic!("{name}: {error:#}"));
                Rendered { name, objects }
            })
            .collect();
        assert!(all.len() >= 12, "golden files are missed");
        all
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    /// The object of this kind and name.
    #[track_caller]
    fn object(&self, kind: &str, name: &str) -> &Value {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.objects.iter().find(is_it).unwrap_or_else(|| panic!("{}: there is no {kind} {name}", self.name))
    }

    /// The StatefulSet of the servers.
    #[track_caller]
    fn servers(&self) -> &Value {
        let is_it = |set: &&Value| set["metadata"]["labels"]["app.kubernetes.io/component"] == "cache";
        self.of_kind("StatefulSet").find(is_it).expect("there are servers")
    }

    /// Objects with pods.
    fn workloads(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| !object["spec"]["template"].is_null())
    }

    /// The ConfigMap that a container of this pod has at /etc/evenkeel.
    fn configuration(&self, pod: &Value, container: &Value) -> Option<&Value> {
        let mut mounts = elements(&container["volumeMounts"]).iter();
        let volume = &mounts.find(|mount| mount["mountPath"] == "/etc/evenkeel")?["name"];
        let volume = elements(&pod["volumes"]).iter().find(|found| found["name"] == *volume)?;
        Some(self.object("ConfigMap", text(&volume["configMap"]["name"])))
    }

    /// The flags that a container of this pod reads from a file, which a word of its arguments names.
    fn flags(&self, pod: &Value, container: &Value) -> Vec<&str> {
        let mut words = elements(&container["args"]).iter().filter_map(Value::as_str);
        let file = words.find_map(|word| word.strip_prefix("@/etc/evenkeel/"));
        let Some((file, configuration)) = file.zip(self.configuration(pod, container)) else {
            return Vec::new();
        };
        let lines = text(&configuration["data"][file]).lines();
        lines.filter(|line| !line.starts_with('#')).collect()
    }
}

/// The value of a flag, the last one that is given.
fn value_of<'a>(flags: &[&'a str], flag: &str) -> Option<&'a str> {
    flags.iter().rev().find_map(|line| line.strip_prefix(flag)?.strip_prefix('='))
}

/// All containers of a pod.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    elements(&pod["initContainers"]).iter().chain(elements(&pod["containers"]))
}

/// The pod of an object with pods.
fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]["spec"]
}

fn objects(text: &str) -> Result<Vec<Value>> {
    let others: Vec<&str> =
        text.split("\n---\n").filter(|part| !part.contains("\nkind: PrometheusRule\n")).collect();
    yaml::documents(&others.join("\n---\n"))
}

/// The elements of an array; none of what is no array.
fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("expected a text, found {value}"))
}

/// Whether tests that take long, or need programs, are demanded.
fn is_all() -> bool {
    std::env::var_os("EVENKEEL_TEST_ALL").is_some_and(|value| value == "1")
}

/// A program that is built already; with `EVENKEEL_TEST_ALL=1` it is built. Otherwise a line says what is left out.
fn program(program: GoProgram) -> Option<PathBuf> {
    let path = target_directory().join("programs").join(program.version).join(program.name);
    if path.exists() || is_all() {
        return Some(program.path().expect("Go builds its programs"));
    }
    let GoProgram { name, package, version } = program;
    eprintln!("left out: there is no {name} (go install {package}@{version}, or EVENKEEL_TEST_ALL=1)");
    None
}

fn helm() -> Option<PathBuf> {
    program(HELM)
}

fn kubeconform() -> Option<PathBuf> {
    program(KUBECONFORM)
}

/// A folder of one test, which goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("evenkeel-chart-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("make a folder for a test");
        Scratch(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
