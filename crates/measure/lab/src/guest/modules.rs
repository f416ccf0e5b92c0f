//! The modules that a kernel needs for the machine's devices, each after those that it needs itself.

use crate::error::Error;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules of QEMU's network interface. One without a file is built into the kernel; if it is in neither, the machine
/// reports that it has no interface.
const WANTED: [&str; 2] = ["virtio_pci", "virtio_net"];

/// Modules of QEMU's disks, of an array of them, and of file systems.
const OF_DISKS: [&str; 4] = ["nvme", "raid0", "ext4", "xfs"];

/// File endings of modules, and the programs that decompress them.
const PACKED: [(&str, Option<&str>); 4] =
    [(".ko", None), (".ko.xz", Some("xz")), (".ko.zst", Some("zstd")), (".ko.gz", Some("gzip"))];

/// By name, with their contents.
pub(super) type Modules = Vec<(String, Vec<u8>)>;

/// In the order in which they can be loaded. A directory that is not there has none.
pub(super) fn in_order(folder: &Path, place: &str, with_disks: bool) -> Result<Modules, Error> {
    let mut files = BTreeMap::new();
    if folder.exists() {
        list(folder, &mut files)?;
    }
    let mut order = Vec::new();
    let of_disks = OF_DISKS.iter().filter(|_| with_disks);
    WANTED.iter().chain(of_disks).try_for_each(|name| add(name, &files, place, &mut order))?;
    Ok(order)
}

fn list(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))?.flatten() {
        let (path, kind) = (entry.path(), entry.file_type().map_err(Error::io("read", folder))?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            list(&path, files)?;
        } else if let Some(name) = PACKED.iter().find_map(|(end, _)| name.strip_suffix(end)) {
            files.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn add(name: &str, files: &BTreeMap<String, PathBuf>, place: &str, order: &mut Modules) -> Result<(), Error> {
    let Some(path) = files.get(name) else { return Ok(()) };
    if order.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    let content =
        content(path).map_err(|why| Error::place(place, format!("read {}: {why}", path.display())))?;
    needs(&content).iter().try_for_each(|needed| add(needed, files, place, order))?;
    order.push((name.to_owned(), content));
    Ok(())
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.to_string_lossy();
    let Some(tool) = PACKED.iter().find(|(end, _)| name.ends_with(end)).and_then(|(_, tool)| *tool) else {
        return std::fs::read(path).map_err(|error| error.to_string());
    };
    let output = Command::new(tool).arg("-dc").arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("start {tool}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{tool}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// `depends=net_failover,virtio_ring` of the section `.modinfo`.
fn needs(module: &[u8]) -> Vec<String> {
    const WORD: &[u8] = b"\0depends=";
    let start = module.windows(WORD.len()).position(|bytes| bytes == WORD).map(|start| start + WORD.len());
    let list = start.and_then(|start| module[start..].split(|byte| *byte == 0).next()).unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn each_comes_after_those_that_it_needs() {
        let scratch = Scratch::new("guest-modules");
        let folder = scratch.path().join("6.1.0/kernel/drivers");
        std::fs::create_dir_all(&folder).expect("a directory");
        let write = |name: &str, needs: &str| {
            std::fs::write(folder.join(name), format!("ELF\0depends={needs}\0intree=Y")).expect("written");
        };
        write("virtio_net.ko", "net_failover,virtio");
        write("net_failover.ko", "failover");
        write("failover.ko", "");
        write("other.ko", "");
        write("virtio-ring.ko", "");
        let packed = Command::new("gzip").arg(folder.join("failover.ko")).status();
        assert!(packed.is_ok_and(|status| status.success()));
        let modules = in_order(scratch.path(), "here", false).expect("modules");
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["failover", "net_failover", "virtio_net"]);
        assert!(modules[0].1.starts_with(b"ELF"), "it is plain again");
        write("nvme.ko", "nvme-core");
        write("nvme-core.ko", "");
        let modules = in_order(scratch.path(), "here", true).expect("modules");
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[3..], ["nvme_core", "nvme"]);
        assert!(in_order(Path::new("/nowhere"), "here", true).expect("none").is_empty());
        std::fs::write(folder.join("failover.ko.gz"), "text").expect("written");
        let error = in_order(scratch.path(), "here", false).expect_err("not packed").to_string();
        assert!(error.contains("failover.ko.gz: gzip: "), "{error}");
    }
}
