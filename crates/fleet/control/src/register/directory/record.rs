//! Files of the directory register: commits and states as checked text.
//!
//! The first line has the kind, the revision and the SHA-256 of the rest, which is JSON:
//!
//! ```text
//! evenkeel-register 1 commit 7 sha256:5891b5b5…
//! {"writes":[{"key":"/evenkeel/f/target","text":"12"},{"key":"/evenkeel/f/freeze/z1"}]}
//! ```
//!
//! A value that is plain text stands there as such, so that people can read it; others in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::register::contents::RegisterEntry;
use crate::register::numbers::{LeaseId, Revision};
use crate::register::transaction::{Write, WriteBody};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    /// The writes of one revision.
    Commit,
    /// All keys at one revision.
    State,
}

impl FileKind {
    fn word(self) -> &'static str {
        match self {
            FileKind::Commit => "commit",
            FileKind::State => "state",
        }
    }
}

/// The name of a file: as long for each revision, so that a listing is in order.
pub(crate) fn file_name(kind: FileKind, revision: Revision) -> String {
    format!("{}-{:020}", kind.word(), revision.0)
}

/// What a name says; none if it is not one of ours.
pub(crate) fn parse_name(name: &str) -> Option<(FileKind, Revision)> {
    let (kind, number) = name.split_once('-')?;
    let kind = [FileKind::Commit, FileKind::State].into_iter().find(|known| known.word() == kind)?;
    let revision = Revision(number.parse().ok()?);
    (file_name(kind, revision) == name).then_some((kind, revision))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitBody {
    writes: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateBody {
    entries: Vec<Line>,
}

/// A key; without a value, it is deleted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<i64>,
}

impl Line {
    fn new(key: &str, value: Option<&[u8]>, revision: Option<Revision>, lease: Option<LeaseId>) -> Line {
        let is_plain = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        let text = value.and_then(|value| std::str::from_utf8(value).ok()).filter(is_plain);
        let base64 = value.filter(|_| text.is_none()).map(|value| STANDARD.encode(value));
        let (revision, lease) = (revision.map(|it| it.0), lease.map(|it| it.0));
        Line { key: key.to_owned(), text: text.map(str::to_owned), base64, revision, lease }
    }

    fn value(&self) -> Result<Option<Vec<u8>>, String> {
        match (&self.text, &self.base64) {
            (None, None) => Ok(None),
            (Some(text), None) => Ok(Some(text.clone().into_bytes())),
            (None, Some(code)) => STANDARD.decode(code).map(Some).map_err(|error| error.to_string()),
            (Some(_), Some(_)) => Err("a key has two values".to_owned()),
        }
    }
}

/// The file of a commit.
pub(crate) fn commit_file(revision: Revision, writes: &[Write]) -> Vec<u8> {
    let line = |write: &Write| match &write.body {
        WriteBody::Put(value, lease) => Line::new(write.key.as_str(), Some(value), None, *lease),
        WriteBody::Delete => Line::new(write.key.as_str(), None, None, None),
    };
    let body = CommitBody { writes: writes.iter().map(line).collect() };
    file(FileKind::Commit, revision, &serde_json::to_string(&body).expect("it has text keys"))
}

/// The file of a state.
pub(crate) fn state_file<'e>(
    revision: Revision,
    entries: impl Iterator<Item = &'e RegisterEntry>,
) -> Vec<u8> {
    let line = |entry: &RegisterEntry| {
        Line::new(entry.key.as_str(), Some(&entry.value), Some(entry.revision), entry.lease)
    };
    let body = StateBody { entries: entries.map(line).collect() };
    file(FileKind::State, revision, &serde_json::to_string(&body).expect("it has text keys"))
}

fn file(kind: FileKind, revision: Revision, body: &str) -> Vec<u8> {
    let body = format!("{body}\n");
    format!("{}{body}", head(kind, revision, &body)).into_bytes()
}

fn head(kind: FileKind, revision: Revision, body: &str) -> String {
    let sum = digest(&SHA256, body.as_bytes());
    let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("evenkeel-register 1 {} {} sha256:{sum}\n", kind.word(), revision.0)
}

/// The JSON of a file that is whole and what its name says.
fn body(kind: FileKind, revision: Revision, bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let end = text.find('\n').ok_or("its first line has no end")? + 1;
    let (found, body) = text.split_at(end);
    if !found.starts_with("evenkeel-register ") {
        return Err("it does not begin as a file of a register".to_owned());
    }
    match found == head(kind, revision, body) {
        true => Ok(body),
        false => {
            Err("it is torn or was changed: its first line does not fit its name and the rest".to_owned())
        }
    }
}

/// Reads the file of a commit.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn read_commit(revision: Revision, bytes: &[u8]) -> Result<Vec<Write>, String> {
    let body: CommitBody =
        serde_json::from_str(body(FileKind::Commit, revision, bytes)?).map_err(|error| error.to_string())?;
    let write = |line: Line| {
        let key = line.key.parse().map_err(|fault| format!("{fault}"))?;
        let body = match line.value()? {
            Some(value) => WriteBody::Put(value, line.lease.map(LeaseId)),
            None => WriteBody::Delete,
        };
        Ok(Write { key, body })
    };
    body.writes.into_iter().map(write).collect()
}

/// Reads the file of a state.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn read_state(revision: Revision, bytes: &[u8]) -> Result<Vec<RegisterEntry>, String> {
    let body: StateBody =
        serde_json::from_str(body(FileKind::State, revision, bytes)?).map_err(|error| error.to_string())?;
    let entry = |line: Line| {
        let key = line.key.parse().map_err(|fault| format!("{fault}"))?;
        let value = line.value()?.ok_or("a key of a state has no value")?.into();
        let written = line.revision.map(Revision).filter(|it| *it <= revision);
        let revision = written.ok_or("a key has no revision, or a later one than the state")?;
        Ok(RegisterEntry { key, value, revision, lease: line.lease.map(LeaseId) })
    };
    body.entries.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes() -> Vec<Write> {
        let write = |key: &str, body| Write { key: key.parse().expect("a key"), body };
        vec![
            write("/a", WriteBody::Put("grüße\n\"x\"".into(), Some(LeaseId(7)))),
            write("/b", WriteBody::Put(vec![0, 255, 10], None)),
            write("/c", WriteBody::Put(Vec::new(), None)),
            write("/d", WriteBody::Delete),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let file = commit_file(Revision(7), &writes());
        assert_eq!(read_commit(Revision(7), &file), Ok(writes()));
        let entry = |key: &str, value: &[u8]| RegisterEntry {
            key: key.parse().expect("a key"),
            value: value.into(),
            revision: Revision(3),
            lease: Some(LeaseId(-1)),
        };
        let entries = [entry("/a", b"text"), entry("/b", &[200])];
        let file = state_file(Revision(9), entries.iter());
        assert_eq!(read_state(Revision(9), &file), Ok(entries.to_vec()));
    }

    #[test]
    fn every_torn_or_changed_file_is_found() {
        let file = commit_file(Revision(7), &writes());
        for len in 0..file.len() {
            assert!(read_commit(Revision(7), &file[..len]).is_err(), "{len} bytes of it");
            let mut changed = file.clone();
            changed[len] ^= 1;
            assert!(read_commit(Revision(7), &changed).is_err(), "byte {len} is changed");
        }
        assert!(read_commit(Revision(8), &file).is_err(), "under another's name");
        assert!(read_state(Revision(7), &file).is_err(), "as another kind");
        let longer = [&file[..], b"\n"].concat();
        assert!(read_commit(Revision(7), &longer).is_err(), "with more behind it");
    }

    #[test]
    fn a_name_is_ours_only_if_it_is_written_the_same() {
        let name = file_name(FileKind::Commit, Revision(7));
        assert_eq!(name, "commit-00000000000000000007");
        assert_eq!(parse_name(&name), Some((FileKind::Commit, Revision(7))));
        for foreign in ["commit-7", "commit-+0000000000000000007", "State-00000000000000000007", "x", ""] {
            assert_eq!(parse_name(foreign), None, "{foreign}");
        }
    }
}
