//! Reloading on SIGHUP: the server reads the users of `-Y` again.
//!
//! All or nothing: if a file cannot be read to its end, what was read before stays in force, and a line on standard
//! error says what is wrong, with or without `-v`.

use std::path::PathBuf;

use server::UserRegistry;
use server::options::{Options, auth};

use crate::failure::say;

/// What is to be read, and who is told.
pub(crate) struct Reload {
    users_file: Option<PathBuf>,
    user_registry: UserRegistry,
    verbose: bool,
}

impl Reload {
    pub(crate) fn new(options: &Options, user_registry: UserRegistry) -> Self {
        let users_file = options.auth.as_ref().map(|auth| auth.file.clone());
        Self { users_file, user_registry, verbose: options.verbosity > 0 }
    }

    /// Reads it now.
    pub(crate) fn now(&self) {
        let Some(file) = &self.users_file else {
            return self.say("there is nothing to reload (SIGHUP)");
        };
        let shown = file.display();
        match auth::read(file, &|path| std::fs::read_to_string(path)) {
            Ok(users) => {
                self.say(&format!("{} users may log in (SIGHUP, -Y {shown})", users.len()));
                self.user_registry.replace(users);
            }
            Err(problem) => {
                say(format_args!("evenkeel: serve: the users stay as they were: -Y {shown}: {problem}"));
            }
        }
    }

    fn say(&self, what: &str) {
        if self.verbose {
            say(format_args!("evenkeel: serve: {what}"));
        }
    }
}
