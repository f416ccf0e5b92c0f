//! Files that become a catalogue, on disk.

use std::fs;

use super::*;

const MOTO: &str = r#"{"x9.large": {"VCpuInfo": {"DefaultVCpus": 2, "DefaultThreadsPerCore": 2},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}, "MemoryInfo": {"SizeInMiB": 16384},
    "NetworkInfo": {"DefaultNetworkCardIndex": 0, "NetworkCards": [{"NetworkCardIndex": 0, "BaselineBandwidthInGbps": 0.75}]},
    "InstanceStorageSupported": false},
  "x9.xlarge": {"VCpuInfo": {"DefaultVCpus": 4, "DefaultThreadsPerCore": 2},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}, "MemoryInfo": {"SizeInMiB": 32768}, "NetworkInfo": {}},
  "y1.large": {"VCpuInfo": {"DefaultVCpus": 1, "DefaultThreadsPerCore": 1},
    "ProcessorInfo": {"SupportedArchitectures": ["arm64"]}, "MemoryInfo": {"SizeInMiB": 512}, "NetworkInfo": {}}}"#;
const PRICES: &str = "// generated at 2026-07-20T13:44:30Z for r-1\n\
    var InitialOnDemandPricesAWS = map[string]map[T]float64{\"r-1\": {\"x9.large\": 0.5, \"y1.large\": 0.05}}\n";
const BANDWIDTH: &str =
    "var InstanceTypeBandwidthMegabits = map[string]int64{\"x9.large\": 700, \"x9.xlarge\": 1250}\n";

/// Files of one test, in a folder that goes with it.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("evenkeel-advise-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Files(folder)
    }

    fn path(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    fn source(&self, name: &str, text: &str) -> Option<SourceFile> {
        Some(SourceFile { path: self.path(name, text), version: "1.2".into() })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn aws(files: &Files, families: &str) -> ImportRequest {
    ImportRequest {
        moto: files.source("types.json", MOTO),
        karpenter_prices: files.source("prices.go", PRICES),
        karpenter_bandwidth: files.source("bandwidth.go", BANDWIDTH),
        region: "r-1".into(),
        families: families.into(),
        ..ImportRequest::default()
    }
}

#[test]
fn files_become_a_catalogue_in_which_every_figure_has_its_source() {
    let files = Files::new("whole");
    let imported = import(&aws(&files, "x9")).expect("a catalogue");
    assert_eq!(
        imported.notes,
        [
            "x9.large: baseline_gbit is 0.75 for moto and 0.7 for karpenter, the smaller is kept",
            "x9.xlarge: no price in r-1",
        ]
    );
    assert_eq!(
        imported.catalogue.to_toml().split_once("\n[[shape]]").expect("shapes").1,
        r#"
name = "x9.large"
cloud = "aws"
family = "x9"
source = "moto"
architecture = "x86_64"
vcpus = 2
threads_per_core = 2
memory_gib = 16
baseline_gbit = 0.7
disks = { count = 0 }
prices = [{ region = "r-1", date = "2026-07-20", usd_per_hour = 0.5, source = "karpenter-prices" }]
origins = { baseline_gbit = "karpenter-bandwidth" }

[[shape]]
name = "x9.xlarge"
cloud = "aws"
family = "x9"
source = "moto"
architecture = "x86_64"
vcpus = 4
threads_per_core = 2
memory_gib = 32
baseline_gbit = 1.25
origins = { baseline_gbit = "karpenter-bandwidth" }
"#
    );
    let version = imported.catalogue.source("moto").and_then(|source| source.version.clone());
    assert_eq!(version.as_deref(), Some("1.2"));
    assert_eq!(Catalogue::parse(&imported.catalogue.to_toml()), Ok(imported.catalogue));
}

#[test]
fn a_hand_written_file_is_put_over_the_result() {
    let files = Files::new("over");
    let mut request = aws(&files, "x9=large");
    request.over.push(files.path(
        "hand.toml",
        "[sources.page]\nwhat = \"a page\"\n[[shape]]\nname = \"x9.large\"\nsource = \"page\"\nburst_gbit = 10\n",
    ));
    let imported = import(&request).expect("a catalogue");
    let shape = imported.catalogue.shape("x9.large").expect("it is there");
    assert_eq!((shape.shape.burst_gbit, shape.shape.vcpus), (Some(10.0), 2));
    assert!(
        imported
            .notes
            .iter()
            .any(|note| note.ends_with("hand.toml: x9.large takes burst_gbit and keeps its other figures"))
    );
    request.over.push(files.path("bad.toml", "x = 1"));
    check_error(&request, "use ", "unknown field `x`");
}

#[track_caller]
fn check_error(request: &ImportRequest, expected: &str, cause: &str) {
    use std::error::Error;
    let error = import(request).expect_err("it is refused");
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(error.to_string().contains(expected) && source.contains(cause), "{error}: {source}");
}

#[test]
fn families_and_sizes_that_no_file_has_are_told_with_the_nearest() {
    let files = Files::new("families");
    check_error(&aws(&files, "x9,x8"), "no file has the family x8\n  hint: did you mean `x9`?", "");
    check_error(&aws(&files, "x9=largr"), "the family x9 has no size largr", "");
    check_error(
        &aws(&files, "x9,"),
        "expected FAMILY or FAMILY=SIZE+SIZE, separated by commas, found \"\"",
        "",
    );
    check_error(&aws(&files, "x9,x9"), "x9 is there twice", "");
    let all = import(&aws(&files, "")).expect("a catalogue");
    assert_eq!(all.catalogue.shapes().len(), 3);
    let ordered = import(&aws(&files, "y1,x9=xlarge")).expect("a catalogue");
    let names: Vec<_> = ordered.catalogue.shapes().map(|shape| shape.shape.name.as_str()).collect();
    assert_eq!(names, ["y1.large", "x9.xlarge"]);
}

#[test]
fn files_that_are_missing_or_others_are_told() {
    let files = Files::new("missing");
    check_error(&ImportRequest::default(), "expected a file with shapes, found none", "");
    let mut request = aws(&files, "");
    request.moto = Some(SourceFile { path: files.0.join("none.json"), version: String::new() });
    check_error(&request, "none.json", "No such file");
    request.moto = files.source("swapped.json", PRICES);
    check_error(&request, "understand ", "expected JSON with an object for each instance type");
    request.moto = aws(&files, "").moto;
    request.karpenter_prices = files.source("swapped.go", BANDWIDTH);
    check_error(&request, "understand ", "no map named `InitialOnDemandPricesAWS`");
    request.karpenter_prices = files.source("bytes.go", "a\n\u{0}");
    check_error(&request, "understand ", "no map named");
    fs::write(files.0.join("bytes.go"), b"a\n\xff").expect("a file");
    check_error(&request, "understand ", "line 2: expected UTF-8");
}

#[test]
fn absurd_figures_of_a_file_are_refused_with_the_shape() {
    let files = Files::new("absurd");
    let mut request = aws(&files, "");
    request.moto = files.source("absurd.json", &MOTO.replace("16384", "18446744073709551615"));
    check_error(&request, "the shape x9.large: expected memory_gib from 0.25 to 500000", "");
}
