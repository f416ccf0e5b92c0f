//! Transactions of etcd, each carried out at most once.
//!
//! A write that was under way when a member went silent may have happened, may happen yet, or not at all. A look at the
//! compared keys decides: if they have the compared revisions still, the same transaction may be tried again, because
//! whichever of the two comes first makes the other one fail. If all of it is there under a lease of ours, it has happened.
//! In all other cases nobody can tell ours from somebody else's, who may have written the same, and that is the answer.
//!
//! A key that must be absent is no such guard: it may have been created by ours and deleted since, or ours may create it
//! once more when somebody has deleted it. So a transaction whose every compared and written key must be absent is sent
//! once, and stays in doubt.

use tokio::time::Instant;

use super::members::{CallFailure, Members, Repeat};
use super::wire::{
    Compare, DeleteRequest, KeyValue, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse, code,
    parse,
};
use crate::register::error::RegisterError;
use crate::register::keys::RegisterKey;
use crate::register::numbers::{LeaseId, Revision};
use crate::register::transaction::{Transaction, TransactionOutcome, Write, WriteBody};

const TXN: &str = "/v3/kv/txn";

/// Carries out a transaction; returns the register's revision, too.
pub(super) async fn put_if(
    members: &Members,
    transaction: &Transaction,
) -> Result<TransactionOutcome, RegisterError> {
    let deadline = members.deadline();
    let request = request(transaction);
    let mut doubt: Option<String> = None;
    let unsettled = |why: String| RegisterError::Unsettled { key: transaction.witness().clone(), why };
    loop {
        let len_max = members.limits.answer_len;
        let answer = members.call(TXN, &request, Repeat::Never, len_max, deadline).await;
        let lease_is_lost = matches!(answer, Err(CallFailure::NoLease));
        match (answer, &doubt) {
            (Ok(answer), _) => match outcome(transaction, &answer) {
                Ok(TransactionOutcome::Conflict { .. }) if doubt.is_some() => {}
                Ok(outcome) => return Ok(outcome),
                // It was understood by etcd, whatever it answers.
                Err(error) => return Err(unsettled(error.to_string())),
            },
            (Err(CallFailure::NoLease), None) => return Ok(TransactionOutcome::LeaseLost),
            (Err(CallFailure::NoLease), Some(_)) => {}
            (Err(CallFailure::InDoubt(why)), _) => doubt = Some(why),
            (Err(CallFailure::TooLong), _) => return Err(unsettled("the answer is too long".to_owned())),
            (Err(failure), None) => return Err(failure.into()),
            (Err(failure), Some(_)) => return Err(unsettled(RegisterError::from(failure).to_string())),
        }
        let seen =
            look(members, transaction, deadline).await.map_err(|error| unsettled(error.to_string()))?;
        match seen {
            Seen::Ours(revision) => return Ok(TransactionOutcome::Committed(revision)),
            Seen::Before if !transaction.is_repeatable() => {
                let why = doubt.unwrap_or_default();
                return Err(unsettled(format!("{why}; it is absent, or was deleted since")));
            }
            Seen::Before if lease_is_lost => return Ok(TransactionOutcome::LeaseLost),
            Seen::Before if Instant::now() < deadline => {}
            Seen::Before => return Err(unsettled(doubt.unwrap_or_default())),
            Seen::Later(key) => {
                return Err(unsettled(format!("{key} was changed meanwhile, perhaps by somebody else")));
            }
        }
    }
}

fn request(transaction: &Transaction) -> TxnRequest {
    let compare = transaction.compared().iter().map(|(key, revision)| Compare {
        key: code(key.as_str()),
        target: "MOD",
        result: "EQUAL",
        mod_revision: revision.0.to_string(),
    });
    let write = transaction.writes().iter().map(|write| {
        let key = code(write.key.as_str());
        match &write.body {
            WriteBody::Put(value, lease) => {
                let lease = lease.map(|LeaseId(id)| id.to_string());
                RequestOp::Put(PutRequest { key, value: code(value), lease })
            }
            WriteBody::Delete => RequestOp::Delete(DeleteRequest { key }),
        }
    });
    let compared = transaction.compared().iter().map(|(key, _)| key);
    TxnRequest { compare: compare.collect(), success: write.collect(), failure: reads(compared, true) }
}

fn reads<'k>(keys: impl Iterator<Item = &'k RegisterKey>, keys_only: bool) -> Vec<RequestOp> {
    let read = |key: &RegisterKey| {
        RequestOp::Range(RangeRequest { key: code(key.as_str()), keys_only, ..RangeRequest::default() })
    };
    keys.map(read).collect()
}

fn outcome(transaction: &Transaction, answer: &[u8]) -> Result<TransactionOutcome, RegisterError> {
    let answer: TxnResponse = parse("a transaction", answer)?;
    if answer.succeeded {
        return Ok(TransactionOutcome::Committed(answer.header.revision));
    }
    let found = found(answer, transaction.compared().len())?;
    let mut compared = transaction.compared().iter().zip(found);
    let differs = compared.find_map(|((key, expected), found)| {
        let found = match found.as_ref().map(KeyValue::revision).transpose() {
            Ok(found) => found.unwrap_or(Revision::ABSENT),
            Err(error) => return Some(Err(error)),
        };
        (found != *expected)
            .then(|| Ok(TransactionOutcome::Conflict { key: key.clone(), expected: *expected, found }))
    });
    let same = || RegisterError::Answer("etcd refuses a transaction whose comparisons hold".to_owned());
    differs.unwrap_or_else(|| Err(same()))
}

/// The keys that the ranges of a transaction have found.
fn found(answer: TxnResponse, count: usize) -> Result<Vec<Option<KeyValue>>, RegisterError> {
    let ranges: Option<Vec<_>> = answer.responses.into_iter().map(|one| one.response_range).collect();
    match ranges.filter(|ranges| ranges.len() == count) {
        Some(ranges) => Ok(ranges.into_iter().map(|range| range.kvs.into_iter().next()).collect()),
        None => {
            Err(RegisterError::Answer("etcd's answer to a transaction lacks some of its reads".to_owned()))
        }
    }
}

/// What is there after a transaction whose answer was lost.
enum Seen {
    /// All compared keys have the compared revisions.
    Before,
    /// All that it writes is there, from one revision, and under a lease.
    Ours(Revision),
    /// This key has another revision, and not all is ours.
    Later(RegisterKey),
}

async fn look(
    members: &Members,
    transaction: &Transaction,
    deadline: Instant,
) -> Result<Seen, RegisterError> {
    // What was compared first: if the transaction happens between the two reads, the second one finds it. Both are
    // transactions without a write, which etcd reads at one revision each, and may be made twice.
    let compared = transaction.compared().iter().map(|(key, _)| key);
    let written = transaction.writes().iter().map(|write| &write.key);
    let (compared, written) = (reads(compared, true), reads(written, false));
    let compared = read(members, compared, deadline).await?;
    let written = read(members, written, deadline).await?;
    if let Some(revision) = ours(transaction, &written)? {
        return Ok(Seen::Ours(revision));
    }
    for ((key, expected), found) in transaction.compared().iter().zip(&compared) {
        let found = found.as_ref().map(KeyValue::revision).transpose()?.unwrap_or(Revision::ABSENT);
        if found != *expected {
            return Ok(Seen::Later(key.clone()));
        }
    }
    Ok(Seen::Before)
}

async fn read(
    members: &Members,
    reads: Vec<RequestOp>,
    deadline: Instant,
) -> Result<Vec<Option<KeyValue>>, RegisterError> {
    let count = reads.len();
    let request = TxnRequest { compare: Vec::new(), success: reads, failure: Vec::new() };
    let len_max = members.limits.answer_len;
    let answer = members.call(TXN, &request, Repeat::Freely, len_max, deadline).await?;
    found(parse("a transaction", &answer)?, count)
}

/// The revision of a transaction all of whose writes are there, one of them under a lease: that is nobody else's. Without
/// one, somebody else may have written the same values.
fn ours(transaction: &Transaction, written: &[Option<KeyValue>]) -> Result<Option<Revision>, RegisterError> {
    let is_leased = |write: &Write| matches!(write.body, WriteBody::Put(_, Some(_)));
    if !transaction.writes().iter().any(is_leased) {
        return Ok(None);
    }
    let mut revision = None;
    for (write, found) in transaction.writes().iter().zip(written) {
        match (&write.body, found) {
            (WriteBody::Delete, None) => {}
            (WriteBody::Put(value, lease), Some(kv))
                if kv.value == *value && kv.lease == lease.map_or(0, |LeaseId(id)| id) =>
            {
                let found = kv.revision()?;
                if *revision.get_or_insert(found) != found {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
    }
    let newest = transaction.compared().iter().map(|(_, revision)| *revision).max();
    Ok(revision.filter(|revision| Some(*revision) > newest))
}
