//! The tuner's program: the agent's own, or one that its file names and that no other user could have put there.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The agent's own program. The kernel keeps it while the agent runs, even if an upgrade has put another one in its place.
const OWN: &str = "/proc/self/exe";
/// Writable by the group or by all, and the bit of folders in which each may remove only what is his.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Links on a way: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The path of the tuner's program.
///
/// # Errors
/// If another user than root and this one could have written it, or put another one in its place.
pub(crate) fn program(named: Option<&Path>) -> Result<PathBuf, String> {
    let Some(named) = named else { return Ok(PathBuf::from(OWN)) };
    let shown = named.display();
    if !named.is_absolute() {
        return Err(format!("[tune] binary: expected an absolute path, found {shown}"));
    }
    let real = named.canonicalize().map_err(|error| format!("find {shown}: {error}"))?;
    check_way(named)?;
    Ok(real)
}

/// Nobody else writes what has the path, nor any folder on the way to it, through all links that are on the way.
pub(crate) fn check_way(path: &Path) -> Result<(), String> {
    walk(path, true)
}

/// The same, except that the path is that of a link itself: what it points to is not looked at.
pub(crate) fn check_way_to_link(path: &Path) -> Result<(), String> {
    walk(path, false)
}

fn walk(path: &Path, is_followed: bool) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("expected an absolute path, found {shown}"));
    }
    let own = rustix::process::geteuid().as_raw();
    // What is still to be gone, the next part last.
    let parts = |path: &Path| path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect();
    let (mut rest, mut at, mut links): (Vec<PathBuf>, _, _) = (parts(path), PathBuf::new(), 0);
    while let Some(part) = rest.pop() {
        match part.to_str() {
            Some(".") => continue,
            Some("..") => {
                // It was looked at on the way here.
                at.pop();
                continue;
            }
            _ => at.push(&part),
        }
        let failed = |error| format!("look at {}: {error}", at.display());
        let found = std::fs::symlink_metadata(&at).map_err(failed)?;
        if let Some(why) = fault(&found, own) {
            return Err(format!("use {shown}: {} {why}, who could put another file there", at.display()));
        }
        if found.is_symlink() && (is_followed || !rest.is_empty()) {
            links += 1;
            if links > LINKS_MAX {
                return Err(format!("use {shown}: expected {LINKS_MAX} links on the way at most"));
            }
            let target = std::fs::read_link(&at).map_err(failed)?;
            rest.extend::<Vec<PathBuf>>(parts(&target));
            at.pop();
        }
    }
    Ok(())
}

fn fault(found: &Metadata, own: u32) -> Option<String> {
    let is_trusted = found.uid() == 0 || found.uid() == own;
    let is_open = !found.is_symlink()
        && found.mode() & OTHERS_WRITE != 0
        && !(found.is_dir() && found.mode() & STICKY != 0);
    match (is_trusted, is_open) {
        (false, _) => Some(format!("belongs to the user {}", found.uid())),
        (true, true) => Some("can be written by others".to_owned()),
        (true, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_program_that_others_could_have_put_there_is_not_run() {
        let folder = std::env::temp_dir().join(format!("evenkeel-program-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("open")).expect("a folder");
        let set =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
        let (tuner, hidden) = (folder.join("tuner"), folder.join("open/tuner"));
        for path in [&tuner, &hidden] {
            fs::write(path, "#!/bin/sh\n").expect("a file");
            set(path, 0o755);
        }
        assert_eq!(program(None), Ok(PathBuf::from(OWN)));
        assert_eq!(program(Some(&tuner)), Ok(tuner.canonicalize().expect("a path")));
        symlink(&hidden, folder.join("link")).expect("a link");
        assert!(program(Some(&folder.join("link"))).is_ok());
        set(&folder.join("open"), 0o777);
        for path in [hidden, folder.join("link")] {
            let error = program(Some(&path)).expect_err("others can replace it");
            assert!(error.contains("open can be written by others"), "{error}");
        }
        // A link that others can replace on the way to a program that they cannot.
        symlink(&tuner, folder.join("open/middle")).expect("a link");
        symlink("open", folder.join("folder")).expect("a link");
        symlink("./folder/.././open/middle", folder.join("first")).expect("a link");
        for way in ["first", "folder/middle", "folder/../folder/middle"] {
            let error = check_way(&folder.join(way)).expect_err("others can replace a link");
            assert!(error.contains("open can be written by others"), "{error}");
        }
        let error = check_way_to_link(&folder.join("folder/middle")).expect_err("it is in an open folder");
        assert!(error.contains("open can be written by others"), "{error}");
        assert_eq!(check_way_to_link(&folder.join("first")), Ok(()), "where it leads is not asked");
        symlink("circle", folder.join("circle")).expect("a link");
        let error = check_way(&folder.join("circle")).expect_err("it has no end");
        assert!(error.contains("expected 40 links on the way at most"), "{error}");
        let error = check_way(Path::new("systemctl")).expect_err("by PATH");
        assert_eq!(error, "expected an absolute path, found systemctl");
        set(&tuner, 0o775);
        assert!(
            program(Some(&tuner)).expect_err("a group writes it").contains("tuner can be written by others")
        );
        assert!(
            program(Some(Path::new("evenkeel"))).expect_err("by PATH").contains("expected an absolute path")
        );
        assert!(program(Some(&folder.join("none"))).expect_err("nothing").starts_with("find "));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
