//! Reports that clients order from their workers, made on another thread.

mod listing;
mod percent_g;
mod routes;
mod servers;
mod service;

use std::sync::Arc;

use crate::report_desk::{DeskReport, ReportSubject, SERVICE_PREFIX};
use crate::report_facts::ReportFacts;
use crate::shared::RouterShared;

impl RouterShared {
    /// Makes the reports that clients wait for. Returns the workers that have some now, which are to be nudged. `facts` is
    /// called if there are any.
    pub fn serve_reports(&self, facts: impl FnOnce() -> ReportFacts) -> Vec<usize> {
        let (mut facts, mut known) = (Some(facts), None);
        self.desk.serve(&self.trays(), |subject| {
            let facts = known.get_or_insert_with(|| facts.take().map(|facts| facts()).unwrap_or_default());
            match subject {
                ReportSubject::Stats(group) => {
                    let text = listing::listing(self, *group, facts);
                    DeskReport { head: Vec::new(), body: Arc::from(text.into_bytes()), tail: b"" }
                }
                ReportSubject::Service(key) => {
                    let body = service::answer(self, &key[SERVICE_PREFIX.len()..], facts);
                    let head = [b"VALUE ", &**key, format!(" 0 {}\r\n", body.len()).as_bytes()].concat();
                    DeskReport { head, body, tail: b"\r\n" }
                }
            }
        })
    }
}
