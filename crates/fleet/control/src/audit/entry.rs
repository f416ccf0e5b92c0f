//! Entries of the audit log: what a caller hands over, with texts that fit into one line.

use crate::identity::FleetIdentity;
use crate::service::authorise::ControlVerb;
use ring::digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use stdx::escape;

/// The longest reason, in bytes: a paragraph with the number of a ticket. A report belongs into the ticket.
pub const WHY_LEN_MAX: usize = 1000;

/// The longest detail of a result, in bytes: it is cut, because an error may quote much of what it is about.
pub const DETAIL_LEN_MAX: usize = 500;

/// The SHA-256 of a plan's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanDigest([u8; digest::SHA256_OUTPUT_LEN]);

impl PlanDigest {
    /// That of this text.
    pub fn of(plan: &[u8]) -> PlanDigest {
        let hash = digest::digest(&digest::SHA256, plan);
        PlanDigest(*hash.as_ref().first_chunk().expect("SHA-256 gives 32 bytes"))
    }
}

impl fmt::Display for PlanDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// How far an act reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditReach {
    /// Routes or pools change: keys may go elsewhere. A reason is required.
    Routes,
    /// A member changes, in its slot.
    Members,
    /// Nothing in routers changes.
    Nothing,
}

/// What has come of an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// It is about to be done. A record with another result follows, unless the controller ends between them.
    Begun,
    /// It is done.
    Done,
    /// It was tried.
    Failed(String),
    /// It was not tried.
    Refused(String),
}

impl AuditResult {
    /// The result's word, and what is to be said about it.
    pub(crate) fn parts(&self) -> (&'static str, Option<String>) {
        match self {
            AuditResult::Begun => ("begun", None),
            AuditResult::Done => ("done", None),
            AuditResult::Failed(detail) => ("failed", Some(shortened(detail))),
            AuditResult::Refused(detail) => ("refused", Some(shortened(detail))),
        }
    }
}

/// One act of one identity.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub(super) who: FleetIdentity,
    pub(super) verb: ControlVerb,
    pub(super) reach: AuditReach,
    pub(super) plan: Option<PlanDigest>,
    pub(super) why: Option<String>,
}

/// The reason why an act is not recorded, and therefore not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditEntryError {
    /// There is no reason, and routes change.
    #[error("record {verb}: it changes routes, so it needs a reason (`--why TEXT`)")]
    NoWhy {
        /// The verb.
        verb: ControlVerb,
    },
    /// The reason is too long.
    #[error(
        "record {verb}: its reason has {len} bytes, and {WHY_LEN_MAX} is the most; write the rest into a ticket"
    )]
    LongWhy {
        /// The verb.
        verb: ControlVerb,
        /// The length.
        len: usize,
    },
    /// The reason has characters that are obeyed and not shown.
    #[error(
        "record {verb}: its reason has a line break or another control character; write one line of text"
    )]
    ControlledWhy {
        /// The verb.
        verb: ControlVerb,
    },
}

impl AuditEntry {
    /// What is done.
    pub(crate) fn verb(&self) -> ControlVerb {
        self.verb
    }

    /// An act with its reason.
    ///
    /// # Errors
    /// If the reason is missing and routes change, or if it is not one line of a bounded length.
    pub fn new(
        who: FleetIdentity,
        verb: ControlVerb,
        reach: AuditReach,
        plan: Option<PlanDigest>,
        why: &str,
    ) -> Result<AuditEntry, AuditEntryError> {
        let why = why.trim();
        if why.len() > WHY_LEN_MAX {
            return Err(AuditEntryError::LongWhy { verb, len: why.len() });
        }
        if escape::line(why) != why {
            return Err(AuditEntryError::ControlledWhy { verb });
        }
        // A dot says nothing.
        let says_something = why.chars().any(char::is_alphanumeric);
        if reach == AuditReach::Routes && !says_something {
            return Err(AuditEntryError::NoWhy { verb });
        }
        let why = says_something.then(|| why.to_owned());
        Ok(AuditEntry { who, verb, reach, plan, why })
    }
}

/// The beginning of a text, in one line without anything that is obeyed and not shown.
fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(DETAIL_LEN_MAX);
    let escaped = escape::line(&text[..end]);
    escaped[..escaped.floor_char_boundary(DETAIL_LEN_MAX)].to_owned()
}
