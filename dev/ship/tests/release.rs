//! Pages of a release: one version everywhere, and the numbers of formats that the code has.

use checkout::workspace;
use std::fs;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Versions in the names of files: what follows `evenkeel_` or `evenkeel-` and begins with a digit.
fn versions(text: &str) -> Vec<&str> {
    let names = text.split("evenkeel").skip(1).filter_map(|rest| rest.strip_prefix(['_', '-', ':']));
    let numbers = names.map(|rest| {
        let end = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    });
    numbers.filter(|number| number.matches('.').count() == 2).collect()
}

#[test]
fn pages_name_the_files_of_this_version() {
    for (page, least) in [("README.md", 5), ("docs/install.md", 10)] {
        let text = read(page);
        let found = versions(&text);
        assert!(found.len() >= least, "{page}: names are missed: {found:?}");
        assert!(found.iter().all(|version| *version == VERSION), "{page}: {found:?}, this is {VERSION}");
    }
    assert_eq!(
        versions("evenkeel_1.2.3-1_amd64.deb evenkeel/evenkeel:1.2.4 evenkeel-dbg"),
        ["1.2.3", "1.2.4"]
    );
}

#[test]
fn the_changelog_and_the_chart_begin_with_this_version() {
    let changelog = read("CHANGELOG.md");
    let first = changelog.lines().find_map(|line| line.strip_prefix("## [")).expect("a version");
    let (version, date) = first.split_once("] - ").expect("a date");
    assert_eq!(version, VERSION);
    let is_date = date.len() == 10 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    assert!(is_date || date == "unreleased", "{date}");
    assert!(read("deploy/helm/evenkeel/Chart.yaml").contains(&format!("\nversion: {VERSION}\n")));
}

/// A row of docs/upgrades.md, by its beginning, and where the code says its number.
const FORMATS: [(&str, &str, &str); 9] = [
    ("| [take-over](", "crates/cache/succession/src/takeover/state.rs", "pub(super) const FORMAT: u32 = "),
    (
        "| take-over: items in memory",
        "crates/cache/store/src/manifest.rs",
        "pub const LAYOUT_VERSION: u64 = ",
    ),
    ("| take-over: one connection", "crates/cache/server/src/connection/packed.rs", "const VERSION: u8 = "),
    ("| [take-over of routers](", "crates/cache/succession/src/routers.rs", "const FORMAT: u32 = "),
    ("| take-over of routers: one", "crates/fleet/router/src/worker.rs", "const CLIENT_VERSION: u8 = "),
    ("| [`-e`](", "crates/cache/store/src/manifest.rs", "pub const LAYOUT_VERSION: u64 = "),
    ("| `-e`: `FILE.meta`", "crates/cache/succession/src/memory_file/left.rs", "const FORMAT: u64 = "),
    ("| [agents of `load`]", "crates/measure/load/src/agents/talk.rs", "pub(crate) const PROTOCOL: u32 = "),
    (
        "| [journal of `tune`]",
        "crates/host/tuner/src/apply/journal/record.rs",
        "pub(super) const VERSION: u32 = ",
    ),
];

#[test]
fn the_page_of_upgrades_has_the_numbers_of_the_code() {
    let page = read("docs/upgrades.md");
    let in_page = |row: &str| {
        let line =
            page.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no row `{row}`"));
        line.split('|').nth(2).expect("a number").trim().to_owned()
    };
    for (row, file, before) in FORMATS {
        let text = read(file);
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{file} has no `{before}`"));
        assert_eq!(in_page(row), rest.split(';').next().unwrap_or_default(), "{row}");
    }
    let register = read("crates/fleet/control/src/register/directory/record.rs");
    let number = in_page("| [register](control/register.md)");
    assert!(register.contains(&format!("format!(\"evenkeel-register {number} ")), "{number}");
    assert!(page.contains(&format!("number in {VERSION}")), "the table is of another version");
}
