//! Reloading on SIGHUP and when a file has changed: the server reads the users of `-Y` again, and the files of TLS.
//!
//! Where certificates are renewed by a mounted folder (Kubernetes), nobody can send a signal, so the files are looked at every second.
//!
//! All or nothing for each of the two: if a file cannot be used, what was read before stays in force, and a line on
//! standard error reports the error, with or without `-v`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use os::clock::pause;
use server::options::{Options, auth};
use server::{TlsFiles, UserRegistry};
use stdx::words::counted;

use crate::process::watched::WatchedFiles;
use crate::terminal::log;

/// Time between two looks at the files. What is replaced file by file, such as a certificate and its key, has as much time to be
/// complete.
const LOOK: Duration = Duration::from_secs(1);

/// The files as they looked before they were read.
pub(crate) struct FileLooks {
    users: WatchedFiles,
    tls: WatchedFiles,
}

impl FileLooks {
    /// The files of users are read with the options, those of TLS later.
    pub(crate) fn of(users: WatchedFiles, options: &Options) -> FileLooks {
        let tls = options.tls.iter().flat_map(|tls| tls.settings.files());
        FileLooks { users, tls: WatchedFiles::of(tls) }
    }

    /// Whether there is anything to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.tls.is_empty()
    }
}

/// Looks that tell when files have changed, and then stayed so for the time between two.
struct Changes {
    files: WatchedFiles,
    /// How they looked last, if that was another look.
    changing: Option<WatchedFiles>,
}

impl Changes {
    /// Whether they have changed since they were read, and are complete; then they count as read.
    fn are_complete(&mut self) -> bool {
        if !self.files.has_changed() {
            self.changing = None;
            return false;
        }
        let is_still = self.changing.as_ref().is_some_and(|look| !look.has_changed());
        let now = self.files.again();
        match is_still {
            true => (self.files, self.changing) = (now, None),
            false => self.changing = Some(now),
        }
        is_still
    }
}

/// The files to read, and the server that receives what is in them.
pub(crate) struct Reload {
    users_file: Option<PathBuf>,
    user_registry: UserRegistry,
    tls_files: Option<Arc<TlsFiles>>,
    verbose: bool,
}

impl Reload {
    pub(crate) fn new(
        options: &Options,
        user_registry: UserRegistry,
        tls_files: Option<Arc<TlsFiles>>,
    ) -> Self {
        let users_file = options.auth.as_ref().map(|auth| auth.file.clone());
        Self { users_file, user_registry, tls_files, verbose: options.verbosity > 0 }
    }

    /// Looks at the files every second, and reads again those that have changed.
    pub(crate) fn watch(&self, looks: FileLooks) -> ! {
        let changes = |files| Changes { files, changing: None };
        let (mut users, mut tls) = (changes(looks.users), changes(looks.tls));
        loop {
            pause(LOOK);
            if users.are_complete()
                && let Some(file) = &self.users_file
            {
                self.read_users(file, "changed");
            }
            if tls.are_complete() {
                self.read_tls("changed");
            }
        }
    }

    /// Reads them now.
    pub(crate) fn now(&self) {
        if self.users_file.is_none() && self.tls_files.is_none() {
            return self.say("there is nothing to reload (SIGHUP)");
        }
        if let Some(file) = &self.users_file {
            self.read_users(file, "SIGHUP");
        }
        self.read_tls("SIGHUP");
    }

    /// The server reports an error itself.
    fn read_tls(&self, why: &str) {
        if self.tls_files.as_ref().is_some_and(|files| files.reload().is_ok()) {
            self.say(&format!("certificates, keys, tickets and roles are read again ({why})"));
        }
    }

    fn read_users(&self, file: &Path, why: &str) {
        let shown = file.display();
        match auth::read(file, &read_users) {
            Ok(users) => {
                self.say(&format!("{} may log in ({why}, -Y {shown})", counted(users.len(), "user")));
                self.user_registry.replace(users);
            }
            Err(problem) => {
                log::warning("serve", format_args!("the users stay as they were: -Y {shown}: {problem}"));
            }
        }
    }

    fn say(&self, what: &str) {
        if self.verbose {
            log::info("serve", what);
        }
    }
}

/// The longest file of users. The path may name a device that never ends.
const USERS_LEN_MAX: u64 = 64 * 1024;

/// The file of `-Y`.
pub(crate) fn read_users(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(USERS_LEN_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > USERS_LEN_MAX {
        return Err(io::Error::other(format!("expected at most {USERS_LEN_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_read_again_when_they_have_changed_and_stayed_so_for_a_look() {
        let folder = std::env::temp_dir().join(format!("evenkeel-reload-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the directory for temporary files can be written to");
        let [chain, key] = ["chain", "key"].map(|name| folder.join(name));
        let write = |path: &Path, text: &str| {
            fs::write(path.with_extension("new"), text).expect("written");
            fs::rename(path.with_extension("new"), path).expect("renamed");
        };
        write(&chain, "1");
        write(&key, "1");
        let files = WatchedFiles::of([chain.as_path(), key.as_path()].into_iter());
        let mut changes = Changes { files, changing: None };
        assert!(!changes.are_complete() && !changes.are_complete());
        write(&chain, "2");
        assert!(!changes.are_complete(), "the key may follow");
        write(&key, "2");
        assert!(!changes.are_complete(), "it has followed just now");
        assert!(changes.are_complete());
        assert!(!changes.are_complete(), "they count as read");
        fs::remove_file(&key).expect("removed");
        assert!(
            !changes.are_complete() && changes.are_complete(),
            "what is not there is an error to be said"
        );
        fs::remove_dir_all(&folder).expect("removed");
    }
}
