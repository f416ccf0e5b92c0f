//! Plans of other network namespaces, which cannot be undone from here: those that are overdue, and the way there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tuner::Root;
use tuner::apply::journal::{Journal, Place};
use tuner::apply::rollback::overdue_elsewhere;
use tuner::observe::network_namespace::{at, is_same, name};

use super::state::milliseconds_since_boot;

/// Where `ip netns` keeps namespaces that have a name.
const NAMED: &str = "/run/netns";

/// A line for each plan that should have been undone by now, in another network namespace.
pub(super) fn overdue(journals: &[Journal], here: &Place, root: &Root, state: &Path) -> Vec<String> {
    let now_ms = milliseconds_since_boot();
    let line = |journal: &Journal| {
        let network = overdue_elsewhere(journal, here, now_ms)?;
        let verb = format!("evenkeel tune status --state {}", state.display());
        let remedy = match way_into(root, &network) {
            Some(way) => format!("`{way} {verb}` undoes it there"),
            None => "nobody is seen in there; if it is gone, its interfaces are gone, too: what else the journal names is \
                     to be put back by hand, and the journal to be removed"
                .to_owned(),
        };
        let path = journal.path().display();
        Some(format!(
            "{path}: OVERDUE in the network namespace {}: nobody has confirmed it; {remedy}",
            name(&network)
        ))
    };
    journals.iter().filter_map(line).collect()
}

/// The command that runs another one in a namespace: by its name, or by a process that is in there.
fn way_into(root: &Root, network: &str) -> Option<String> {
    let number: u64 = name(network).strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
    // Its number may be another one's by now.
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
