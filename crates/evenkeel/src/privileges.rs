//! From root to an ordinary user (`-u`).

use rustix::process::{geteuid, getuid};
use server::options::Listen;

use crate::failure::Failure;
use crate::sys;

/// Whom to become.
pub(crate) struct Identity {
    name: String,
    user: u32,
    group: u32,
}

/// Whom to become, if this is root; anyone else stays who they are, and `-u` is for root only. Root must say who it
/// wants to be, because nothing here needs its powers once the sockets are bound.
pub(crate) fn identity(name: Option<&str>) -> Result<Option<Identity>, Failure> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(None);
    }
    let Some(name) = name else {
        let hint = "name a user who owns nothing, or `-u root` if it has to be";
        return Err(Failure::usage("to run as root needs -u <user>", Some(hint.to_owned())));
    };
    let found =
        sys::user(name).map_err(|error| Failure::system(format!("look up user `{name}` (-u)"), error))?;
    let (user, group) = found.ok_or_else(|| Failure::no_user(name))?;
    Ok(Some(Identity { name: name.to_owned(), user, group }))
}

impl Identity {
    /// Gives away sockets in the file system that root has bound: their permission bits are meant for this user, and
    /// who owns them can remove them.
    pub(crate) fn own_sockets(&self, listeners: &[Listen]) -> Result<(), Failure> {
        for listener in listeners {
            let Listen::Unix { path, .. } = listener else { continue };
            std::os::unix::fs::chown(path, Some(self.user), Some(self.group)).map_err(|error| {
                Failure::system(format!("give {} to user `{}` (-u)", path.display(), self.name), error)
            })?;
        }
        Ok(())
    }

    /// Becomes this user; there is no way back.
    pub(crate) fn assume(&self) -> Result<(), Failure> {
        let failed = |error| Failure::system(format!("become user `{}` (-u)", self.name), error);
        match sys::leave_groups() {
            // In a user namespace without a map of groups nobody may change them; there is nothing to lose either.
            Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => return Err(failed(error)),
            _ => {}
        }
        sys::set_group(self.group).map_err(failed)?;
        sys::set_user(self.user).map_err(failed)
    }
}
