//! Plans of other network namespaces, which cannot be undone from here: those that are overdue, and the way there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tuner::Root;
use tuner::journal::{Journal, Place};
use tuner::rollback::overdue_elsewhere;

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
        Some(format!("{path}: OVERDUE in the network namespace {network}: nobody has confirmed it; {remedy}\n"))
    };
    journals.iter().filter_map(line).collect()
}

/// The command that runs another one in a namespace such as `net:[4026532281]`: by its name, or by a process that is in
/// there.
fn way_into(root: &Root, network: &str) -> Option<String> {
    let device = fs::metadata("/proc/self/ns/net").ok()?.dev();
    let inode: u64 = network.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
    let named = fs::read_dir(NAMED).into_iter().flatten().flatten().find(|entry| {
        fs::metadata(entry.path()).is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
    });
    if let Some(named) = named {
        return Some(format!("ip netns exec {}", named.file_name().to_string_lossy()));
    }
    let pids = root.names("/proc").ok()?.into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut inside = pids.filter(|pid| root.link(&format!("/proc/{pid}/ns/net")).as_deref() == Some(network));
    inside.next().map(|pid| format!("nsenter --net=/proc/{pid}/ns/net"))
}
