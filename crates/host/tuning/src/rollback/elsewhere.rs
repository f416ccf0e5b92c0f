//! Overdue plans of other network namespaces, which cannot be undone from here, and the way into their namespace.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use os::clock::since_boot_ms;
use tuner::Root;
use tuner::apply::journal::{BootAndNamespace, Journal};
use tuner::apply::rollback::overdue_elsewhere;
use tuner::observe::network_namespace::{at, is_same, name};

/// The directory of named namespaces of `ip netns`.
const NAMED: &str = "/run/netns";

/// A plan that should have been undone by now, in another network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Its journal.
    pub journal: PathBuf,
    /// The namespace's name.
    pub network: String,
    /// The command that runs another command in it, if there is a way.
    pub way: Option<String>,
}

pub(crate) fn overdue(journals: &[Journal], here: &BootAndNamespace, root: &Root) -> Vec<Overdue> {
    let now_ms = since_boot_ms();
    let overdue = |journal: &Journal| {
        let network = overdue_elsewhere(journal, here, now_ms)?;
        let (way, network) = (way_into(root, &network), name(&network).to_owned());
        Some(Overdue { journal: journal.path().to_owned(), network, way })
    };
    journals.iter().filter_map(overdue).collect()
}

/// The command that runs another command in a namespace: by its name, or by a process that is in it.
fn way_into(root: &Root, network: &str) -> Option<String> {
    let number: u64 = name(network).strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
    // Another namespace may have its number by now.
    let is_it = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.ino() == number)
            && at(path).is_ok_and(|found| is_same(&found, network))
    };
    let named = fs::read_dir(NAMED).into_iter().flatten().flatten().map(|entry| entry.path());
    if let Some(path) = named.into_iter().find(is_it) {
        return Some(format!("ip netns exec {}", path.file_name()?.to_string_lossy()));
    }
    let names = root.names("/proc").ok()?.into_iter();
    let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut paths = pids.map(|pid| root.path(&format!("/proc/{pid}/ns/net")));
    paths.find(is_it).map(|path| format!("nsenter --net={}", path.display()))
}
