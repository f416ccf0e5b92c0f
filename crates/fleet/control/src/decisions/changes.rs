//! Changes of hosts in the register: a list of the last ones, and for each its record, written once, and its progress.
//!
//! ```text
//! /evenkeel/FLEET/changes                    the last changes and what has become of them, as JSON
//! /evenkeel/FLEET/change-texts/SHA256/I      a part of a change's record; a part has 20 digits, so that the order of keys is theirs
//! /evenkeel/FLEET/change-progress/N          what is decided of change N, as JSON
//! ```
//!
//! A record of 5,000 hosts has 1 MB, which no transaction takes. So its text is there in parts, under its own digest, before the list
//! names it as a change. The list says which changes are on their way: the number of a new one, and that no host of it is in another one,
//! are decided by the one transaction that writes the list.
//!
//! **Parts without a change.** A controller may end between parts and list. So the list says first which record is being written, and each
//! part is written only while the list is that one. Who begins the next change deletes what was being written, in the transaction that puts its own
//! in place: after it, nobody can write a part of the other one, and a part that is there is one that the list names. At most one record is left over.

use std::collections::BTreeMap;

use fleet::HostId;
use fleet::figures::shadow::ShadowGate;
use fleet::tuning::AnswerDigest;
use fleet::waves::{ChangeNumber, ChangePlan, ChangeProgress};
use serde::{Deserialize, Serialize};

use super::{FleetDecisions, misunderstood, sha256_hex};
use crate::register::{RegisterError, RegisterKey, Revision, Transaction, TransactionOutcome};
use crate::service::turn::{HostAct, PlanWish};

/// Changes that are kept: to see what has happened, and to undo them. Those that are on their way are never forgotten.
pub(crate) const CHANGES_KEPT: usize = 50;
/// Changes on their way at one time: each costs a look at all of its hosts every second.
pub(crate) const CHANGES_OPEN_MAX: usize = 16;
/// Bytes of a part of a record: two of them fit into a transaction.
const PART_LEN: usize = 500_000;
/// Attempts to write a part of which nobody knows whether it was written: a busy etcd takes its time for half a megabyte.
const PART_ATTEMPTS: usize = 3;
/// Bytes of a record: 25,000 hosts with long names need half of it.
pub(crate) const RECORD_LEN_MAX: usize = 16 * 1024 * 1024;

const CHANGES: &str = "changes";

/// A change as it was applied: never written again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    /// Its hosts, kinds and settings.
    pub plan: ChangePlan,
    /// What is done to each host.
    pub act: ChangeAct,
    /// What halts it besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// What had to be so before it began, and halts it if it is so no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<ShadowGate>,
}

/// What is done to the hosts of a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeAct {
    /// What was planned.
    pub wish: PlanWish,
    /// What each host would do, as it was shown.
    pub own: BTreeMap<HostId, AnswerDigest>,
}

impl ChangeAct {
    /// What is done to one host.
    pub(crate) fn of_host(&self, host: &HostId) -> Option<HostAct> {
        Some(HostAct::of(self.wish.clone(), self.own.get(host)?.clone()))
    }
}

/// The last changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeList {
    /// The number of the newest one; 0 before the first.
    pub last: u64,
    /// Each of them, the oldest first.
    pub rows: Vec<ChangeRow>,
    /// The record that is being written, or was left over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<RecordParts>,
}

/// The parts of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordParts {
    /// The digest of the record.
    pub sha256: String,
    /// How many parts it has.
    pub parts: usize,
}

/// A change in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeRow {
    /// Its number.
    pub number: ChangeNumber,
    /// The digest of its record.
    pub sha256: String,
    /// In how many parts that is.
    pub parts: usize,
    /// What is done to a host, in words.
    pub what: String,
    /// Who has applied it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When, by the wall clock of the controller: seconds since 1970.
    pub unix_s: i64,
    /// How many hosts it has.
    pub hosts: usize,
    /// What has become of it; none while it is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ChangeEnd>,
}

/// What has become of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeEnd {
    /// `done` or `undone`.
    pub state: String,
    /// Why it was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When, by the wall clock of the controller: seconds since 1970.
    pub unix_s: i64,
}

impl ChangeList {
    /// Those that are on their way.
    pub(crate) fn open(&self) -> impl Iterator<Item = &ChangeRow> {
        self.rows.iter().filter(|row| row.end.is_none())
    }

    /// One of them.
    pub(crate) fn row(&self, number: ChangeNumber) -> Option<&ChangeRow> {
        self.rows.iter().find(|row| row.number == number)
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a list has names and texts")
    }

    /// The same with what has become of a change; none: it is on its way again.
    pub(crate) fn with_end(&self, number: ChangeNumber, end: Option<ChangeEnd>) -> ChangeList {
        let mut list = self.clone();
        list.rows.iter_mut().filter(|row| row.number == number).for_each(|row| row.end = end.clone());
        list
    }

    /// Adds a change. If there are too many, the oldest that is over goes.
    fn add(&mut self, row: ChangeRow) -> Option<ChangeRow> {
        self.last = row.number.0;
        self.rows.push(row);
        let oldest = self.rows.iter().position(|row| row.end.is_some());
        oldest.filter(|_| self.rows.len() > CHANGES_KEPT).map(|at| self.rows.remove(at))
    }
}

/// A list as it was read.
pub(crate) type KnownList = (ChangeList, Revision);

impl FleetDecisions {
    /// The last changes, and the revision to compare.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub(crate) fn changes(&self) -> Result<KnownList, RegisterError> {
        let (list, revision) = self.record::<ChangeList>(&self.key(CHANGES))?;
        Ok((list.unwrap_or_default(), revision))
    }

    /// The record of a change.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub(crate) fn change_record(&self, row: &ChangeRow) -> Result<ChangeRecord, RegisterError> {
        let mut text = String::new();
        for part in 0..row.parts {
            let key = self.part_key(&row.sha256, part);
            let entry = self
                .register
                .get(&key)?
                .ok_or_else(|| misunderstood(&key, "there, and the list names it"))?;
            text += std::str::from_utf8(&entry.value).map_err(|_| misunderstood(&key, "UTF-8"))?;
        }
        let key = self.part_key(&row.sha256, 0);
        if sha256_hex(&text) != row.sha256 {
            return Err(misunderstood(&key, "the text of this digest"));
        }
        serde_json::from_str(&text).map_err(|error| misunderstood(&key, &format!("a change: {error}")))
    }

    /// What is decided of a change, and the revision to compare.
    ///
    /// # Errors
    /// If the register cannot be asked or believed, or does not have it.
    pub(crate) fn change_progress(
        &self,
        number: ChangeNumber,
    ) -> Result<(ChangeProgress, Revision), RegisterError> {
        let key = self.progress_key(number);
        match self.record(&key)? {
            (Some(progress), revision) => Ok((progress, revision)),
            (None, _) => Err(misunderstood(&key, "there, and the list names it")),
        }
    }

    /// Writes the record of a change, and names it in the list. None if another controller has changed the list meanwhile.
    ///
    /// # Errors
    /// If the register cannot be asked. [`RegisterError::Unsettled`]: it may have happened.
    pub(crate) fn create_change(
        &self,
        (list, revision): &KnownList,
        record_text: &str,
        mut row: ChangeRow,
    ) -> Result<Option<KnownList>, RegisterError> {
        let parts = parts_of(record_text);
        (row.sha256, row.parts) = (sha256_hex(record_text), parts.len());
        let begun = RecordParts { sha256: row.sha256.clone(), parts: row.parts };
        let Some((list, revision)) = self.begin_record((list, *revision), begun)? else { return Ok(None) };
        for (number, part) in parts.into_iter().enumerate() {
            if !self.keep_part(self.part_key(&row.sha256, number), part, revision)? {
                return Ok(None);
            }
        }
        let (mut list, number, mine) = (list, row.number, row.clone());
        list.begun = None;
        let gone = list.add(row);
        let progress = serde_json::to_vec(&ChangeProgress::default()).expect("it has numbers");
        let mut transaction = Transaction::if_revision(self.key(CHANGES), revision)
            .put(self.key(CHANGES), list.json())
            .put(self.progress_key(number), progress);
        if let Some(old) = gone {
            // A record has its change's number, so nobody shares it.
            let parts = RecordParts { sha256: old.sha256, parts: old.parts };
            transaction = self.without_parts(transaction.delete(self.progress_key(old.number)), &parts);
        }
        match self.register.put_if(&transaction) {
            Ok(TransactionOutcome::Committed(revision)) => Ok(Some((list, revision))),
            Ok(_) => Ok(None),
            Err(RegisterError::Unsettled { key, why }) => {
                let known = self.changes()?;
                match known.0.row(number) {
                    Some(row) if *row == mine => Ok(Some(known)),
                    Some(_) => Ok(None),
                    None => Err(RegisterError::Unsettled { key, why }),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Writes what is decided of a change if nobody has since `revision`, with the list if that changes by it. None if somebody has.
    ///
    /// # Errors
    /// If the register cannot be asked. It may have happened: the same again says so, because the revision is another one then.
    pub(crate) fn write_change_progress(
        &self,
        number: ChangeNumber,
        (progress, revision): (&ChangeProgress, Revision),
        list: Option<(&ChangeList, Revision)>,
    ) -> Result<Option<Revision>, RegisterError> {
        let key = self.progress_key(number);
        let json = serde_json::to_vec(progress).expect("it has names and numbers");
        let mut transaction = Transaction::if_revision(key.clone(), revision).put(key, json);
        if let Some((list, revision)) = list {
            transaction = transaction.and_if(self.key(CHANGES), revision).put(self.key(CHANGES), list.json());
        }
        match self.register.put_if(&transaction)? {
            TransactionOutcome::Committed(revision) => Ok(Some(revision)),
            _ => Ok(None),
        }
    }

    /// Says in the list that this record is being written, and deletes what was being written before. None if the list is another one now.
    fn begin_record(
        &self,
        (list, revision): (&ChangeList, Revision),
        begun: RecordParts,
    ) -> Result<Option<KnownList>, RegisterError> {
        let key = self.key(CHANGES);
        let new = ChangeList { begun: Some(begun), ..list.clone() };
        let mut transaction = Transaction::if_revision(key.clone(), revision).put(key, new.json());
        if let Some(left) = &list.begun {
            transaction = self.without_parts(transaction, left);
        }
        match self.register.put_if(&transaction) {
            Ok(TransactionOutcome::Committed(revision)) => Ok(Some((new, revision))),
            Ok(_) => Ok(None),
            Err(RegisterError::Unsettled { key, why }) => {
                // If another controller has written the same, one of the two is refused in the end.
                let known = self.changes()?;
                if known.0 == new { Ok(Some(known)) } else { Err(RegisterError::Unsettled { key, why }) }
            }
            Err(error) => Err(error),
        }
    }

    fn without_parts(&self, transaction: Transaction, record: &RecordParts) -> Transaction {
        let parts = (0..record.parts).map(|part| self.part_key(&record.sha256, part));
        parts.fold(transaction, Transaction::delete)
    }

    /// Writes a part while the list is that of this revision. False if it is another one now.
    fn keep_part(&self, key: RegisterKey, part: &str, list: Revision) -> Result<bool, RegisterError> {
        let transaction = Transaction::if_revision(key.clone(), Revision::ABSENT)
            .and_if(self.key(CHANGES), list)
            .put(key.clone(), part);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.register.put_if(&transaction) {
                Ok(TransactionOutcome::Committed(_)) => return Ok(true),
                // Whatever is there is this text, because the key has its digest. While the list is the same, nobody deletes it.
                Ok(TransactionOutcome::Conflict { key: found, .. }) => return Ok(found == key),
                Ok(_) => return Ok(false),
                Err(RegisterError::Unsettled { .. }) if self.register.get(&key)?.is_some() => {
                    return Ok(true);
                }
                Err(RegisterError::Unsettled { .. }) if attempts < PART_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn part_key(&self, sha256: &str, part: usize) -> RegisterKey {
        self.key(&format!("change-texts/{sha256}/{part:020}"))
    }

    fn progress_key(&self, number: ChangeNumber) -> RegisterKey {
        self.key(&format!("change-progress/{:020}", number.0))
    }
}

/// A text in parts that end at letters.
fn parts_of(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PART_LEN));
        parts.push(part);
        rest = more;
    }
    parts
}

#[cfg(test)]
mod races;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fleet::waves::{ChangeDraft, HostRole, PlannedHost, WaveSettings};

    use super::*;
    use crate::register::{SimulatedFault, SimulatedRegister};

    fn decisions(register: &SimulatedRegister) -> FleetDecisions {
        FleetDecisions::new(Arc::new(register.client()), &"f".parse().expect("a name"))
    }

    /// A change of so many hosts, with names of usual lengths.
    fn record(number: u64, hosts: usize) -> ChangeRecord {
        let name = |at: usize| -> HostId { format!("cache-{at:05}.example.net").parse().expect("a name") };
        let host = |at: usize| PlannedHost {
            host: name(at),
            zone: format!("us-east-1{}", ["a", "b", "c"][at % 3]).parse().expect("a name"),
            class: Some("r5.2xlarge".to_owned()),
            group: "0123456789ab".to_owned(),
            role: HostRole::Server,
            is_last: false,
            clusters: [format!("c{:02}", at % 70).parse().expect("a name")].into(),
        };
        let draft = ChangeDraft {
            number: ChangeNumber(number),
            what: "tune with the profile memcached".to_owned(),
            hosts: (0..hosts).map(host).collect(),
            promised: Vec::new(),
            restarts: false,
            takes_turns: true,
            accepted: ChangePlan::kinds_of(&(0..hosts).map(host).collect::<Vec<_>>()),
            settings: WaveSettings::default(),
        };
        let digest: AnswerDigest = "0f".repeat(32).parse().expect("a digest");
        let own = (0..hosts).map(|at| (name(at), digest.clone())).collect();
        let wish = PlanWish::Profile("memcached".to_owned());
        let plan = ChangePlan::new(draft, &[]).expect("a plan");
        ChangeRecord { plan, act: ChangeAct { wish, own }, objective: None, gate: None }
    }

    pub(super) fn row(number: u64) -> ChangeRow {
        let text = |text: &str| text.to_owned();
        ChangeRow {
            number: ChangeNumber(number),
            sha256: String::new(),
            parts: 0,
            what: text("tune"),
            who: text("ann"),
            why: text("a test"),
            unix_s: 1,
            hosts: 2,
            end: None,
        }
    }

    fn create(all: &FleetDecisions, number: u64, hosts: usize) -> KnownList {
        let text = serde_json::to_string(&record(number, hosts)).expect("JSON");
        let known = all.changes().expect("an answer");
        all.create_change(&known, &text, row(number)).expect("an answer").expect("nobody was faster")
    }

    fn end(all: &FleetDecisions, number: u64) {
        let (list, revision) = all.changes().expect("an answer");
        let number = ChangeNumber(number);
        let known = all.change_progress(number).expect("an answer");
        let end = ChangeEnd { state: "done".to_owned(), why: None, unix_s: 2 };
        let new = list.with_end(number, Some(end));
        let written = all.write_change_progress(number, (&known.0, known.1), Some((&new, revision)));
        assert!(written.expect("an answer").is_some());
    }

    /// The figures are those of the page about the register.
    #[test]
    fn a_record_of_the_largest_fleet_is_kept_in_parts_and_read_as_it_was() {
        let register = SimulatedRegister::default();
        let all = decisions(&register);
        for (number, hosts, parts) in [(1, 5_000, 3), (2, 25_000, 12)] {
            let (list, _) = create(&all, number, hosts);
            let row = list.row(ChangeNumber(number)).expect("it is there");
            assert_eq!(row.parts, parts, "{hosts} hosts");
            assert_eq!(all.change_record(row).expect("an answer"), record(number, hosts));
        }
    }

    #[test]
    fn the_oldest_that_is_over_is_forgotten_with_its_parts_and_an_open_one_never() {
        let register = SimulatedRegister::default();
        let all = decisions(&register);
        let (first, _) = create(&all, 1, 20);
        let (second, _) = create(&all, 2, 20);
        end(&all, 2);
        for number in 3..=CHANGES_KEPT as u64 + 1 {
            create(&all, number, 20);
            end(&all, number);
        }
        let (list, _) = all.changes().expect("an answer");
        assert_eq!((list.rows.len(), list.last), (CHANGES_KEPT, CHANGES_KEPT as u64 + 1));
        assert!(all.change_record(first.row(ChangeNumber(1)).expect("it is open")).is_ok());
        assert!(all.change_record(second.row(ChangeNumber(2)).expect("it was there")).is_err());
        assert!(all.change_progress(ChangeNumber(2)).is_err());
    }

    #[test]
    fn of_two_operators_one_gets_the_number_and_a_lost_answer_is_found() {
        let register = SimulatedRegister::default();
        let (one, other) = (decisions(&register), decisions(&register));
        let before = other.changes().expect("an answer");
        create(&one, 1, 20);
        let text = serde_json::to_string(&record(1, 22)).expect("JSON");
        assert_eq!(other.create_change(&before, &text, row(1)).expect("an answer"), None);

        let known = one.changes().expect("an answer");
        let text = serde_json::to_string(&record(2, 20)).expect("JSON");
        // The list says what is written, a part is written; then the list has the change, and the answer is lost.
        register.add_calls_without_fault(2);
        register.add_fault(SimulatedFault::AnswerLost);
        let created = one.create_change(&known, &text, row(2)).expect("it is found").expect("it is ours");
        assert_eq!(created.0.last, 2);
    }
}
