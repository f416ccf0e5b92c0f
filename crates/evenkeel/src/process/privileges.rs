//! Privileges: changing from root to an ordinary user (`-u`).

use std::io::{self, ErrorKind};
use std::path::Path;

use os::DirectoryEntry;
use rustix::process::{geteuid, getgroups, getuid};
use server::options::{Listen, USER_DEFAULT};

use crate::failure::Failure;
use crate::process::sys;
use crate::terminal::log;

/// The file that holds `deny` in a user namespace whose groups were mapped without privileges.
const SETGROUPS: &str = "/proc/self/setgroups";

/// The users of the host that exist in this user namespace: first one inside, first one outside, how many.
const USER_MAP: &str = "/proc/self/uid_map";

/// The user to become.
pub(crate) struct TargetUser {
    name: String,
    user: u32,
    group: u32,
    /// The default user: the command line names none.
    by_default: bool,
}

/// The user to become, if this is root: the default one unless another is named, because nothing here needs root's
/// privileges once the sockets are bound. Any other user stays the same.
pub(crate) fn identity(name: Option<&str>) -> Result<Option<TargetUser>, Failure> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(None);
    }
    let by_default = name.is_none();
    let name = name.unwrap_or(USER_DEFAULT);
    let found =
        sys::user(name).map_err(|error| Failure::system(format!("look up user `{name}` (-u)"), error))?;
    let (user, group) = found.ok_or_else(|| explained(Failure::no_user(name), by_default))?;
    if by_default && user == 0 {
        let failure =
            Failure::usage(format!("become user `{name}`: here that is another name of root"), None);
        return Err(explained(failure, by_default));
    }
    Ok(Some(TargetUser { name: name.to_owned(), user, group, by_default }))
}

/// Whether this is root and the user to become by default does not exist, as in an image without `/etc/passwd`.
pub(crate) fn default_user_is_missing() -> Result<bool, Failure> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(false);
    }
    let found = sys::user(USER_DEFAULT)
        .map_err(|error| Failure::system(format!("look up user `{USER_DEFAULT}`"), error))?;
    Ok(found.is_none())
}

impl TargetUser {
    /// A part of the start line; empty if the command line names the user.
    pub(crate) fn said(&self) -> String {
        if self.by_default { format!(", as user {} (-u)", self.name) } else { String::new() }
    }

    /// Adds a hint to a permission error, if the command line does not name the user.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        explained(failure, self.by_default)
    }

    /// The number of this user.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// Gives sockets in the file system that root has bound to this user: their permission bits are meant for this
    /// user, and the owner can remove them.
    pub(crate) fn own_sockets(&self, listeners: &[Listen]) -> Result<(), Failure> {
        for listener in listeners {
            let Listen::Unix { path, .. } = listener else { continue };
            let given = DirectoryEntry::of(path).and_then(|entry| entry.give_socket(self.user, self.group));
            given.map_err(|error| {
                let what = format!("give {} to user `{}` (-u)", path.display(), self.name);
                self.refused(what, error)
            })?;
        }
        Ok(())
    }

    /// Of these files, which root has read, those that this user cannot read again: in a line for each. Called as this
    /// user.
    pub(crate) fn cannot_read<'p>(&self, files: impl Iterator<Item = &'p Path>) -> Vec<String> {
        let refused = |path: &&Path| {
            os::file::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        };
        let line = |path: &Path| {
            let (shown, user) = (path.display(), &self.name);
            format!(
                "user `{user}` (-u) cannot read {shown}, which root has read at the start: SIGHUP and refresh_certs will fail; \
                 let that user read it (chgrp and chmod 640, and 750 of its directory)"
            )
        };
        files.filter(refused).map(line).collect()
    }

    /// Becomes this user, irrevocably.
    pub(crate) fn assume(&self) -> Result<(), Failure> {
        let failed = |error| self.refused(format!("become user `{}` (-u)", self.name), error);
        match sys::leave_groups() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.stay_in_groups(error)?,
            left => left.map_err(failed)?,
        }
        sys::set_group(self.group).map_err(failed)?;
        sys::set_user(self.user).map_err(failed)
    }

    /// It is not a failure if there are no groups to leave, nor in a user namespace that forbids leaving them to all:
    /// its creator has these groups in any case. But root without the right to leave groups (CAP_SETGID) must not keep
    /// them.
    fn stay_in_groups(&self, error: io::Error) -> Result<(), Failure> {
        if getgroups().is_ok_and(|groups| groups.is_empty()) {
            return Ok(());
        }
        if self.user != 0 && !std::fs::read_to_string(SETGROUPS).is_ok_and(|word| word.trim() == "deny") {
            return Err(self.refused("leave root's supplementary groups (-u)".to_owned(), error));
        }
        if self.user != 0 {
            log::warning("serve", "supplementary groups are kept: this user namespace denies setgroups");
        }
        Ok(())
    }

    /// The kernel does not let root become this user.
    fn refused(&self, what: String, error: io::Error) -> Failure {
        let hint = match error.kind() {
            ErrorKind::InvalidInput if !is_mapped(&std::fs::read_to_string(USER_MAP).unwrap_or_default(), self.user) => {
                format!("this user namespace has no user {}; `-u root` stays its root, an ordinary user outside", self.user)
            }
            ErrorKind::PermissionDenied => {
                "root has no CAP_SETUID, CAP_SETGID and CAP_CHOWN here, as in a container that drops them: grant them, \
                 start as another user, or stay root with `-u root`"
                    .to_owned()
            }
            _ => return self.explain(Failure::system(what, error)),
        };
        Failure::system(what, error).hint(hint)
    }
}

/// With a hint on how to choose another user than the default one.
fn explained(failure: Failure, by_default: bool) -> Failure {
    if !by_default {
        return failure;
    }
    failure.hint(format!("root becomes `{USER_DEFAULT}` unless -u names another user; `-u root` stays root"))
}

/// Whether a user namespace with this map has such a user.
fn is_mapped(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        let (first, count) = (first.unwrap_or(0), count.unwrap_or(0));
        (first..first + count).contains(&user.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_map_contains_the_users_of_its_ranges() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(whole, 0) && is_mapped(whole, 65_534));
        let root_alone = "         0       1000          1\n";
        assert!(is_mapped(root_alone, 0) && !is_mapped(root_alone, 1) && !is_mapped(root_alone, 65_534));
        let two = "0 1000 1\n1 100000 65536\n";
        assert!(is_mapped(two, 65_534) && !is_mapped(two, 65_537));
        assert!(!is_mapped("", 0));
    }
}
