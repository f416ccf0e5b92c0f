//! Keys of a register, and the prefixes that ranges and watches have: validated once.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// Longest key in bytes: six names of 63 bytes with their separators, and room.
pub const KEY_LEN_MAX: usize = 512;

/// Why a text is not a key or a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {found:?} is not {accepted}, with 1 to {KEY_LEN_MAX} bytes of ASCII without spaces")]
pub struct KeyFault {
    what: &'static str,
    accepted: &'static str,
    found: String,
}

/// A key: `/` and a name, once or more. It never ends with `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterKey(Box<str>);

/// The beginning of keys, up to a `/`: it stands for all keys below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPrefix(Box<str>);

impl RegisterKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// For maps: keys are ordered as their text is.
impl Borrow<str> for RegisterKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl KeyPrefix {
    /// The prefix as text, with `/` at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a key is below it.
    pub fn covers(&self, key: &RegisterKey) -> bool {
        key.0.starts_with(&*self.0)
    }

    /// The first text behind all keys below: `/` is followed by `0` in ASCII.
    pub fn end(&self) -> String {
        let mut end = self.0.to_string();
        end.pop();
        end.push('0');
        end
    }
}

impl FromStr for RegisterKey {
    type Err = KeyFault;

    fn from_str(text: &str) -> Result<RegisterKey, KeyFault> {
        if is_path(text) {
            return Ok(RegisterKey(text.into()));
        }
        Err(fault("the key", "names with '/' before each", text))
    }
}

impl FromStr for KeyPrefix {
    type Err = KeyFault;

    fn from_str(text: &str) -> Result<KeyPrefix, KeyFault> {
        let names = text.strip_suffix('/').filter(|names| names.is_empty() || is_path(names));
        match names {
            Some(_) => Ok(KeyPrefix(text.into())),
            None => Err(fault("the prefix", "names with '/' before each and at the end", text)),
        }
    }
}

fn is_path(text: &str) -> bool {
    let Some(names) = text.strip_prefix('/') else { return false };
    text.len() <= KEY_LEN_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && names.split('/').all(|name| !name.is_empty())
}

fn fault(what: &'static str, accepted: &'static str, text: &str) -> KeyFault {
    // A file of 100 MB can be one key.
    KeyFault { what, accepted, found: text.chars().take(KEY_LEN_MAX + 1).collect() }
}

impl fmt::Display for RegisterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_key: bool, is_prefix: bool) {
        assert_eq!(text.parse::<RegisterKey>().is_ok(), is_key, "as a key: {text:?}");
        assert_eq!(text.parse::<KeyPrefix>().is_ok(), is_prefix, "as a prefix: {text:?}");
    }

    #[test]
    fn a_key_is_a_path_and_a_prefix_ends_with_a_slash() {
        check("/evenkeel/f/target", true, false);
        check("/evenkeel/f/", false, true);
        check("/", false, true);
        check("/zone:a=b", true, false);
        for text in ["", "a", "a/", "//", "/a//b", "/a b", "/a\n", "/ä", "/a//", "/a\0"] {
            check(text, false, false);
        }
        check(&format!("/{}", "k".repeat(KEY_LEN_MAX - 1)), true, false);
        check(&format!("/{}", "k".repeat(KEY_LEN_MAX)), false, false);
    }

    #[test]
    fn a_prefix_covers_what_is_below_it_and_nothing_beside() {
        let prefix: KeyPrefix = "/a/hosts/".parse().expect("a prefix");
        let covers = |key: &str| prefix.covers(&key.parse().expect("a key"));
        assert!(covers("/a/hosts/h1") && covers("/a/hosts/~"));
        assert!(!covers("/a/hosts") && !covers("/a/hosts2/h1") && !covers("/a/host"));
        assert_eq!(prefix.end(), "/a/hosts0");
    }

    #[test]
    fn a_fault_shows_a_bounded_part_of_what_was_found() {
        let fault = "k".repeat(1 << 20).parse::<RegisterKey>().expect_err("no key");
        assert!(fault.to_string().len() < 2 * KEY_LEN_MAX, "{}", fault.to_string().len());
    }
}
