use fleet::advise::{CpuArchitecture, HostShape, LocalDiskKind, LocalDisks, ShapePrice, advise};

use super::*;
use crate::testing::moderate;

fn shape(name: &str, usd: f64) -> HostShape {
    HostShape {
        name: name.to_owned(),
        cloud: "ours".to_owned(),
        family: name.split('.').next().unwrap_or_default().to_owned(),
        architecture: CpuArchitecture::X86,
        vcpus: 16,
        threads_per_core: 2,
        clock_ghz: Some(3.0),
        memory_gib: 128.0,
        baseline_gbit: Some(5.0),
        burst_gbit: Some(10.0),
        disks: Some(LocalDisks { count: 0, gb: 0.0, kind: LocalDiskKind::Nvme }),
        packets_per_s: None,
        disk_read_iops: None,
        disk_write_iops: None,
        disk_bytes_per_s: None,
        disk_read_p99_us: None,
        connections: None,
        prices: vec![ShapePrice {
            region: "here".to_owned(),
            date: "2026-12-01".to_owned(),
            usd_per_hour: usd,
        }],
    }
}

fn answered(shapes: &[HostShape]) -> (String, serde_json::Value, String) {
    let inputs = crate::usual_inputs(moderate());
    let advice = advise(&inputs, shapes, "here").expect("a workload");
    let asked = AdviceQuestion { inputs: &inputs, region: "here" };
    let document = serde_json::from_str(&json(&advice, &asked)).expect("JSON");
    (text(&advice, &asked), document, picture(&advice, &asked))
}

#[test]
fn the_text_says_what_binds_and_what_is_not_known() {
    let (text, document, picture) = answered(&[shape("a.4x", 1.0), shape("b.4x", 1.5)]);
    for part in [
        "requests per second: 900 k get, 100 k set",
        "items: 1 G of 540 bytes, 540 GB; p99 1 ms; one zone; prices of here",
        "shape  hosts",
        "packets per second: the answer holds if each host has",
        "What a fifth less or more of one figure changes",
        "To be surer, know",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(document["best"][0]["shape"], "a.4x");
    assert_eq!(document["best"][0]["binds"], "memory");
    let packets = document["best"][0]["resources"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["resource"] == "packets per second"));
    assert!(packets.is_some_and(|packets| packets["host_has"].is_null() && packets["hosts"].is_null()));
    assert_eq!(document["best"][0]["hosts"], document["best"][1]["hosts"]);
    assert!(picture.starts_with("<svg ") && picture.contains("a.4x: ") && picture.contains("class=\"open\""));
}

#[test]
fn without_a_shape_that_fits_each_reason_is_named() {
    let (text, document, picture) = answered(&[HostShape { prices: Vec::new(), ..shape("a.4x", 1.0) }]);
    assert!(text.contains("No shape of the catalogue carries this workload."), "{text}");
    assert!(text.contains("1 shape such as a.4x: no price in here"), "{text}");
    assert_eq!(document["best"].as_array().map(Vec::len), Some(0));
    assert!(picture.contains("No shape"));
}
