//! Instance types of AWS as the Python package moto ships them: what `DescribeInstanceTypes` answers, by name.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde::Deserialize;

use super::source::{FoundShapes, SOURCE_LEN_MAX, SourceError};
use crate::catalogue::FigureSource;
use crate::catalogue::entry::{DisksEntry, ShapeEntry};

/// The key of the source.
const KEY: &str = "moto";
/// Most instance types: AWS has some 1,400.
const TYPES_MAX: usize = 50_000;

/// What is read of an instance type. Names and nesting are those of AWS.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InstanceType {
    #[serde(rename = "VCpuInfo")]
    cpus: CpuInfo,
    processor_info: ProcessorInfo,
    memory_info: MemoryInfo,
    network_info: NetworkInfo,
    instance_storage_supported: Option<bool>,
    instance_storage_info: Option<StorageInfo>,
}

#[derive(Deserialize)]
struct CpuInfo {
    #[serde(rename = "DefaultVCpus")]
    vcpus: Option<u32>,
    #[serde(rename = "DefaultThreadsPerCore")]
    threads_per_core: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProcessorInfo {
    #[serde(default)]
    supported_architectures: Vec<String>,
    sustained_clock_speed_in_ghz: Option<f64>,
}

#[derive(Deserialize)]
struct MemoryInfo {
    #[serde(rename = "SizeInMiB")]
    mib: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkInfo {
    default_network_card_index: Option<u32>,
    #[serde(default)]
    network_cards: Vec<NetworkCard>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkCard {
    network_card_index: Option<u32>,
    baseline_bandwidth_in_gbps: Option<f64>,
    peak_bandwidth_in_gbps: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StorageInfo {
    #[serde(default)]
    disks: Vec<Disk>,
    nvme_support: Option<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct Disk {
    count: u32,
    #[serde(rename = "SizeInGB")]
    gb: f64,
    #[serde(rename = "Type")]
    kind: String,
}

/// Shapes of a file.
pub(crate) fn read(bytes: &[u8], version: &str) -> Result<FoundShapes, SourceError> {
    let unpacked = unpacked(bytes)?;
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    let types: BTreeMap<String, InstanceType> = serde_json::from_slice(bytes).map_err(|error| {
        SourceError::Other(format!(
            "expected JSON with an object for each instance type, as moto's instance_types.json has it: {error}"
        ))
    })?;
    if types.is_empty() || types.len() > TYPES_MAX {
        return Err(SourceError::Other(format!(
            "expected 1 to {TYPES_MAX} instance types, found {}",
            types.len()
        )));
    }
    let mut found = FoundShapes { source: Some((KEY.into(), source(version))), ..FoundShapes::default() };
    for (name, instance) in &types {
        match shape(name, instance) {
            Ok(shape) => found.shapes.push(shape),
            Err(why) => found.notes.push(format!("{name}: left out, {why}")),
        }
    }
    Ok(found)
}

fn source(version: &str) -> FigureSource {
    FigureSource {
        what: "moto (PyPI)".into(),
        version: Some(version.into()),
        file: Some("moto/ec2/resources/instance_types.json.gz".into()),
        licence: Some("Apache-2.0".into()),
        url: None,
        note: Some(
            "what DescribeInstanceTypes of EC2 answers; bandwidths are those of the default network card"
                .into(),
        ),
    }
}

/// The bytes inside a gzip; none if it is none.
fn unpacked(bytes: &[u8]) -> Result<Option<Vec<u8>>, SourceError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(None);
    }
    let mut unpacked = Vec::new();
    // A few bytes can unpack to terabytes.
    let mut decoder = GzDecoder::new(bytes).take(SOURCE_LEN_MAX + 1);
    decoder.read_to_end(&mut unpacked).map_err(|error| {
        SourceError::Other(format!("expected gzip or JSON, found gzip that is damaged: {error}"))
    })?;
    match unpacked.len() as u64 > SOURCE_LEN_MAX {
        true => Err(SourceError::Other(format!(
            "expected at most {SOURCE_LEN_MAX} bytes in the gzip, found more"
        ))),
        false => Ok(Some(unpacked)),
    }
}

/// A shape, or why it cannot be one.
fn shape(name: &str, instance: &InstanceType) -> Result<ShapeEntry, String> {
    let (family, _) = name.split_once('.').ok_or("its name has no family before a dot")?;
    // One that runs both 32 and 64 bits names both.
    let architectures = &instance.processor_info.supported_architectures;
    let architecture =
        ["x86_64", "arm64"].into_iter().find(|known| architectures.iter().any(|is| is == known));
    let architecture = architecture.ok_or_else(|| {
        format!("expected x86_64 or arm64, found {}", architectures.join(" ").escape_debug())
    })?;
    let network = &instance.network_info;
    // An ordinary instance has interfaces on this card alone.
    let card = network
        .network_cards
        .iter()
        .find(|card| card.network_card_index == network.default_network_card_index);
    Ok(ShapeEntry {
        name: name.into(),
        cloud: Some("aws".into()),
        family: Some(family.into()),
        source: Some(KEY.into()),
        architecture: Some(architecture.into()),
        vcpus: Some(instance.cpus.vcpus.ok_or("it has no DefaultVCpus")?),
        threads_per_core: Some(instance.cpus.threads_per_core.ok_or("it has no DefaultThreadsPerCore")?),
        clock_ghz: instance.processor_info.sustained_clock_speed_in_ghz,
        memory_gib: Some(instance.memory_info.mib.ok_or("it has no SizeInMiB")? as f64 / 1024.0),
        baseline_gbit: card.and_then(|card| card.baseline_bandwidth_in_gbps),
        burst_gbit: card.and_then(|card| card.peak_bandwidth_in_gbps),
        disks: disks(instance),
        ..ShapeEntry::default()
    })
}

/// Local disks; none if the file does not say it, or if they differ from each other.
fn disks(instance: &InstanceType) -> Option<DisksEntry> {
    match (instance.instance_storage_supported, &instance.instance_storage_info) {
        (Some(false), None) => Some(DisksEntry { count: 0, gb: None, kind: None }),
        (_, Some(storage)) => {
            let [disk] = &storage.disks[..] else { return None };
            let is_nvme = matches!(storage.nvme_support.as_deref(), Some("required" | "supported"));
            let kind = if is_nvme { "nvme" } else { &disk.kind };
            Some(DisksEntry { count: disk.count, gb: Some(disk.gb), kind: Some(kind.into()) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const ONE: &str = r#"{"x9.large": {"VCpuInfo": {"DefaultVCpus": 2, "DefaultThreadsPerCore": 2, "More": [1]},
        "ProcessorInfo": {"SupportedArchitectures": ["i386", "x86_64"], "SustainedClockSpeedInGhz": 3.5},
        "MemoryInfo": {"SizeInMiB": 15616},
        "NetworkInfo": {"DefaultNetworkCardIndex": 1, "NetworkCards": [
            {"NetworkCardIndex": 0, "BaselineBandwidthInGbps": 9.0, "PeakBandwidthInGbps": 9.0},
            {"NetworkCardIndex": 1, "BaselineBandwidthInGbps": 0.75, "PeakBandwidthInGbps": 10.0}]},
        "InstanceStorageSupported": true,
        "InstanceStorageInfo": {"Disks": [{"Count": 2, "SizeInGB": 475, "Type": "ssd"}], "NvmeSupport": "required"}}}"#;

    fn one(text: &str) -> ShapeEntry {
        let found = read(text.as_bytes(), "1").expect("instance types");
        assert!(found.notes.is_empty(), "{:?}", found.notes);
        found.shapes.into_iter().next().expect("a shape")
    }

    #[track_caller]
    fn refused(bytes: &[u8], expected: &str) {
        let error = read(bytes, "1").expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn an_instance_type_becomes_a_shape() {
        let shape = one(ONE);
        assert_eq!((shape.name.as_str(), shape.family.as_deref()), ("x9.large", Some("x9")));
        assert_eq!((shape.architecture.as_deref(), shape.vcpus), (Some("x86_64"), Some(2)));
        assert_eq!((shape.memory_gib, shape.clock_ghz), (Some(15.25), Some(3.5)));
        assert_eq!((shape.baseline_gbit, shape.burst_gbit), (Some(0.75), Some(10.0)));
        let disks = DisksEntry { count: 2, gb: Some(475.0), kind: Some("nvme".into()) };
        assert_eq!(shape.disks, Some(disks));
        assert_eq!((shape.packets_per_s, shape.disk_read_iops, shape.connections), (None, None, None));
    }

    #[test]
    fn what_the_file_does_not_say_is_unknown_and_not_zero() {
        let bare =
            ONE.replace("SustainedClockSpeedInGhz", "Other").replace("BaselineBandwidthInGbps", "Other");
        let shape = one(&bare);
        assert_eq!((shape.clock_ghz, shape.baseline_gbit), (None, None));
        // Two kinds of disks in one shape.
        let mixed =
            ONE.replace("\"Disks\": [", "\"Disks\": [{\"Count\": 1, \"SizeInGB\": 9, \"Type\": \"hdd\"}, ");
        assert_eq!(one(&mixed).disks, None);
        assert_eq!(one(&ONE.replace("InstanceStorage", "Other")).disks, None);
        let none =
            ONE.replace("Supported\": true", "Supported\": false").replace("InstanceStorageInfo", "Other");
        assert_eq!(one(&none).disks, Some(DisksEntry::default()));
        assert_eq!(
            one(&ONE.replace("\"NvmeSupport\": \"required\"", "\"NvmeSupport\": \"unsupported\"")).disks,
            Some(DisksEntry { count: 2, gb: Some(475.0), kind: Some("ssd".into()) })
        );
    }

    #[test]
    fn a_type_that_cannot_be_a_shape_is_left_out_with_the_reason() {
        let note = |text: String| read(text.as_bytes(), "1").expect("instance types").notes.join("\n");
        assert_eq!(
            note(ONE.replace("\"i386\", \"x86_64\"", "\"x86_64_mac\"")),
            "x9.large: left out, expected x86_64 or arm64, found x86_64_mac"
        );
        assert_eq!(note(ONE.replace("DefaultVCpus", "No")), "x9.large: left out, it has no DefaultVCpus");
        assert_eq!(note(ONE.replace("x9.large", "x9")), "x9: left out, its name has no family before a dot");
    }

    #[test]
    fn a_gzip_is_unpacked_and_a_damaged_or_endless_one_refused() {
        let gzip = |write: &dyn Fn(&mut GzEncoder<Vec<u8>>)| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            write(&mut encoder);
            encoder.finish().expect("a gzip")
        };
        let good = gzip(&|to| to.write_all(ONE.as_bytes()).expect("in memory"));
        assert_eq!(read(&good, "1").expect("instance types").shapes.len(), 1);
        refused(&good[..good.len() / 2], "found gzip that is damaged");
        let zeros = vec![b' '; 1 << 20];
        let endless =
            gzip(&|to| (0..=SOURCE_LEN_MAX >> 20).for_each(|_| to.write_all(&zeros).expect("in memory")));
        refused(&endless, "expected at most 67108864 bytes in the gzip");
    }

    #[test]
    fn other_files_are_refused() {
        refused(b"", "expected JSON with an object for each instance type");
        refused(b"[]", "expected JSON with an object for each instance type");
        refused(b"{}", "expected 1 to 50000 instance types, found 0");
        refused(b"{\"a.b\": {}}", "missing field");
        refused(
            ONE.replace("\"DefaultVCpus\": 2", "\"DefaultVCpus\": -2").as_bytes(),
            "invalid value: integer `-2`",
        );
        refused(
            ONE.replace("\"DefaultVCpus\": 2", "\"DefaultVCpus\": 99999999999").as_bytes(),
            "invalid value",
        );
        refused(&[&b"{\"a.b\": {\"More\": "[..], &b"[".repeat(1_000_000)].concat(), "EOF while parsing");
    }
}
