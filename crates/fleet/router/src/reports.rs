//! Reports that clients order from their workers, made on another thread.

pub(crate) mod desk;
pub(crate) mod facts;
mod figures;
pub(crate) mod hot_keys;
mod json;
mod listing;
pub(crate) mod metrics;
mod percent_g;
mod routes;
mod servers;
mod service;
pub(crate) mod service_texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::JsonValue;
use crate::reports::desk::{DeskReport, ReportSubject, SERVICE_PREFIX};
use crate::reports::facts::ReportFacts;
use crate::shared::RouterShared;
use crate::stats::StatsGroup;

/// All statistics by name.
pub(crate) fn listing_of_all(shared: &RouterShared, facts: &ReportFacts) -> BTreeMap<String, String> {
    named(&listing::listing(shared, StatsGroup::All, facts))
}

/// The lines of a listing, by name.
fn named(listing: &str) -> BTreeMap<String, String> {
    let pairs =
        listing.lines().filter_map(|line| line.strip_prefix("STAT ").and_then(|line| line.split_once(' ')));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl RouterShared {
    /// All statistics as a JSON object: numbers where they are numbers. With it `uptime_us`, the moment by the router's clock,
    /// and in `route` figures for programs that watch it. `network` is what the router's network has counted.
    pub fn statistics_json(&self, facts: &ReportFacts, network: &net::Counts) -> String {
        let moment = ("uptime_us".to_owned(), facts.now.us.to_string());
        let mut all = json::object(listing_of_all(self, facts).into_iter().chain([moment]));
        if let JsonValue::Object(entries) = &mut all.value {
            entries.push(("route".to_owned(), figures::figures(self, facts, network)));
        }
        all.to_pretty_json()
    }

    /// Those statistics that mcrouter writes to its file, as a JSON object, with `prefix` and a point before each name.
    pub fn ods_json(&self, prefix: &str, facts: &ReportFacts) -> String {
        let statistics = named(&listing::listing(self, StatsGroup::Ods, facts));
        json::object(statistics.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)))
            .to_pretty_json()
    }

    /// Each server, as a JSON object with `uptime_us`, the moment of `facts`.
    pub fn servers_json(&self, facts: &ReportFacts) -> String {
        figures::servers(self, facts).to_json()
    }

    /// The keys with most requests, as a JSON object; `None` with `--hide-hot-keys`.
    pub fn hot_keys_json(&self, facts: &ReportFacts) -> Option<String> {
        hot_keys::json(self, facts.now)
    }

    /// Files of the configuration in force and their digests, as a JSON object.
    pub fn config_sources_json(&self) -> String {
        service::sources_json(&self.plan())
    }

    /// Options by mcrouter's names, and the number of the process, as a JSON object of texts.
    pub fn options_json(&self, process: u32) -> String {
        let options = self.startup().options.iter().cloned();
        json::texts(options.chain([("pid".to_owned(), process.to_string())])).to_pretty_json()
    }

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
