//! Rendering by Helm: golden files, refusals, schemas of Kubernetes, and the same bytes each time.

use super::{Scratch, cases, chart, files, helm, kubeconform, read};
use checkout::{target_directory, workspace};
use ship::chart::schemas;
use ship::{Artefact, Workshop};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The version that manifests are rendered for. Helm built by `go install` believes in 1.20.
const KUBE_VERSION: &str = "1.34.0";

/// Kinds that the chart makes and Kubernetes has.
const KINDS: [&str; 13] = [
    "ConfigMap",
    "DaemonSet",
    "Deployment",
    "Job",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "StatefulSet",
    "Pod",
];

/// Kinds of operators, of which there is no schema here.
const FOREIGN_KINDS: &str = "Certificate,PrometheusRule,ServiceMonitor";

/// An object whose text is what Helm prints after an installation; `helm template` prints that nowhere.
const NOTES: &str = r#"extraDeploy=["apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: notes\ndata:\n  notes: |\n    {{- include \"evenkeel.notes\" . | nindent 4 }}\n"]"#;

/// Renders a chart in the namespace `shop`, or returns what Helm says.
pub(super) fn render(helm: &Path, chart: &Path, words: &[&str]) -> Result<String, String> {
    let scratch = Scratch::new("helm");
    let mut command = ship::chart::helm(helm, &scratch.0);
    command
        .args(["template", "cache", "--namespace", "shop", "--kube-version", KUBE_VERSION])
        .arg(chart)
        .args(words);
    let output = command.output().expect("start helm");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("Helm writes text")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The golden file of a value file: what is printed after an installation as comments, then all objects.
fn golden(helm: &Path, values: &Path) -> String {
    let values = values.to_str().expect("a path is text");
    let only_notes = [
        "--values",
        values,
        "--set-json",
        NOTES,
        "--set-json",
        "extraObjects=[]",
        "--show-only",
        "templates/extra.yaml",
    ];
    let notes = render(helm, &chart(), &only_notes).unwrap_or_else(|why| panic!("{values}: {why}"));
    let (_, notes) = notes.split_once("  notes: |\n").expect("the notes are rendered");
    let comments: String = notes
        .trim()
        .lines()
        .map(|line| format!("# {}\n", line.strip_prefix("    ").unwrap_or(line)))
        .collect();
    let objects =
        render(helm, &chart(), &["--values", values]).unwrap_or_else(|why| panic!("{values}: {why}"));
    let text = format!("# What the chart makes of this value file. Helm prints:\n#\n{comments}{objects}");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// `EVENKEEL_TEST_WRITE=1` writes the golden files.
#[test]
fn value_files_render_as_their_golden_files() {
    let Some(helm) = helm() else { return };
    let folder = cases().join("golden");
    let all = files(&cases());
    for (name, values) in &all {
        let path = folder.join(format!("{name}.yaml"));
        let text = golden(&helm, values);
        if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
            fs::write(&path, text).expect("write a golden file");
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        let differs = text.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
        let line = differs.unwrap_or_else(|| text.lines().count().min(expected.lines().count()));
        let found = text.lines().nth(line).unwrap_or("the end");
        assert!(
            text == expected,
            "{name}: line {} is now `{found}`. If that is meant: EVENKEEL_TEST_WRITE=1 cargo test -p ship --test main chart",
            line + 1
        );
    }
    let names = |files: &[(String, _)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&all),
        names(&files(&folder)),
        "each value file has a golden file, and each golden file a value file"
    );
}

#[test]
fn value_files_that_make_no_sense_are_refused_with_a_reason() {
    let Some(helm) = helm() else { return };
    let refused = files(&cases().join("refused"));
    assert!(refused.len() >= 12, "value files are missed");
    for (name, values) in refused {
        let text = read(&values);
        let expected = text.lines().next().and_then(|line| line.strip_prefix("# Refused: "));
        let expected = expected
            .unwrap_or_else(|| panic!("{name}: expected `# Refused: ` and the reason in the first line"));
        let said = render(&helm, &chart(), &["--values", values.to_str().expect("a path is text")]);
        let said = said.expect_err(&format!("{name} is accepted"));
        assert!(said.contains(expected), "{name}: expected `{expected}`, found `{said}`");
    }
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let Some(helm) = helm() else { return };
    let scratch = Scratch::new("lint");
    // One after the other: several value files would add up.
    for (name, values) in files(&cases()) {
        let mut lint = ship::chart::helm(&helm, &scratch.0);
        lint.args(["lint", "--strict", "--kube-version", KUBE_VERSION, "--values"]).arg(values).arg(chart());
        let output = lint.output().expect("start helm");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn every_field_is_one_that_kubernetes_has() {
    let Some(kubeconform) = kubeconform() else { return };
    let folder =
        target_directory().join(format!("kubernetes-schemas-{}-{}", schemas::KUBERNETES, KINDS.len()));
    schemas::made(&folder, &KINDS).expect("make schemas of Kubernetes");
    let mut check = Command::new(kubeconform);
    check.args([
        "-strict",
        "-summary",
        "-skip",
        FOREIGN_KINDS,
        "-schema-location",
        &schemas::location(&folder),
    ]);
    let golden = check.args(files(&cases().join("golden")).into_iter().map(|(_, path)| path)).output();
    let said = String::from_utf8(golden.expect("start kubeconform").stdout).expect("it writes text");
    assert!(said.contains("Invalid: 0, Errors: 0, "), "{said}");

    // The schemas are strict, or this would find nothing.
    let scratch = Scratch::new("misspelt");
    let path = scratch.0.join("pod.yaml");
    let container = "- name: a\n      readynessProbe: {}\n";
    fs::write(
        &path,
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    {container}"),
    )
    .expect("write a manifest");
    let mut check = Command::new(super::kubeconform().expect("it was there"));
    let misspelt =
        check.args(["-strict", "-schema-location", &schemas::location(&folder)]).arg(path).output();
    let said = String::from_utf8(misspelt.expect("start kubeconform").stdout).expect("it writes text");
    assert!(said.contains("'readynessProbe' not allowed"), "{said}");
}

#[test]
fn two_packages_of_the_chart_are_equal() {
    let Some(helm) = helm() else { return };
    let scratch = Scratch::new("package");
    let packed = ["first", "second"].map(|run| {
        let out = scratch.0.join(run);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let workshop = Workshop {
            root: workspace(),
            out,
            binary: "none".into(),
            static_binary: None,
            speaker: "none".into(),
            version,
            epoch_s: 1_700_000_000,
            keys: None,
        };
        let made = ship::chart::make(&workshop).expect("pack the chart");
        let [Artefact { path }] = made.as_slice() else { panic!("expected one file") };
        assert_eq!(path.file_name().unwrap(), concat!("evenkeel-", env!("CARGO_PKG_VERSION"), ".tgz"));
        fs::read(path).expect("read the package")
    });
    assert!(packed[0] == packed[1], "the packages differ");

    // It can be used as it is.
    let archive = scratch.0.join("first").join(concat!("evenkeel-", env!("CARGO_PKG_VERSION"), ".tgz"));
    let [packed, unpacked] =
        [archive, chart()].map(|chart| render(&helm, &chart, &[]).expect("render the chart"));
    assert!(packed == unpacked, "the package renders otherwise than its sources");
}
