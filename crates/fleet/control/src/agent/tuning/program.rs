//! The tuner's program: the agent's own, or one that its file names and that no other user could have put there.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The agent's own program. The kernel keeps it while the agent runs, even if an upgrade has put another one in its place.
const OWN: &str = "/proc/self/exe";
/// Writable by the group or by all, and the bit of folders in which each may remove only what is his.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

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
    // Links are followed to the end first: their folders are on the way that is checked then.
    let real = named.canonicalize().map_err(|error| format!("find {shown}: {error}"))?;
    check_way(named)?;
    check_way(&real)?;
    Ok(real)
}

/// Nobody else writes what has the path, nor any folder on the way to it.
pub(crate) fn check_way(path: &Path) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    for part in path.ancestors() {
        let found = std::fs::symlink_metadata(part)
            .map_err(|error| format!("look at {}: {error}", part.display()))?;
        if let Some(why) = fault(&found, own) {
            let path = path.display();
            return Err(format!("use {path}: {} {why}, who could put another file there", part.display()));
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
