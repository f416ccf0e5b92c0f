//! The file of `-Y`: users and their passwords, a line for each.

/// A client sends user and password in one value; memcached reads lines of this length too.
const LINE_LEN_MAX: usize = 255;

/// Each is compared on every attempt, so that the time of an answer tells nothing; memcached keeps 8.
const USERS_MAX: usize = 64;

/// Reads lines of `user:password`; both may hold anything but a line end, and the user no colon. The error is half
/// a sentence, and never shows a password.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
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
