//! Type names: each means one thing in the whole tree.
//!
//! Counted are types that are `pub` or `pub(crate)`, by the packages that define them. A name that two files of one package
//! give is not counted: the package's modules distinguish them.

use super::modules::{Modules, packages_of};
use std::collections::{BTreeMap, BTreeSet};

/// Names that every package may give: the field gives them to a part that each package has.
const IN_EVERY_PACKAGE: [&str; 2] = ["Arguments", "Error"];

/// Names that more than one package gives still, and how many packages. The numbers only go down: a change that renames
/// one of the types lowers it here, and a name that one package alone gives leaves the table.
const ABOVE: [(&str, usize); 18] = [
    ("Body", 2),
    ("Change", 2),
    ("Connection", 2),
    ("Counters", 2),
    ("Counts", 2),
    ("Flag", 3),
    ("Key", 2),
    ("Listen", 2),
    ("Options", 2),
    ("Place", 2),
    ("Refused", 2),
    ("Request", 2),
    ("Running", 2),
    ("Server", 2),
    ("Store", 2),
    ("Table", 2),
    ("Target", 2),
    ("Value", 2),
];

/// Violations in the type names of the workspace's files, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_names(&packages_by_name(files), &ABOVE)
}

/// For each type name the packages that give it.
fn packages_by_name(files: &[(String, String)]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (package, files) in packages_of(files) {
        for (name, _) in Modules::new(files).shared_types() {
            by_name.entry(name).or_default().insert(package);
        }
    }
    by_name
}

fn check_names(by_name: &BTreeMap<&str, BTreeSet<&str>>, above: &[(&str, usize)]) -> Vec<String> {
    let allowed = |name: &str| above.iter().find(|(above, _)| *above == name).map_or(1, |(_, count)| *count);
    let doubles =
        by_name.iter().filter(|(name, _)| !IN_EVERY_PACKAGE.contains(name)).filter_map(|(name, packages)| {
            let (count, allowed) = (packages.len(), allowed(name));
            let names = packages.iter().copied().collect::<Vec<_>>().join(", ");
            (count > allowed).then(|| {
                format!(
                    "`{name}` is a type of {count} packages, more than {allowed}: {names}; say what each is"
                )
            })
        });
    let lower = above.iter().filter_map(|(name, allowed)| {
        let count = by_name.get(name).map_or(0, BTreeSet::len);
        (count < *allowed || *allowed < 2).then(|| {
            format!(
                "`{name}` is a type of {count} packages, and may be of {allowed}: lower the number in \
                 dev/tidy/src/names.rs"
            )
        })
    });
    doubles.chain(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages a, b, c with these files each.
    #[track_caller]
    fn check_packages(texts: [&str; 3], above: &[(&str, usize)], expected: &[&str]) {
        let files = ["a", "b", "c"]
            .into_iter()
            .zip(texts)
            .map(|(package, text)| (format!("crates/{package}/src/lib.rs"), text.to_owned()))
            .collect::<Vec<_>>();
        assert_eq!(check_names(&packages_by_name(&files), above), expected);
    }

    #[test]
    fn one_name_is_a_type_of_one_package() {
        check_packages(
            ["pub struct Plan;", "pub(crate) enum Plan {}", ""],
            &[],
            &["`Plan` is a type of 2 packages, more than 1: crates/a, crates/b; say what each is"],
        );
        check_packages(
            ["pub unsafe trait Plan {}", "", "pub type Plan = u8;"],
            &[],
            &["`Plan` is a type of 2 packages, more than 1: crates/a, crates/c; say what each is"],
        );
    }

    #[test]
    fn what_one_file_or_one_test_uses_is_not_counted() {
        check_packages(
            ["pub struct Plan;", "struct Plan; pub(super) struct Plan2;", "fn plan() {}"],
            &[],
            &[],
        );
        check_packages(["pub struct Plan;", "#[cfg(test)] pub struct Plan;", ""], &[], &[]);
        check_packages(["pub struct Error;", "pub struct Error;", ""], &[], &[]);
    }

    #[test]
    fn what_the_table_allows_only_goes_down() {
        let plans = ["pub struct Plan;", "pub struct Plan;", ""];
        check_packages(plans, &[("Plan", 2)], &[]);
        check_packages(
            plans,
            &[("Plan", 3)],
            &["`Plan` is a type of 2 packages, and may be of 3: lower the number in dev/tidy/src/names.rs"],
        );
        check_packages(
            ["pub struct Plan;", "", ""],
            &[("Plan", 1)],
            &["`Plan` is a type of 1 packages, and may be of 1: lower the number in dev/tidy/src/names.rs"],
        );
    }
}
