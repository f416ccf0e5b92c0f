//! Failures that outlive a controller: texts that have failed in routers, and whether the register has all that is known.

use std::collections::BTreeSet;

use fleet::{Generation, TextDigest};
use stdx::clock::Now;

use super::published::published;
use crate::controller::register_mirror::RETRY_MS;

/// Texts that have failed, and when what the register lacks is written.
pub(crate) struct KeptFailures {
    /// By what was seen in routers here, or by the register.
    texts: BTreeSet<TextDigest>,
    /// Those that the register has, or has forgotten.
    kept: BTreeSet<TextDigest>,
    /// When the register is asked again to keep what it could not.
    keep_at: Now,
    is_keeping: bool,
}

impl KeptFailures {
    /// None yet.
    pub(crate) fn new(now: Now) -> KeptFailures {
        KeptFailures { texts: BTreeSet::new(), kept: BTreeSet::new(), keep_at: now, is_keeping: true }
    }

    /// Takes the texts that the register has.
    pub(crate) fn follow(&mut self, condemned: &[TextDigest]) {
        self.texts.extend(condemned.iter().cloned());
        self.kept.extend(condemned.iter().cloned());
    }

    /// Adds texts that have failed here.
    pub(crate) fn add(&mut self, texts: impl IntoIterator<Item = TextDigest>) {
        self.texts.extend(texts);
    }

    /// All texts that have failed.
    pub(crate) fn texts(&self) -> &BTreeSet<TextDigest> {
        &self.texts
    }

    /// Whether any text of a generation has failed in a router.
    pub(crate) fn has_failed(&self, generation: &Generation) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        let (texts, _) = published(generation.number, &generation.content);
        texts.digests.values().any(|digest| self.texts.contains(digest))
    }

    /// Texts that the register does not have yet.
    pub(crate) fn unkept(&self) -> Vec<TextDigest> {
        self.texts.difference(&self.kept).cloned().collect()
    }

    /// The register has these texts.
    pub(crate) fn note_kept(&mut self, texts: Vec<TextDigest>) {
        self.kept.extend(texts);
    }

    /// Whether what the register lacks may be written now.
    pub(crate) fn may_keep(&self, now: Now) -> bool {
        self.keep_at <= now
    }

    /// The register has all that is known.
    pub(crate) fn note_all_kept(&mut self) {
        self.is_keeping = true;
    }

    /// The register could not be written. True the first time: people are told once, not every second while it is away.
    pub(crate) fn note_not_kept(&mut self, now: Now) -> bool {
        self.keep_at = Now::at_ms(now.ms() + RETRY_MS);
        std::mem::take(&mut self.is_keeping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: u8) -> TextDigest {
        format!("{number:032x}").parse().expect("a digest")
    }

    #[test]
    fn what_the_register_has_is_not_written_again() {
        let mut failures = KeptFailures::new(Now::at_ms(0));
        failures.follow(&[text(1)]);
        failures.add([text(1), text(2)]);
        assert_eq!(failures.unkept(), [text(2)]);
        failures.note_kept(failures.unkept());
        // It has forgotten one since.
        failures.follow(&[text(2)]);
        assert_eq!((failures.unkept(), failures.texts().len()), (vec![], 2));
    }

    #[test]
    fn people_are_told_once_that_nothing_is_kept() {
        let mut failures = KeptFailures::new(Now::at_ms(0));
        assert!(failures.note_not_kept(Now::at_ms(0)) && !failures.may_keep(Now::at_ms(RETRY_MS - 1)));
        assert!(failures.may_keep(Now::at_ms(RETRY_MS)) && !failures.note_not_kept(Now::at_ms(RETRY_MS)));
        failures.note_all_kept();
        assert!(failures.note_not_kept(Now::at_ms(9 * RETRY_MS)), "it was kept in between");
    }
}
