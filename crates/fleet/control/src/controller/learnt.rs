//! Failures that outlive a controller: what it has learnt goes to the register, and what others have learnt comes from there.

use std::collections::BTreeSet;

use admin::api::ApiReply;
use fleet::health::Quarantined;
use serde_json::json;
use stdx::clock::Now;

use super::replies::{document, refusal, register_away};
use super::{Controller, RETRY_MS};
use crate::decisions::{CONDEMNED_MAX, HELD_MAX, HeldRecord};
use crate::register::RegisterError;

impl Controller {
    /// Takes what the register has. Quarantines that it had and has no more were ended by somebody.
    pub(super) fn follow_learnt(&mut self) {
        self.condemned.extend(self.register.view().condemned().iter().cloned());
        self.kept_condemned.extend(self.register.view().condemned().iter().cloned());
        let held: BTreeSet<Quarantined> =
            self.register.view().quarantine().iter().map(|held| held.whose.clone()).collect();
        let (now, book) = (self.now, self.watch.quarantine_mut());
        for whose in self.kept_held.difference(&held) {
            book.release(whose);
        }
        let known: BTreeSet<Quarantined> = book.held().map(|(whose, _)| whose.clone()).collect();
        for record in self.register.view().quarantine().iter().filter(|record| !known.contains(&record.whose))
        {
            // A full book lets no member in, whoever it is.
            let _ = book.hold(now, record.whose.clone(), &record.reason, None);
        }
        self.kept_held = held;
    }

    /// Writes what the register does not have yet.
    pub(super) fn keep_learnt(&mut self) {
        if self.now < self.keep_at {
            return;
        }
        match self.keep_condemned().and_then(|()| self.keep_held()) {
            Ok(()) => self.is_keeping = true,
            Err(error) => {
                self.keep_at = Now::at_ms(self.now.ms() + RETRY_MS);
                // Once, not every second while the register is away.
                if std::mem::take(&mut self.is_keeping) {
                    self.log.add(format!("failures are not kept, and a restart would forget them: {error}"));
                }
            }
        }
    }

    fn keep_condemned(&mut self) -> Result<(), RegisterError> {
        let new: Vec<_> = self.condemned.difference(&self.kept_condemned).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let dropped = self.register.condemn(&new)?;
        self.kept_condemned.extend(new);
        for text in dropped {
            let line =
                format!("text {text} has failed and is forgotten: {CONDEMNED_MAX} later ones are kept");
            self.log.add(line);
        }
        Ok(())
    }

    fn keep_held(&mut self) -> Result<(), RegisterError> {
        let kept = &self.kept_held;
        let held = self.watch.quarantine().held();
        let new: Vec<HeldRecord> = held
            .filter(|(whose, _)| !kept.contains(whose))
            .map(|(whose, reason)| HeldRecord { whose: whose.clone(), reason: reason.to_owned() })
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let dropped = self.register.hold(&new)?;
        self.kept_held.extend(new.into_iter().map(|record| record.whose));
        self.note_let_go(&dropped);
        Ok(())
    }

    fn note_let_go(&mut self, dropped: &[HeldRecord]) {
        for record in dropped {
            self.watch.quarantine_mut().release(&record.whose);
            self.kept_held.remove(&record.whose);
            let (whose, reason) = (&record.whose, &record.reason);
            self.log.add(format!(
                "{whose} is out of quarantine ({reason}): {HELD_MAX} that came later are kept; release some by `control thaw`"
            ));
        }
    }

    /// Puts a member or host into quarantine, as a person asks.
    pub(super) fn hold_by_hand(&mut self, whose: &Quarantined, why: &str) -> ApiReply {
        let record = HeldRecord { whose: whose.clone(), reason: why.to_owned() };
        let dropped = match self.register.hold(&[record]) {
            Ok(dropped) => dropped,
            Err(error) => return register_away(&error),
        };
        self.kept_held.insert(whose.clone());
        self.note_let_go(&dropped);
        if !self.watch.quarantine_mut().hold(self.now, whose.clone(), why, None) {
            return refusal(409, "the quarantine is full\n  hint: `control thaw` lets members and hosts go");
        }
        document(format!("{whose} is in quarantine\n"), json!({"scope": whose.to_string()}))
    }

    /// Ends a quarantine, as a person asks.
    pub(super) fn release_by_hand(&mut self, whose: &Quarantined) -> ApiReply {
        let released = self.register.release(whose);
        if let Err(error) = released {
            return register_away(&error);
        }
        self.kept_held.remove(whose);
        let was_held = self.watch.quarantine_mut().release(whose);
        let words = if was_held { "may take a slot again" } else { "was not in quarantine" };
        document(format!("{whose} {words}\n"), json!({"scope": whose.to_string(), "was_frozen": was_held}))
    }
}
