//! Exceptions from rules that count: what the tree does not keep yet, or has a reason not to.
//!
//! No row may be added, and no number raised: a change that makes one of them smaller lowers it here, and a row that
//! the rule allows leaves its table. A number that is too high is refused like one that is too low.

/// One place that a rule refuses otherwise.
pub(super) struct Exception {
    /// Where it is, in the words of the violation.
    pub(super) place: &'static str,
    pub(super) count: usize,
    pub(super) reason: &'static str,
}

const fn exception(place: &'static str, count: usize, reason: &'static str) -> Exception {
    Exception { place, count, reason }
}

/// Files of circles through methods (`objects/methods.rs`).
pub(super) const CIRCLES: [Exception; 3] = [
    exception(
        "dev/simulator, methods of `ControllerGroup`",
        5,
        "a world for tests: its faults may touch everything",
    ),
    exception(
        "dev/simulator, methods of `FleetWorld`",
        4,
        "a world for tests: its faults may touch everything",
    ),
    exception(
        "dev/simulator, methods of `SmallWorld`",
        4,
        "a world for tests: its faults may touch everything",
    ),
];

/// Fields of objects (`objects/fields.rs`).
pub(super) const FIELDS: [Exception; 5] = [
    exception("crates/cache/server, `Worker`", 22, "what every request reads, in one place in memory"),
    exception("crates/cache/store, `Store`", 31, "what all handles share, in one place in memory"),
    exception(
        "crates/fleet/fleet, `Rollout`",
        22,
        "one state machine in one file, of which every field takes part in each step",
    ),
    exception("dev/simulator, `ControllerGroup`", 28, "a world for tests: its faults may touch everything"),
    exception("dev/simulator, `FleetWorld`", 25, "a world for tests: its faults may touch everything"),
];

/// Wildcard arms and chains over a router's nodes (`nodes.rs`).
pub(super) const NODES: [Exception; 0] = [];

/// Rooms of folders (`rooms.rs`).
pub(super) const ROOMS: [Exception; 3] = [
    exception(
        "crates/host/tuner/src/diagnose/rules",
        21,
        "a list of one kind: the rules, a file for each subject",
    ),
    exception(
        "crates/host/tuner/src/observe",
        19,
        "a list of one kind: what is read, a file for each source",
    ),
    exception(
        "crates/host/tuner/src/settings",
        18,
        "a list of one kind: the settings, a file for each subject",
    ),
];

/// Lines of functions (`functions.rs`).
pub(super) const FUNCTIONS: [Exception; 0] = [];

/// Names that roots pass on and nobody else uses (`reexports.rs`).
pub(super) const REEXPORTS: [Exception; 0] = [];

/// Places with more than a rule allows and than their exceptions say, and exceptions that allow more than there is.
///
/// `thing` is what is counted, and `remedy` what to do about too many.
pub(super) fn compare(
    found: impl IntoIterator<Item = (String, usize)>,
    thing: &str,
    max: usize,
    remedy: &str,
    exceptions: &[Exception],
) -> Vec<String> {
    let found: std::collections::BTreeMap<String, usize> = found.into_iter().collect();
    let of = |place: &str| exceptions.iter().find(|exception| exception.place == place);
    let above = found.iter().filter_map(|(place, count)| {
        let allowed = of(place).map_or(max, |exception| exception.count);
        (*count > allowed).then(|| format!("{place}: {count} {thing}, more than {allowed}; {remedy}"))
    });
    let lower = exceptions.iter().filter_map(|Exception { place, count, .. }| {
        let present = found.get(*place).copied().unwrap_or(0);
        let is_void = present < *count || *count <= max;
        is_void.then(|| {
            format!(
                "{place}: {present} {thing}, and may have {count}: lower the number in \
                 dev/tidy/src/exceptions.rs"
            )
        })
    });
    let nameless = exceptions.iter().filter(|exception| exception.reason.is_empty());
    let nameless = nameless.map(|exception| format!("{}: an exception without a reason", exception.place));
    above.chain(lower).chain(nameless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: usize, exceptions: &[Exception], expected: &[&str]) {
        let found = [("a".to_owned(), count), ("b".to_owned(), 2)];
        assert_eq!(compare(found, "rooms", 3, "group them", exceptions), expected);
    }

    #[test]
    fn what_an_exception_allows_only_goes_down() {
        check(3, &[], &[]);
        check(4, &[], &["a: 4 rooms, more than 3; group them"]);
        check(5, &[exception("a", 4, "a list")], &["a: 5 rooms, more than 4; group them"]);
        check(4, &[exception("a", 4, "a list")], &[]);
        let lower = "and may have 5: lower the number in dev/tidy/src/exceptions.rs";
        check(4, &[exception("a", 5, "a list")], &[&format!("a: 4 rooms, {lower}")]);
        check(1, &[exception("c", 5, "a list")], &[&format!("c: 0 rooms, {lower}")]);
        check(4, &[exception("a", 4, "")], &["a: an exception without a reason"]);
    }
}
