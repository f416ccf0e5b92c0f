//! Reports that clients order from their workers, made on another thread.

mod listing;
mod percent_g;
mod servers;

use std::sync::Arc;

use crate::report_desk::ReportSubject;
use crate::report_facts::ReportFacts;
use crate::shared::RouterShared;

impl RouterShared {
    /// Makes the reports that clients wait for. Returns the workers that have some now, which are to be nudged. `facts` is
    /// called if there are any.
    pub fn serve_reports(&self, facts: impl FnOnce() -> ReportFacts) -> Vec<usize> {
        let (mut facts, mut known) = (Some(facts), None);
        self.desk.serve(&self.trays(), |subject| {
            let facts = known.get_or_insert_with(|| facts.take().map(|facts| facts()).unwrap_or_default());
            let text = match subject {
                ReportSubject::Stats(group) => listing::listing(self, *group, facts),
            };
            Arc::from(text.into_bytes())
        })
    }
}
