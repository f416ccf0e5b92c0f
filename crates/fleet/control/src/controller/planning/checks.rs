//! Checks of contents: no text that has failed in a router, or that no router takes.

use std::collections::BTreeMap;

use admin::api::ApiReply;
use fleet::{FleetContent, GenerationNumber, ViewName, texts};
use stdx::words::counted;

use super::Planner;
use crate::controller::answers::replies::refusal;
use crate::controller::rollout::published::published;
use crate::route_check::{CheckedRoutes, KEYS_SAMPLED};

impl Planner<'_> {
    /// What changes for keys, for each view whose text changes; an error for a text that no router takes.
    pub(crate) fn check_routes(
        &self,
        old: &FleetContent,
        new: &FleetContent,
    ) -> Result<BTreeMap<ViewName, String>, ApiReply> {
        let before = old;
        let (old, new_texts) = (texts(old), texts(new));
        let cold_texts = texts(&new.clone().all_cold());
        let digests = published(GenerationNumber(0), new).0.digests;
        let mut keys = BTreeMap::new();
        let changed = |(view, text): &(&ViewName, &String)| {
            old.get(*view) != Some(*text) || before.route_prefix(view) != new.route_prefix(view)
        };
        for (view, text) in new_texts.iter().filter(changed) {
            let (name, prefix) = (format!("view {view}"), new.route_prefix(view));
            if digests.get(view).is_some_and(|digest| self.failures.texts().contains(digest)) {
                return Err(refusal(
                    422,
                    &format!("view {view}: this very text has failed in a router before"),
                ));
            }
            let compiled = CheckedRoutes::compile_for(&name, text, prefix);
            let compiled = compiled.map_err(|error| refusal(422, &format!("no router takes it: {error}")))?;
            // Nobody is there to change a policy when a member is lost at night.
            CheckedRoutes::compile_for(&name, &cold_texts[view], prefix).map_err(|error| {
                refusal(422, &format!("no router takes it with a warm-up after a replacement: {error}"))
            })?;
            let before = old
                .get(view)
                .and_then(|text| CheckedRoutes::compile_for("before", text, before.route_prefix(view)).ok());
            let sentence = match before {
                Some(before) => before.difference(&compiled, KEYS_SAMPLED, 1, self.unix_s).sentence(),
                None => format!(
                    "its routers have not read anything before; {}",
                    counted(compiled.servers(), "server")
                ),
            };
            keys.insert(view.clone(), sentence);
        }
        Ok(keys)
    }

    /// Why a content that no person has seen is not published: a text that has failed, or that no router takes.
    pub(crate) fn unfit_text(&self, new: &FleetContent) -> Option<String> {
        let (published, new_texts) = published(GenerationNumber(0), new);
        let old = self.facts.view().content();
        // What is in force is checked as well if it is published once more.
        let is_same = old == *new;
        let old = texts(&old);
        let checked = new_texts.iter().filter(|(view, text)| is_same || old.get(*view) != Some(*text));
        checked.into_iter().find_map(|(view, text)| match published.digests.get(view) {
            Some(digest) if self.failures.texts().contains(digest) => {
                Some(format!("view {view}: this very text has failed in a router before"))
            }
            _ => CheckedRoutes::compile_for(&format!("view {view}"), text, new.route_prefix(view))
                .err()
                .map(|error| format!("no router takes it: {error}")),
        })
    }
}
