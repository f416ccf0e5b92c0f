//! The file of `-Y`: users and their passwords, one per line. It is read at the start, and again on SIGHUP.

use std::io;
use std::path::{Path, PathBuf};

/// The maximum length of a line, as in memcached: a client sends user and password in one value.
const LINE_LEN_MAX: usize = 255;

/// The maximum number of users (8 in memcached). All are compared on every attempt, so that the response time
/// reveals nothing.
const USERS_MAX: usize = 64;

/// Reads a file that a flag names; tests read from memory.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Users and their passwords.
pub type Users = Vec<(String, String)>;

/// `-Y`: connections must name a user first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Path of the file.
    pub file: PathBuf,
    /// The users at the start.
    pub users: Users,
}

/// Reads the file. The error is a clause, and never contains a password.
pub fn read(file: &Path, read_file: ReadFile<'_>) -> Result<Users, String> {
    parse(&read_file(file).map_err(|error| error.to_string())?)
}

/// Parses lines of `user:password`; both may contain anything but a line end, and the user no colon.
fn parse(text: &str) -> Result<Users, String> {
    let mut users = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (row, line) = (index + 1, line.trim_end_matches('\r'));
        if line.is_empty() {
            continue;
        }
        if line.len() > LINE_LEN_MAX {
            return Err(format!("line {row}: expected at most {LINE_LEN_MAX} bytes, found {}", line.len()));
        }
        let (user, password) = line
            .split_once(':')
            .filter(|(user, _)| !user.is_empty())
            .ok_or_else(|| format!("line {row}: expected user:password"))?;
        users.push((user.to_owned(), password.to_owned()));
    }
    match users.len() {
        0 => Err("expected at least one line of user:password, found none".to_owned()),
        1..=USERS_MAX => Ok(users),
        len => Err(format!("expected at most {USERS_MAX} users, found {len}")),
    }
}
