//! A model of etcd in memory, with the faults that etcd has. No thread, no clock, no randomness: it is told the time and
//! the faults, and answers the same every time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stdx::clock::Now;

use super::contents::{RegisterContents, RegisterEntry};
use super::contract::{GrantedLease, LeaseAnswer, RangeAnswer, Register, RegisterWatch, WatchStep};
use super::error::RegisterError;
use super::keys::{KeyPrefix, RegisterKey};
use super::leases::{LeaseTable, check_ttl};
use super::numbers::{LeaseId, Revision};
use super::transaction::{Transaction, TransactionOutcome};

/// What happens to the next call, other than to the other ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedFault {
    /// No member takes it: nothing happens.
    NotReached,
    /// It is carried out, but the answer does not arrive.
    AnswerLost,
}

/// One client of the model. All clients that come from the same one by [`SimulatedRegister::client`] share its contents.
#[derive(Debug)]
pub struct SimulatedRegister {
    model: Arc<Mutex<Model>>,
    /// The highest revision that this client was told.
    seen: Mutex<Revision>,
}

#[derive(Debug, Default)]
struct Model {
    contents: RegisterContents,
    leases: LeaseTable,
    now: Now,
    /// Without a leader until then.
    leaderless_until: Option<Now>,
    /// One for each of the next calls; none for a call that goes well.
    faults: VecDeque<Option<SimulatedFault>>,
    /// How often all watches were cancelled.
    cancelled: u64,
}

impl Default for SimulatedRegister {
    fn default() -> SimulatedRegister {
        SimulatedRegister { model: Arc::default(), seen: Mutex::new(Revision::ABSENT) }
    }
}

impl SimulatedRegister {
    /// Another client of the same contents.
    pub fn client(&self) -> SimulatedRegister {
        SimulatedRegister { model: Arc::clone(&self.model), seen: Mutex::new(Revision::ABSENT) }
    }

    /// Lets time pass until `now`; leases end, but none while there is no leader.
    pub fn advance(&self, now: Now) {
        let mut model = self.model();
        model.now = model.now.max(now);
        model.pass();
    }

    /// Takes the leader away until a moment. The next leader gives every lease its whole time again.
    pub fn lose_leader(&self, until: Now) {
        self.model().leaderless_until = Some(until);
    }

    /// Lets the next calls of any client meet these faults, one each.
    pub fn add_fault(&self, fault: SimulatedFault) {
        self.model().faults.push_back(Some(fault));
    }

    /// Lets this many calls go well before the next fault that is added.
    pub fn add_calls_without_fault(&self, calls: usize) {
        self.model().faults.extend(std::iter::repeat_n(None, calls));
    }

    /// Cancels all watches: their next call fails, later ones go on where they were.
    pub fn cancel_watches(&self) {
        self.model().cancelled += 1;
    }

    /// All contents, as a backup has them.
    pub fn backup(&self) -> RegisterContents {
        self.model().contents.clone()
    }

    /// Replaces all contents by those of a backup. Clients that saw a later revision say so from now on.
    pub fn restore(&self, backup: RegisterContents) {
        self.model().contents = backup;
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that a leader answers.
    fn call<T>(
        &self,
        act: impl FnOnce(&mut Model) -> Result<T, RegisterError>,
        lost: impl FnOnce(&'static str) -> RegisterError,
    ) -> Result<T, RegisterError> {
        let mut model = self.model();
        if model.leaderless_until.is_some() {
            return Err(lost("there is no leader"));
        }
        match model.faults.pop_front().flatten() {
            Some(SimulatedFault::NotReached) => return Err(unavailable("no member was reached")),
            Some(SimulatedFault::AnswerLost) => {
                act(&mut model)?;
                return Err(lost("the answer was lost"));
            }
            None => {}
        }
        note_revision(&self.seen, model.contents.revision())?;
        let answer = act(&mut model)?;
        note_revision(&self.seen, model.contents.revision())?;
        Ok(answer)
    }
}

impl Model {
    fn pass(&mut self) {
        match self.leaderless_until {
            Some(until) if self.now < until => return,
            Some(until) => {
                self.leases.renew_all(until);
                self.leaderless_until = None;
            }
            None => {}
        }
        for lease in self.leases.expired(self.now) {
            self.revoke(lease);
        }
    }

    fn put_if(&mut self, transaction: &Transaction) -> TransactionOutcome {
        if let Some(obstacle) = self.contents.obstacle(transaction, |lease| self.leases.is_alive(lease)) {
            return obstacle;
        }
        TransactionOutcome::Committed(self.contents.apply(transaction.writes()))
    }

    fn revoke(&mut self, lease: LeaseId) {
        if self.leases.revoke(lease) {
            let deletes = self.contents.of_lease(lease);
            self.contents.apply(&deletes);
        }
    }
}

fn unavailable(why: &str) -> RegisterError {
    RegisterError::Unavailable(why.to_owned())
}

/// Remembers the highest revision; a lower one is an error.
fn note_revision(seen: &Mutex<Revision>, found: Revision) -> Result<(), RegisterError> {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if found < *seen {
        return Err(RegisterError::WentBack { had: *seen, found });
    }
    *seen = found;
    Ok(())
}

impl Register for SimulatedRegister {
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError> {
        self.call(|model| Ok(model.contents.get(key).cloned()), unavailable)
    }

    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        let read = |model: &mut Model| {
            Ok(RangeAnswer { entries: model.contents.range(prefix), revision: model.contents.revision() })
        };
        self.call(read, unavailable)
    }

    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError> {
        transaction.check()?;
        let key = transaction.witness().clone();
        let unsettled = |why: &str| RegisterError::Unsettled { key, why: why.to_owned() };
        self.call(|model| Ok(model.put_if(transaction)), unsettled)
    }

    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch> {
        let client = self.client();
        let cancelled = client.model().cancelled;
        Box::new(SimulatedWatch { client, prefix: prefix.clone(), after, cancelled })
    }

    fn compact(&self, up_to: Revision) -> Result<(), RegisterError> {
        let compact = |model: &mut Model| {
            model.contents.check_compaction(up_to)?;
            model.contents.compact(up_to);
            Ok(())
        };
        self.call(compact, unavailable)
    }

    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError> {
        check_ttl(ttl)?;
        let grant = |model: &mut Model| {
            let id = model.leases.grant(ttl, model.now).ok_or(RegisterError::LeasesFull)?;
            Ok(GrantedLease { id, ttl })
        };
        self.call(grant, unavailable)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError> {
        let keep = |model: &mut Model| {
            let now = model.now;
            Ok(model.leases.keep_alive(lease, now).map_or(LeaseAnswer::Lost, LeaseAnswer::Kept))
        };
        self.call(keep, unavailable)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError> {
        self.call(
            |model| {
                model.revoke(lease);
                Ok(())
            },
            unavailable,
        )
    }
}

struct SimulatedWatch {
    client: SimulatedRegister,
    prefix: KeyPrefix,
    after: Revision,
    cancelled: u64,
}

impl RegisterWatch for SimulatedWatch {
    /// Never waits: what has changed in the model has changed already.
    fn next(&mut self, _wait: Duration) -> Result<WatchStep, RegisterError> {
        let model = self.client.model();
        if self.cancelled != model.cancelled {
            self.cancelled = model.cancelled;
            return Err(unavailable("the watch was cancelled"));
        }
        if model.leaderless_until.is_some() {
            return Ok(WatchStep::Quiet);
        }
        note_revision(&self.client.seen, model.contents.revision().max(self.after))?;
        if model.contents.revision() < self.after {
            return Err(RegisterError::WentBack { had: self.after, found: model.contents.revision() });
        }
        let changes = match model.contents.since(&self.prefix, self.after) {
            Err(compacted) => return Ok(WatchStep::Compacted(compacted)),
            Ok(changes) if changes.is_empty() => WatchStep::Quiet,
            Ok(changes) => WatchStep::Changes(changes),
        };
        self.after = model.contents.revision();
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RegisterKey {
        text.parse().expect("a key")
    }

    fn all() -> KeyPrefix {
        "/".parse().expect("a prefix")
    }

    fn create(text: &str) -> Transaction {
        Transaction::if_revision(key(text), Revision::ABSENT).put(key(text), "v")
    }

    fn committed(register: &SimulatedRegister, transaction: &Transaction) -> u64 {
        match register.put_if(transaction).expect("an answer") {
            TransactionOutcome::Committed(revision) => revision.0,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check_failure<T: std::fmt::Debug>(answer: Result<T, RegisterError>, expected: &str) {
        let said = answer.expect_err("a failure").to_string();
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_write_whose_answer_is_lost_has_happened_and_one_that_arrives_nowhere_has_not() {
        let register = SimulatedRegister::default();
        register.add_fault(SimulatedFault::AnswerLost);
        check_failure(register.put_if(&create("/a")), "learn whether a write to /a was carried out");
        assert!(register.get(&key("/a")).expect("an answer").is_some());
        register.add_fault(SimulatedFault::NotReached);
        check_failure(register.put_if(&create("/b")), "reach the register");
        assert!(register.get(&key("/b")).expect("an answer").is_none());
    }

    #[test]
    fn without_a_leader_nothing_is_answered_and_no_lease_ends() {
        let register = SimulatedRegister::default();
        let lease = register.grant(Duration::from_secs(10)).expect("a lease").id;
        let leader = Transaction::if_revision(key("/l"), Revision::ABSENT).put_leased(key("/l"), "me", lease);
        committed(&register, &leader);
        register.lose_leader(Now::at_ms(30_000));
        check_failure(register.get(&key("/l")), "there is no leader");
        check_failure(register.put_if(&create("/a")), "there is no leader");
        register.advance(Now::at_ms(29_999));
        check_failure(register.keep_alive(lease), "there is no leader");
        register.advance(Now::at_ms(39_999));
        assert!(register.get(&key("/l")).expect("an answer").is_some(), "it has its whole time again");
        register.advance(Now::at_ms(40_000));
        assert_eq!(register.get(&key("/l")).expect("an answer"), None);
        assert_eq!(register.keep_alive(lease).expect("an answer"), LeaseAnswer::Lost);
        assert_eq!(register.put_if(&leader).expect("an answer"), TransactionOutcome::LeaseLost);
    }

    #[test]
    fn a_cancelled_watch_says_so_once_and_misses_nothing() {
        let register = SimulatedRegister::default();
        let mut watch = register.watch(&all(), Revision::FIRST);
        register.cancel_watches();
        committed(&register, &create("/a"));
        check_failure(watch.next(Duration::ZERO), "the watch was cancelled");
        let WatchStep::Changes(changes) = watch.next(Duration::ZERO).expect("an answer") else { panic!() };
        assert_eq!(changes[0].key, key("/a"));
        assert_eq!(watch.next(Duration::ZERO).expect("an answer"), WatchStep::Quiet);
    }

    #[test]
    fn who_saw_a_later_revision_refuses_a_register_from_an_old_backup() {
        let register = SimulatedRegister::default();
        let backup = register.backup();
        let (other, mut watch) = (register.client(), register.watch(&all(), Revision::FIRST));
        committed(&register, &create("/a"));
        assert!(matches!(watch.next(Duration::ZERO), Ok(WatchStep::Changes(_))));
        register.restore(backup);
        check_failure(register.get(&key("/a")), "went back from revision 2 to revision 1");
        check_failure(register.put_if(&create("/a")), "went back from revision 2 to revision 1");
        check_failure(watch.next(Duration::ZERO), "went back from revision 2 to revision 1");
        assert_eq!(other.get(&key("/a")).expect("it saw nothing later"), None);
    }

    #[test]
    fn compaction_is_told_to_a_watch_that_is_behind() {
        let register = SimulatedRegister::default();
        let mut watch = register.watch(&all(), Revision::FIRST);
        let last = ["/a", "/b", "/c"].map(|key| committed(&register, &create(key)));
        assert_eq!(last, [2, 3, 4]);
        register.compact(Revision(3)).expect("it is there");
        check_failure(register.compact(Revision(3)), "accepted are revisions from revision 4 to revision 4");
        check_failure(register.compact(Revision(5)), "accepted are revisions from revision 4 to revision 4");
        for _ in 0..2 {
            assert_eq!(watch.next(Duration::ZERO).expect("an answer"), WatchStep::Compacted(Revision(3)));
        }
        let range = register.range(&all()).expect("an answer");
        let mut anew = register.watch(&all(), range.revision);
        assert_eq!(
            (range.entries.len(), anew.next(Duration::ZERO).expect("an answer")),
            (3, WatchStep::Quiet)
        );
    }
}
