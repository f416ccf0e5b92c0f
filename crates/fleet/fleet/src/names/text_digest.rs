//! Digests of routers' texts: MD5 in hexadecimal, as routers report the configuration that they have loaded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Letters of an MD5 in hexadecimal.
const DIGEST_LEN: usize = 32;

/// The MD5 of a router's text, in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TextDigest(String);

/// Text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not an MD5: {DIGEST_LEN} hexadecimal digits in lower case")]
pub struct DigestError {
    found: String,
}

impl FromStr for TextDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<TextDigest, DigestError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == DIGEST_LEN && text.bytes().all(is_digit) {
            return Ok(TextDigest(text.to_owned()));
        }
        // A broken router may answer with anything.
        Err(DigestError { found: text.chars().take(DIGEST_LEN + 1).collect() })
    }
}

impl TryFrom<String> for TextDigest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<TextDigest, DigestError> {
        text.parse()
    }
}

impl From<TextDigest> for String {
    fn from(digest: TextDigest) -> String {
        digest.0
    }
}

impl fmt::Display for TextDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_digest: bool) {
        assert_eq!(text.parse::<TextDigest>().is_ok(), is_digest, "{text:?}");
    }

    #[test]
    fn a_digest_is_32_lower_case_hexadecimal_digits() {
        check(&"0f".repeat(16), true);
        for text in ["", "0f", &"0F".repeat(16), &"0g".repeat(16), &"0".repeat(33)] {
            check(text, false);
        }
    }
}
