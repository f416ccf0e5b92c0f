//! Kernel modules in the order in which they can be loaded: each after those that it depends on.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the machine's devices and of the conversations.
const WANTED: [&str; 18] = [
    "virtio_pci",
    "virtio_net",
    "nvme",
    "raid0",
    // A mounted disk.
    "ext4",
    // Disks that fail or hang.
    "dm_mod",
    "dm_flakey",
    "dm_delay",
    "bonding",
    "8021q",
    "dummy",
    "tcp_diag",
    "sch_netem",
    "tls",
    // The ciphers of TLS.
    "aesni_intel",
    "gcm",
    "ctr",
    "ghash_generic",
];

/// The files of the wanted modules and of all that they need, in order. What has no file is in the kernel itself.
pub(super) fn in_order(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = BTreeMap::new();
    list(folder, &mut files)?;
    let mut order = Vec::new();
    for name in WANTED {
        add(name, &files, &mut order)?;
    }
    Ok(order)
}

fn list(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            files.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn add(name: &str, files: &BTreeMap<String, PathBuf>, order: &mut Vec<PathBuf>) -> Result<()> {
    let Some(path) = files.get(name) else { return Ok(()) };
    if order.contains(path) {
        return Ok(());
    }
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    for needed in needs(&content).with_context(|| format!("read {}", path.display()))? {
        add(&needed, files, order)?;
    }
    order.push(path.clone());
    Ok(())
}

/// `depends=net_failover,virtio_ring` of the section `.modinfo`.
fn needs(module: &[u8]) -> Result<Vec<String>> {
    const WORD: &[u8] = b"\0depends=";
    let Some(start) = module.windows(WORD.len()).position(|bytes| bytes == WORD) else {
        bail!("it does not say what it depends on");
    };
    let list = module[start + WORD.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    Ok(list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_depends_on() {
        assert_eq!(needs(b"ELF\0depends=md-mod,failover\0intree=Y").unwrap(), ["md_mod", "failover"]);
        assert_eq!(needs(b"ELF\0depends=\0").unwrap(), [""; 0]);
        assert!(needs(b"ELF").is_err());
    }
}
