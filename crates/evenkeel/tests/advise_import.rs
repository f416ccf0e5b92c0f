//! `evenkeel advise import` as a process: what it writes, where notes go, and how it refuses.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const MOTO: &str = r#"{"x9.large": {"VCpuInfo": {"DefaultVCpus": 2, "DefaultThreadsPerCore": 2},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "SustainedClockSpeedInGhz": 3.5},
    "MemoryInfo": {"SizeInMiB": 16384}, "NetworkInfo": {}, "InstanceStorageSupported": false}}"#;
const PRICES: &str = "// generated at 2026-07-20T13:44:30Z for r-1\n\
    var InitialOnDemandPricesAWS = map[string]map[T]float64{\"r-1\": {\"x9.small\": 0.25}}\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("evenkeel-import-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("types.json"), MOTO).unwrap();
        fs::write(folder.join("prices.go"), PRICES).unwrap();
        Folder(folder)
    }

    fn import(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.current_dir(&self.0).args(["advise", "import"]).args(words.split(' ')).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_catalogue_is_written_and_notes_go_to_standard_error() {
    let folder = Folder::new("written");
    let shown = folder.import("--moto types.json --moto-version 1.2 --karpenter-prices prices.go --karpenter-version 3 --region r-1");
    let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
    assert!(shown.status.success(), "{err}");
    assert!(
        out.contains("name = \"x9.large\"")
            && out.contains("clock_ghz = 3.5")
            && out.contains("version = \"1.2\""),
        "{out}"
    );
    assert!(err.contains("x9.large: no price in r-1"), "{err}");
    let written = folder.import("--moto types.json --moto-version 1.2 --out shapes.toml");
    assert!(written.status.success() && written.stdout.is_empty());
    // What was written can be put over another import.
    let again = folder.import("--moto types.json --moto-version 1.2 --over shapes.toml");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(again.stdout, fs::read(folder.0.join("shapes.toml")).unwrap());
}

#[track_caller]
fn refused(folder: &Folder, words: &str, status: i32, expected: &str) {
    let output = folder.import(words);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(status) && err.contains(expected), "{:?}: {err}", output.status);
    assert!(output.stdout.is_empty(), "half a catalogue");
}

#[test]
fn what_cannot_be_imported_is_told_with_what_is_accepted() {
    let folder = Folder::new("refused");
    refused(&folder, "--region r-1", 64, "expected a file with shapes, found none");
    refused(&folder, "--moto types.json", 64, "--moto-version");
    refused(&folder, "--moto none.json --moto-version 1", 71, "read none.json");
    refused(
        &folder,
        "--moto prices.go --moto-version 1",
        1,
        "expected JSON with an object for each instance type",
    );
    refused(&folder, "--moto types.json --moto-version 1 --families x8", 64, "did you mean `x9`?");
    let prices = "--moto types.json --moto-version 1 --karpenter-version 1 --karpenter-prices prices.go";
    refused(&folder, prices, 1, "expected prices of the region us-east-1, found those of r-1");
    refused(&folder, "--gce-prices prices.go --autoscaler-version 1", 64, "--gce-region");
    refused(
        &folder,
        "--moto types.json --moto-version 1 --out no/folder/shapes.toml",
        71,
        "write no/folder/shapes.toml",
    );
}
