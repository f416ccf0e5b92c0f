//! The machine's files, from Debian's packages.
//!
//! QEMU is installed. The kernel and the programs that run inside of the machine are downloaded and unpacked below the
//! target directory: they are none of this system's business.

use crate::steps::{command, run};
use crate::tools;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Unpacked, besides the kernel.
const UNPACKED: [&str; 2] = ["busybox-static", "ethtool"];

/// Always depends on the newest kernel package of its kind.
const KERNEL: &str = "linux-image-cloud-amd64";

/// QEMU and what it needs here: the name of a program, and its package.
const INSTALLED: [(&str, &str); 5] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("dmsetup", "dmsetup"),
    ("ip", "iproute2"),
    ("strip", "binutils"),
    ("setpriv", "util-linux"),
];

/// Where everything lies.
pub(super) struct Parts {
    pub(super) kernel: PathBuf,
    /// The folder with its modules.
    pub(super) modules: PathBuf,
    pub(super) busybox: PathBuf,
    pub(super) ethtool: PathBuf,
    /// For what is made of them.
    pub(super) folder: PathBuf,
}

/// Everything, or why it cannot be had.
///
/// # Errors
/// If it could be had, and is not what it should be.
pub(super) fn obtain(folder: &Path) -> Result<Result<Parts, String>> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Err("the machine is an x86-64, with the libraries of this one".to_owned()));
    }
    if !tools::is_root() {
        return Ok(Err("it takes root, for a network namespace with a tap".to_owned()));
    }
    let tap = Path::new("/dev/net/tun");
    if !tap.exists() {
        return Ok(Err(format!("{} is missing, for the machine's network", tap.display())));
    }
    let unpacked = folder.join("unpacked");
    let stamp = unpacked.join("complete");
    let missing: Vec<&str> =
        INSTALLED.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    if !missing.is_empty() || !stamp.exists() {
        println!("missing: {}", [missing.as_slice(), &UNPACKED, &[KERNEL]].concat().join(" "));
        if let Err(error) = fetch(&missing, folder, &unpacked) {
            return Ok(Err(format!("the packages cannot be had: {error:#}")));
        }
        fs::write(&stamp, "")?;
    }
    parts(folder, &unpacked).map(Ok)
}

fn is_there(program: &str) -> bool {
    // `dmsetup` tells no version where the kernel has no device mapper.
    ["--version", "-V", "-h"].iter().any(|flag| tools::answers(command(program, &[flag])))
}

fn fetch(missing: &[&str], folder: &Path, unpacked: &Path) -> Result<()> {
    if !tools::answers(command("apt-get", &["--version"])) {
        anyhow::bail!("there is no apt-get");
    }
    tools::update_packages();
    if !missing.is_empty() {
        tools::apt(&[["install", "-y", "--no-install-recommends"].as_slice(), missing].concat())?;
    }
    let downloads = folder.join("packages");
    for made in [&downloads, unpacked] {
        if made.exists() {
            fs::remove_dir_all(made)?;
        }
        fs::create_dir_all(made)?;
    }
    let kernel = kernel_package()?;
    let mut download = command("apt-get", &["-q", "-o", "Acquire::Retries=3", "download"]);
    download.args(UNPACKED).arg(kernel).current_dir(&downloads);
    run(download)?;
    for entry in fs::read_dir(&downloads)? {
        let package = entry?.path();
        run(command("dpkg-deb", &["-x", &package.to_string_lossy(), &unpacked.to_string_lossy()]))?;
    }
    Ok(())
}

/// The package with the kernel itself: what the other one depends on.
fn kernel_package() -> Result<String> {
    let output = command("apt-cache", &["depends", "--important", KERNEL]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let depends = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image"));
    depends.map(|rest| format!("linux-image{rest}")).with_context(|| format!("apt knows no {KERNEL}"))
}

fn parts(folder: &Path, unpacked: &Path) -> Result<Parts> {
    let kernels = fs::read_dir(unpacked.join("boot")).context("list the kernel's package")?;
    let kernel = kernels
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
        .context("the kernel's package has no kernel")?;
    // Since Debian 13 everything is below usr.
    let either = |paths: [&str; 2]| -> Result<PathBuf> {
        let found = paths.iter().map(|path| unpacked.join(path)).find(|path| path.exists());
        found.with_context(|| format!("the packages have no {}", paths[0]))
    };
    Ok(Parts {
        kernel,
        modules: either(["lib/modules", "usr/lib/modules"])?,
        busybox: either(["bin/busybox", "usr/bin/busybox"])?,
        ethtool: either(["sbin/ethtool", "usr/sbin/ethtool"])?,
        folder: folder.to_owned(),
    })
}
