//! Disks, arrays of disks, and the file systems on them.

use super::view::{ProbeView, choices, chosen};
use crate::observe::facts::{BlockDevice, Mount, Raid};

/// Block devices that are no disks.
const NO_DISKS: [&str; 6] = ["loop", "ram", "zram", "sr", "fd", "nbd"];

pub(super) fn disks(view: &ProbeView) -> Vec<BlockDevice> {
    names(view).iter().map(|name| disk(view, name)).collect()
}

/// Disks and arrays, without their partitions.
pub(crate) fn names(view: &ProbeView) -> Vec<String> {
    let mut names = view.names("/sys/block");
    names.retain(|name| is_disk(name));
    names
}

fn is_disk(name: &str) -> bool {
    !NO_DISKS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn disk(view: &ProbeView, name: &str) -> BlockDevice {
    let here = format!("/sys/block/{name}");
    let scheduler = view.text(&format!("{here}/queue/scheduler")).unwrap_or_default();
    BlockDevice {
        name: name.to_owned(),
        identity: identity(view, &here),
        rotational: view.flag(&format!("{here}/queue/rotational")).unwrap_or(false),
        scheduler: chosen(&scheduler),
        schedulers: choices(&scheduler),
        nomerges: view.number(&format!("{here}/queue/nomerges")),
        read_ahead_kb: view.number(&format!("{here}/queue/read_ahead_kb")),
        requests: view.number(&format!("{here}/queue/nr_requests")),
        rq_affinity: view.number(&format!("{here}/queue/rq_affinity")),
        io_poll: view.flag(&format!("{here}/queue/io_poll")),
        write_cache: view.text(&format!("{here}/queue/write_cache")).filter(|text| !text.is_empty()),
        raid: raid(view, &format!("{here}/md")),
        partitions: partitions(view, name),
        below: view.names(&format!("{here}/slaves")),
        mapped: view.text(&format!("{here}/dm/name")).filter(|name| !name.is_empty()),
    }
}

/// Their directories are in the disk's, with names that begin with its name.
fn partitions(view: &ProbeView, disk: &str) -> Vec<String> {
    let mut names = view.names(&format!("/sys/block/{disk}"));
    names.retain(|name| name.starts_with(disk));
    names
}

/// The disk's identifier: NVMe, SCSI, virtio, in the order of uniqueness.
fn identity(view: &ProbeView, here: &str) -> Option<(String, String)> {
    let files = ["wwid", "device/wwid", "serial", "device/serial"];
    let said = |file: &str| {
        let text = view.text(&format!("{here}/{file}"))?;
        Some((file.to_owned(), text.trim().to_owned())).filter(|(_, text)| !text.is_empty())
    };
    files.into_iter().find_map(said)
}

fn raid(view: &ProbeView, here: &str) -> Option<Raid> {
    Some(Raid {
        level: view.text(&format!("{here}/level")).filter(|level| !level.is_empty())?,
        disks: view.number(&format!("{here}/raid_disks")).unwrap_or(0),
        chunk_bytes: view.number(&format!("{here}/chunk_size")).unwrap_or(0),
        degraded: view.number(&format!("{here}/degraded")).unwrap_or(0),
    })
}

pub(super) fn mounts(view: &ProbeView) -> Vec<Mount> {
    view.lines("/proc/mounts").iter().filter_map(|line| mount(line)).collect()
}

/// The kernel's settings are read-only here.
pub(super) fn read_only(view: &ProbeView) -> Vec<String> {
    let place = |line: &String| {
        let mut words = line.split_whitespace().skip(1);
        let (place, _, options) = (words.next()?, words.next()?, words.next()?);
        let holds_settings = ["/sys", "/proc"].iter().any(|root| {
            place.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        (holds_settings && options.split(',').any(|option| option == "ro")).then(|| place.to_owned())
    };
    view.lines("/proc/mounts").iter().filter_map(place).collect()
}

/// `/dev/nvme0n1p1 / xfs rw,noatime 0 0`; only file systems on a device.
fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split_whitespace();
    let device = words.next().filter(|device| device.starts_with("/dev/"))?;
    Some(Mount {
        device: unescape(device),
        path: unescape(words.next()?),
        kind: words.next()?.to_owned(),
        options: words.next()?.split(',').map(str::to_owned).collect(),
    })
}

/// Spaces, tabs, line ends and backslashes are written as `\040` and so on (fs/proc_namespace.c, `mangle`).
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_on_devices_count() {
        let found = mount("/dev/nvme0n1p1 /srv/my\\040data xfs rw,noatime 0 0").unwrap();
        assert_eq!((found.path.as_str(), found.kind.as_str()), ("/srv/my data", "xfs"));
        assert_eq!(found.options, ["rw", "noatime"]);
        assert_eq!(mount("tmpfs /run tmpfs rw 0 0"), None);
        assert_eq!(mount("/dev/sda1"), None);
    }

    #[test]
    fn loops_and_memory_are_no_disks() {
        for (name, expected) in
            [("sda", true), ("nvme0n1", true), ("md0", true), ("loop7", false), ("zram0", false)]
        {
            assert_eq!(is_disk(name), expected, "{name}");
        }
    }
}
