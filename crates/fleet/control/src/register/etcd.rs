//! A register in etcd, through the JSON gateway that each member has on its client port.
//!
//! ```text
//! EtcdRegister ── Engine (a thread with tokio) ── ranges, transactions, watch ── members ── HTTP
//!                                                                        wire, lines: the JSON
//! ```
//!
//! Each call has a time limit of its own, even if the thread stood still: [`EtcdLimits::operation`], or
//! [`EtcdLimits::range`], and a second. The gateway's traps are named where they are met.

mod engine;
mod foreign;
mod lines;
mod members;
mod ranges;
mod settings;
mod transactions;
mod watch;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::engine::Engine;
use self::members::{CallFailure, Members, Repeat};
pub use self::settings::{EtcdLimits, EtcdSettings, EtcdUser};
use self::watch::{Position, WatchState};
use self::wire::{GrantResponse, HeaderOnly, KeepAliveResult, Streamed, parse};
use super::contents::RegisterEntry;
use super::contract::{GrantedLease, LeaseAnswer, RangeAnswer, Register, RegisterWatch, WatchStep};
use super::error::RegisterError;
use super::keys::{KeyPrefix, RegisterKey};
use super::leases::check_ttl;
use super::numbers::{LeaseId, Revision};
use super::transaction::{Transaction, TransactionOutcome};

/// Bytes of an answer without keys.
const SHORT_LEN_MAX: usize = 64 << 10;

/// A client of etcd.
pub struct EtcdRegister {
    engine: Arc<Engine>,
    /// The highest revision that was seen.
    seen: Mutex<Revision>,
}

impl EtcdRegister {
    /// A client; etcd is not asked yet.
    ///
    /// # Errors
    /// If the settings cannot be used, or there is no thread.
    pub fn new(settings: &EtcdSettings) -> Result<EtcdRegister, RegisterError> {
        let engine = Arc::new(Engine::start(Members::new(settings)?)?);
        Ok(EtcdRegister { engine, seen: Mutex::new(Revision::ABSENT) })
    }

    fn seen(&self) -> Revision {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a revision. `before` is what was seen before the call: of calls at the same time, either may be first.
    fn note(&self, before: Revision, found: Revision) -> Result<(), RegisterError> {
        if found < before {
            return Err(RegisterError::WentBack { had: before, found });
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = found.max(*seen);
        Ok(())
    }

    fn call<T, F>(&self, job: impl FnOnce(Arc<Members>) -> F) -> Result<T, RegisterError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RegisterError>> + Send + 'static,
    {
        self.engine.run(self.engine.members.limits.operation, job)
    }
}

impl Register for EtcdRegister {
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError> {
        let (key, before) = (key.clone(), self.seen());
        let (entry, revision) = self.call(|members| async move { ranges::get(&members, &key).await })?;
        self.note(before, revision)?;
        Ok(entry)
    }

    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        let (prefix, before) = (prefix.clone(), self.seen());
        let limit = self.engine.members.limits.range;
        let read = |members: Arc<Members>| async move { ranges::range(&members, &prefix).await };
        let answer = self.engine.run(limit, read)?;
        self.note(before, answer.revision)?;
        Ok(answer)
    }

    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError> {
        transaction.check()?;
        let (owned, before) = (transaction.clone(), self.seen());
        let outcome = self.call(|members| async move { transactions::put_if(&members, &owned).await });
        let outcome = outcome.map_err(|error| match error {
            // The engine's thread stood still: it may go on, and write.
            RegisterError::Unavailable(why) if why == engine::STALLED => {
                RegisterError::Unsettled { key: transaction.witness().clone(), why }
            }
            other => other,
        })?;
        if let TransactionOutcome::Committed(revision) = outcome {
            self.note(before, revision)?;
        }
        Ok(outcome)
    }

    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch> {
        let position = Position::new(prefix, after);
        Box::new(EtcdWatch { engine: Arc::clone(&self.engine), state: None, position })
    }

    fn compact(&self, up_to: Revision) -> Result<(), RegisterError> {
        if up_to <= Revision::FIRST {
            let (first, last) = (Revision::FIRST.next(), self.seen());
            return Err(RegisterError::Compaction { asked: up_to, first, last });
        }
        let before = self.seen();
        let revision = self.call(move |members| async move {
            let request = serde_json::json!({ "revision": up_to.0.to_string() });
            let answer = call(&members, "/v3/kv/compaction", &request).await?;
            Ok(parse::<HeaderOnly>("a compaction", &answer)?.header.revision)
        })?;
        self.note(before, revision)
    }

    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError> {
        let seconds = check_ttl(ttl)?;
        self.call(move |members| async move {
            let request = serde_json::json!({ "TTL": seconds.to_string() });
            // One whose answer is lost ends by itself.
            let answer = call(&members, "/v3/lease/grant", &request).await?;
            let GrantResponse { id, ttl } = parse("the grant of a lease", &answer)?;
            match u64::try_from(ttl) {
                Ok(ttl) if ttl > 0 && id != 0 => {
                    Ok(GrantedLease { id: LeaseId(id), ttl: Duration::from_secs(ttl) })
                }
                _ => Err(RegisterError::Answer(format!("etcd grants the lease {id} for {ttl} s"))),
            }
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError> {
        self.call(move |members| async move {
            let request = serde_json::json!({ "ID": lease.0.to_string() });
            let answer = match call(&members, "/v3/lease/keepalive", &request).await {
                Err(CallFailure::NoLease) => return Ok(LeaseAnswer::Lost),
                other => other?,
            };
            // A stream of one message.
            let end = answer.iter().position(|byte| *byte == b'\n').unwrap_or(answer.len());
            let kept: Streamed<KeepAliveResult> = parse("a kept lease", &answer[..end])?;
            match kept.result {
                KeepAliveResult { id, .. } if id != lease.0 => {
                    Err(RegisterError::Answer(format!("etcd keeps the lease {id}, which is another one")))
                }
                KeepAliveResult { ttl, .. } => Ok(match u64::try_from(ttl) {
                    Ok(ttl) if ttl > 0 => LeaseAnswer::Kept(Duration::from_secs(ttl)),
                    _ => LeaseAnswer::Lost,
                }),
            }
        })
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError> {
        let before = self.seen();
        let revision = self.call(move |members| async move {
            let request = serde_json::json!({ "ID": lease.0.to_string() });
            match call(&members, "/v3/lease/revoke", &request).await {
                Err(CallFailure::NoLease) => Ok(None),
                answer => Ok(Some(parse::<HeaderOnly>("the end of a lease", &answer?)?.header.revision)),
            }
        })?;
        revision.map_or(Ok(()), |revision| self.note(before, revision))
    }
}

/// A call that may be made twice, with a short answer.
async fn call(members: &Members, path: &str, request: &serde_json::Value) -> Result<Vec<u8>, CallFailure> {
    members.call(path, request, Repeat::Freely, SHORT_LEN_MAX, members.deadline()).await
}

struct EtcdWatch {
    engine: Arc<Engine>,
    /// Away while the engine works on it.
    state: Option<WatchState>,
    /// That of the state, from which a new one is made should the engine not give it back.
    position: Position,
}

impl RegisterWatch for EtcdWatch {
    fn next(&mut self, wait: Duration) -> Result<WatchStep, RegisterError> {
        let state = self.state.take();
        let position = self.position.clone();
        let limit = wait + self.engine.members.limits.operation * 2;
        let (state, step) = self.engine.run(limit, |members| async move {
            let until = tokio::time::Instant::now() + wait;
            let mut state = state.unwrap_or_else(|| WatchState::new(position));
            let step = state.next(&members, until).await;
            Ok((state, step))
        })?;
        self.position = state.position.clone();
        self.state = Some(state);
        step
    }
}
