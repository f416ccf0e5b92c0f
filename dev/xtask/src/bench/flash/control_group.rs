//! Control groups: a limit on memory, page cache included; and a device that hangs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::cleanup::Cleanup;

/// Lifts what a group is limited by, and removes it when its processes have ended: `$1` is the group, `$2` what lifts a limit, the
/// others are the files of limits.
const SCRIPT: &str = r#"group=$1; lift=$2; shift 2
for file; do echo "$lift" > "$group/$file"; done
for try in $(seq 100); do rmdir "$group" && break; [ -d "$group" ] || break; sleep 0.1; done"#;

/// Version 1 of control groups has a folder for each resource, version 2 one for all.
const ROOT_V2: &str = "/sys/fs/cgroup";

/// A group of its own, removed with this value, when its processes have ended.
pub(super) struct ControlGroup {
    path: PathBuf,
    /// Files and what is written there while the device hangs, and when it no longer does.
    hang: Vec<(&'static str, String, String)>,
    _cleanup: Cleanup,
}

impl ControlGroup {
    /// Limits memory, in bytes.
    pub(super) fn of_memory(name: &str, bytes: u64) -> Result<ControlGroup> {
        let (root, file) = root("memory", "memory.limit_in_bytes", "memory.max")?;
        let group = ControlGroup::new(&root, name, Vec::new())?;
        group.write(file, &bytes.to_string())?;
        Ok(group)
    }

    /// Can let the device hang that `folder` is on.
    pub(super) fn of_device(name: &str, folder: &Path) -> Result<ControlGroup> {
        let device = device(folder)?;
        let v1 = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
        let (root, file) = root("blkio", v1[0], "io.max")?;
        // Two bytes per second are as good as none, and a read that waits ends when the limit is lifted.
        let hang = if file == "io.max" {
            vec![(file, format!("{device} rbps=2 wbps=2"), format!("{device} rbps=max wbps=max"))]
        } else {
            v1.map(|file| (file, format!("{device} 2"), format!("{device} 0"))).to_vec()
        };
        ControlGroup::new(&root, name, hang)
    }

    fn new(root: &Path, name: &str, hang: Vec<(&'static str, String, String)>) -> Result<ControlGroup> {
        let path = root.join(format!("evenkeel-bench-{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let word = path.to_str().context("a group whose name is UTF-8")?;
        let lift = hang.first().map(|(_, _, lift)| lift.as_str()).unwrap_or_default();
        let files = hang.iter().map(|(file, ..)| *file);
        let cleanup = Cleanup::new(SCRIPT, &[word, lift].into_iter().chain(files).collect::<Vec<_>>())?;
        Ok(ControlGroup { path, hang, _cleanup: cleanup })
    }

    /// Puts a process into it. What it has allocated before stays where it is.
    pub(super) fn add(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// Lets the device hang for the processes of the group, as long as the returned value lives.
    pub(super) fn hang(&self) -> Result<Hang<'_>> {
        let hang = Hang(self);
        self.hang.iter().try_for_each(|(file, hang, _)| self.write(file, hang))?;
        Ok(hang)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let file = self.path.join(file);
        fs::write(&file, text).with_context(|| format!("write {text} to {}", file.display()))
    }
}

/// A device that hangs.
pub(super) struct Hang<'a>(&'a ControlGroup);

impl Drop for Hang<'_> {
    fn drop(&mut self) {
        for (file, _, lift) in &self.0.hang {
            // If it fails, the script of the group tries once more.
            let _ = self.0.write(file, lift);
        }
    }
}

/// Where groups for a resource are made, and which of the files limits it there.
fn root(resource: &str, v1: &'static str, v2: &'static str) -> Result<(PathBuf, &'static str)> {
    let of_v1 = Path::new(ROOT_V2).join(resource);
    if of_v1.is_dir() {
        return Ok((of_v1, v1));
    }
    if Path::new(ROOT_V2).join("cgroup.controllers").exists() {
        return Ok((PathBuf::from(ROOT_V2), v2));
    }
    bail!("there are no control groups for {resource} ({ROOT_V2})");
}

/// The numbers of the disk that a folder is on, `259:0`: limits are those of whole disks.
fn device(folder: &Path) -> Result<String> {
    let number = fs::metadata(folder).with_context(|| format!("look at {}", folder.display()))?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let path = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    ensure!(path.exists(), "{} is not on a disk of its own ({major}:{minor})", folder.display());
    if !path.join("partition").exists() {
        return Ok(format!("{major}:{minor}"));
    }
    let path = fs::canonicalize(&path)?;
    let disk = path.parent().context("the disk of a partition")?.join("dev");
    Ok(fs::read_to_string(&disk).with_context(|| format!("read {}", disk.display()))?.trim().to_owned())
}
