//! A control group that limits memory, page cache included.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A group of its own, removed with this value, when its processes have ended.
pub(super) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes one with a limit in bytes.
    pub(super) fn new(name: &str, bytes: u64) -> Result<MemoryGroup> {
        // Version 1 of control groups has a folder for each resource, version 2 one for all.
        let roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let is_there = |root: &str, limit: &str| {
            let sample = if limit == "memory.max" { "cgroup.controllers" } else { limit };
            Path::new(root).join(sample).exists()
        };
        let Some((root, limit)) = roots.into_iter().find(|(root, limit)| is_there(root, limit)) else {
            bail!("there are no control groups for memory (/sys/fs/cgroup)");
        };
        let path = Path::new(root).join(format!("evenkeel-bench-{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let group = MemoryGroup(path);
        let file = group.0.join(limit);
        fs::write(&file, bytes.to_string()).with_context(|| format!("write {}", file.display()))?;
        Ok(group)
    }

    /// Puts a process into it. What it has allocated before stays where it is.
    pub(super) fn add(&self, process: u32) -> Result<()> {
        let file = self.0.join("cgroup.procs");
        fs::write(&file, process.to_string()).with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // If it fails, an empty group is in nobody's way.
        let _ = fs::remove_dir(&self.0);
    }
}
