//! Reloading on SIGHUP: the server reads the users of `-Y` again, and the files of TLS.
//!
//! All or nothing for each of the two: if a file cannot be used, what was read before stays in force, and a line on
//! standard error reports the error, with or without `-v`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::options::{Options, auth};
use server::{TlsFiles, UserRegistry};

use crate::log;

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

    /// Reads them now.
    pub(crate) fn now(&self) {
        if self.users_file.is_none() && self.tls_files.is_none() {
            return self.say("there is nothing to reload (SIGHUP)");
        }
        if let Some(file) = &self.users_file {
            self.read_users(file);
        }
        // The server reports an error itself.
        if self.tls_files.as_ref().is_some_and(|files| files.reload().is_ok()) {
            self.say("certificates, keys, tickets and roles are read again (SIGHUP)");
        }
    }

    fn read_users(&self, file: &Path) {
        let shown = file.display();
        match auth::read(file, &read_users) {
            Ok(users) => {
                self.say(&format!("{} users may log in (SIGHUP, -Y {shown})", users.len()));
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
