//! Artefacts for an architecture that is not this machine's, of a program that stands for ours: it was linked statically, and only
//! another machine can run it.

use crate::image::turn;
use crate::tools::{have, is_thorough, leave_out, workshop};
use checkout::target_directory;
use serde_json::Value;
use ship::commands::said;
use ship::inputs::elf::Architecture;
use ship::inputs::{GivenPrograms, NeededPrograms, Programs};
use ship::{Workshop, image, packages};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// An endless loop for arm64; `None` where binutils for it are missing.
fn arm64() -> Option<PathBuf> {
    if !is_thorough() {
        leave_out("artefacts for another architecture (EVENKEEL_TEST_ALL=1 has them)");
        return None;
    }
    if Architecture::here().ok() == Some(Architecture::Arm64)
        || !have(&[
            ("aarch64-linux-gnu-as", "Debian: binutils-aarch64-linux-gnu"),
            ("umoci", "Debian: umoci"),
        ])
    {
        return None;
    }
    let folder = target_directory().join("ship-tests/foreign");
    fs::create_dir_all(&folder).unwrap();
    let [source, object, program] = ["loop.s", "loop.o", "evenkeel"].map(|name| folder.join(name));
    fs::write(&source, ".globl _start\n_start: b _start\n").unwrap();
    said(Command::new("aarch64-linux-gnu-as").arg(&source).arg("-o").arg(&object)).unwrap();
    said(Command::new("aarch64-linux-gnu-ld").arg(&object).arg("-o").arg(&program)).unwrap();
    Some(program)
}

#[test]
fn an_archive_and_an_image_are_for_the_architecture_of_their_program() {
    let (Some(program), Some(speaker)) = (arm64(), crate::tools::binary()) else { return };
    let _turn = turn();
    let workshop = Workshop { binary: program, speaker, ..workshop(&PathBuf::new(), "foreign") };
    fs::create_dir_all(&workshop.out).unwrap();
    let archive = packages::tar(&workshop).expect("an archive").remove(0).path;
    assert!(archive.ends_with(format!("evenkeel-{}-linux-arm64.tar.gz", workshop.version)), "{archive:?}");
    let listed = said(Command::new("tar").arg("--list").arg("--file").arg(&archive)).unwrap();
    assert!(listed.contains("/share/man/man1/evenkeel-serve.1.gz"), "{listed}");
    let made = image::make(&workshop).expect("an image");
    assert!(made.iter().all(|made| made.path.to_string_lossy().contains("-image-arm64.")), "{made:?}");
    let layout = format!("oci-archive:{}", made[0].path.display());
    let config = said(Command::new("skopeo").args(["inspect", "--config", &layout])).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["architecture"], "arm64");
    let error = packages::deb(&workshop).expect_err("packages name the glibc that they need");
    assert!(format!("{error:#}").contains("is linked statically"), "{error:#}");
}

#[test]
fn programs_are_refused_for_what_they_cannot_be_used_for() {
    let (Some(foreign), Some(own)) = (arm64(), crate::tools::binary()) else { return };
    let refused = |given: GivenPrograms, expected: &str| {
        let needed = NeededPrograms { binary: true, static_binary: true };
        let error = Programs::obtain(&given, needed).expect_err(expected);
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    };
    let given = |binary: &PathBuf| GivenPrograms { binary: Some(binary.clone()), ..GivenPrograms::default() };
    refused(given(&foreign), "give a binary of the same version that runs here, with --native");
    refused(given(&own), "give it with --static-binary");
    refused(GivenPrograms { static_binary: Some(own.clone()), ..given(&own) }, "is linked with libraries");
    refused(
        GivenPrograms { static_binary: Some(foreign.clone()), ..given(&own) },
        "artefacts of one run are for one architecture",
    );
    let good = GivenPrograms { native: Some(own), ..given(&foreign) };
    let programs =
        Programs::obtain(&good, NeededPrograms { binary: true, static_binary: true }).expect("programs");
    assert_eq!(programs.static_binary.as_ref(), Some(&programs.binary), "it is static itself");
}
