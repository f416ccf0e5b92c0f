//! Counts of cases, and a line for each that differs.

/// How many cases were as mcrouter has them.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
}

impl Tally {
    /// Counts a case, and prints how it differs.
    pub(super) fn count(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(difference) => {
                self.failed += 1;
                println!("{name}: {difference}");
            }
        }
    }
}
