//! Records of the audit log: a line of JSON, its number, the hash of the record before, and its own hash.

use super::entry::{AuditEntry, AuditReach, AuditResult};
use crate::identity::FleetIdentity;
use crate::service::authorise::ControlVerb;
use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest line, with its end. The texts have 1500 bytes at most, twice that if each is escaped; all else has less than
/// 700.
pub const RECORD_LEN_MAX: usize = 4096;

/// Between a record's content and its hash.
const HASH_FIELD: &str = ",\"hash\":\"";

/// After the hash.
const END: &str = "\"}\n";

const HASH_LEN: usize = digest::SHA256_OUTPUT_LEN;

/// The number of the last record, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    /// The number, from 1; 0 before the first record.
    pub number: u64,
    /// The SHA-256 of its content.
    pub hash: AuditHash,
}

/// A SHA-256, written in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditHash([u8; HASH_LEN]);

/// A record as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Its number.
    pub number: u64,
    /// The second since 1970.
    pub at_s: u64,
    /// The identity in the certificate.
    pub who: FleetIdentity,
    /// What was asked for.
    pub verb: ControlVerb,
    /// How far it reaches.
    pub reach: AuditReach,
    /// The hash of the plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<String>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// `begun`, `done`, `failed` or `refused`.
    pub result: String,
    /// What failed, or why it was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// The hash of the record before.
    pub before: AuditHash,
}

impl AuditHead {
    /// Before the first record.
    pub const START: AuditHead = AuditHead { number: 0, hash: AuditHash([0; HASH_LEN]) };
}

impl AuditRecord {
    /// The record of an entry that follows on this head.
    pub(super) fn after(
        head: &AuditHead,
        entry: &AuditEntry,
        result: &AuditResult,
        at_s: u64,
    ) -> AuditRecord {
        let (result, detail) = result.parts();
        AuditRecord {
            number: head.number + 1,
            at_s,
            who: entry.who.clone(),
            verb: entry.verb,
            reach: entry.reach,
            plan: entry.plan.map(|plan| plan.to_string()),
            why: entry.why.clone(),
            result: result.to_owned(),
            detail,
            before: head.hash,
        }
    }

    /// The line, and the head after it.
    pub(super) fn line(&self) -> (String, AuditHead) {
        let content = self.content();
        let hash = AuditHash::of(content.as_bytes());
        let open = content.strip_suffix('}').expect("a record is an object");
        (format!("{open}{HASH_FIELD}{}{END}", hash.hex()), AuditHead { number: self.number, hash })
    }

    /// Reads a line with its end. Also returned is the head after it, with the hash of what was read.
    pub(super) fn parse(line: &[u8]) -> Result<(AuditRecord, AuditHead), LineFault> {
        let text = std::str::from_utf8(line).map_err(|_| LineFault::Unreadable)?;
        let text = text.strip_suffix(END).ok_or(LineFault::Unreadable)?;
        let (open, hash) = text.rsplit_once(HASH_FIELD).ok_or(LineFault::Unreadable)?;
        let hash = AuditHash::parse(hash).ok_or(LineFault::Unreadable)?;
        let content = format!("{open}}}");
        if AuditHash::of(content.as_bytes()) != hash {
            return Err(LineFault::Changed);
        }
        let record: AuditRecord = serde_json::from_str(&content).map_err(|_| LineFault::Unreadable)?;
        // The same record has one spelling: no field twice, no other order, no space.
        if record.content() != content {
            return Err(LineFault::Changed);
        }
        let head = AuditHead { number: record.number, hash };
        Ok((record, head))
    }

    fn content(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are JSON")
    }
}

/// What is wrong with a line alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFault {
    /// It is no record.
    Unreadable,
    /// It does not have its hash.
    Changed,
}

impl AuditHash {
    fn of(bytes: &[u8]) -> AuditHash {
        let hash = digest::digest(&digest::SHA256, bytes);
        AuditHash(*hash.as_ref().first_chunk().expect("SHA-256 gives 32 bytes"))
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Lower case, as written: another spelling is a change.
    fn parse(text: &str) -> Option<AuditHash> {
        let mut bytes = [0; HASH_LEN];
        if text.len() != 2 * HASH_LEN || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(AuditHash(bytes))
    }
}

impl Serialize for AuditHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for AuditHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AuditHash, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        AuditHash::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits in lower case"))
    }
}
