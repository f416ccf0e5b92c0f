//! The site: which pages are in it and where their links lead; with `EVENKEEL_TEST_ALL=1` also the HTML, in a browser without a network.

mod browser;

use crate::tools::{is_thorough, leave_out};
use checkout::{target_directory, workspace};
use ship::site::book::Book;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn book() -> Book {
    Book::read(&workspace()).expect("a book")
}

/// The site in a folder of this name, or None if it cannot be made here.
fn made(name: &str) -> Option<PathBuf> {
    if !is_thorough() {
        leave_out("the HTML of the site (EVENKEEL_TEST_ALL=1 has it)");
        return None;
    }
    let stage = target_directory().join("ship-tests").join(name);
    Some(ship::site::build(&workspace(), &stage).expect("a site"))
}

#[test]
fn every_page_is_in_the_book_once_and_in_the_order_of_the_list() {
    let book = book();
    let paths: Vec<String> = book.pages.iter().map(|page| page.path.display().to_string()).collect();
    let distinct: BTreeSet<&String> = paths.iter().collect();
    assert_eq!(distinct.len(), paths.len(), "a page is there twice");
    let place =
        |path: &str| paths.iter().position(|found| found == path).unwrap_or_else(|| panic!("no {path}"));
    let order = [
        "README.md",
        "docs/README.md",
        "docs/install.md",
        "docs/serve/guide.md",
        "docs/route/guide.md",
        "docs/control/guide.md",
        "docs/tune/howto/README.md",
        "docs/tune/howto/a-host-for-mysql.md",
        "docs/lab/experiments/README.md",
        "docs/lab/experiments/serve.md",
        "docs/monitoring.md",
        "docs/decisions/README.md",
        "docs/decisions/0001-store.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "LICENSE.md",
        "experiments/README.md",
    ];
    let places: Vec<usize> = order.iter().map(|path| place(path)).collect();
    assert!(places.is_sorted(), "{places:?}");
    for page in transcript::pages::all() {
        place(&page.0);
    }
}

#[test]
fn the_list_of_pages_has_parts_and_every_page() {
    let book = book();
    let summary = book.summary();
    let parts: Vec<&str> = summary.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let all = "Summary, serve, route, control, All verbs, load, advise, tune, lab, Reference, Source";
    assert_eq!(parts.join(", "), all);
    for page in &book.pages {
        assert!(summary.contains(&format!("]({})\n", page.place().display())), "{}", page.path.display());
    }
}

#[test]
fn links_lead_to_pages_of_the_book_and_to_files_in_it() {
    let book = book();
    let folder = target_directory().join("ship-tests/site-sources");
    let _ = fs::remove_dir_all(&folder);
    book.write(&workspace(), &folder).expect("sources");
    let mut count = 0;
    for page in &book.pages {
        let parent = page.path.parent().unwrap_or(Path::new(""));
        for target in targets(&page.text) {
            count += 1;
            let found = folder.join(parent).join(target.split('#').next().unwrap_or_default());
            assert!(found.is_file(), "{} leads to {target}", page.path.display());
        }
    }
    assert!(count > 500, "links are missed: {count}");
    assert!(book.files.iter().any(|path| path.ends_with("serve/report.json")), "data are copied");
}

/// Targets of links within the book, outside of blocks of code.
fn targets(text: &str) -> Vec<&str> {
    let outside = text.split("```").step_by(2);
    let links = outside.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    let targets = links.map(|(target, _)| target);
    targets
        .filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains(' '))
        .collect()
}

/// Files that became pages would be found before the pages that explain them.
#[test]
fn files_of_the_tree_are_not_searched() {
    let config = fs::read_to_string(workspace().join("packaging/site/book.toml")).unwrap();
    let config: toml::Table = config.parse().expect("TOML");
    let chapters = config["output"]["html"]["search"]["chapter"].as_table().expect("chapters");
    let begin = |path: &Path| chapters.keys().any(|chapter| path.starts_with(chapter));
    let book = book();
    let at = book.pages.iter().position(|page| page.path.ends_with("FILES.md")).expect("files");
    let (pages, files) = book.pages.split_at(at);
    for page in files {
        assert!(begin(&page.path), "book.toml excludes no {}", page.path.display());
    }
    assert!(pages.iter().all(|page| !begin(&page.path)), "book.toml excludes a page");
    for chapter in chapters.keys() {
        assert!(files.iter().any(|page| page.path.starts_with(chapter)), "there is no {chapter}");
    }
}

/// A checkout with these files beside a few pages, and the book that is made of it.
fn small_book(name: &str, files: &[(&str, &str)]) -> Result<Book, String> {
    let root = target_directory().join("ship-tests/small-books").join(name);
    let _ = fs::remove_dir_all(&root);
    let pages = [
        ("README.md", "# A\n\n[pages](docs/README.md)\n"),
        ("docs/README.md", "# P\n\n| verb | page |\n|---|---|\n| `serve` | [g](g.md) |\n"),
        ("docs/g.md", "# G\n\n[c](../conf.yaml), [d](../data/)\n"),
        ("conf.yaml", "a: '```'\n"),
        ("data/x.sh", "true\n"),
        ("data/y.json", "{}\n"),
    ];
    for (path, text) in pages.iter().chain(files) {
        fs::create_dir_all(root.join(path).parent().expect("a folder")).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    Book::read(&root).map_err(|error| format!("{error:#}"))
}

#[test]
fn files_and_folders_that_pages_link_to_are_pages_and_data_are_copied() {
    let book = small_book("files", &[]).expect("a book");
    let page = |path: &str| {
        let page = book.pages.iter().find(|page| page.place() == Path::new(path));
        &page.unwrap_or_else(|| panic!("no {path}")).text
    };
    assert!(page("docs/g.md").contains("[c](../conf.yaml.md), [d](../data/index.md)"));
    // A fence that is longer than what it contains.
    assert_eq!(page("conf.yaml.md"), "# conf.yaml\n\n````yaml\na: '```'\n````\n");
    assert_eq!(page("data/index.md"), "# data\n\n* [x.sh](x.sh.md)\n* [y.json](y.json)\n");
    assert_eq!(book.files.iter().collect::<Vec<_>>(), [Path::new("data/y.json")]);
}

#[test]
fn a_page_that_nobody_lists_and_a_link_to_nothing_are_errors() {
    let check = |name: &str, path: &str, text: &str, expected: &str| {
        let error = small_book(name, &[(path, text)]).err().unwrap_or_default();
        assert!(error.contains(expected), "{name}: `{error}`");
    };
    check("unlisted", "docs/h.md", "# H\n", "docs/README.md leads to no docs/h.md");
    check("in-the-root", "H.md", "# H\n", "docs/README.md leads to no H.md");
    check("no-heading", "docs/g.md", "G\n", "docs/g.md does not begin with a heading");
    check(
        "gone",
        "docs/g.md",
        "# G\n\n[x](gone.yaml)\n",
        "follow the links of docs/g.md: there is no docs/gone.yaml",
    );
}

#[test]
fn the_site_is_the_same_twice() {
    let (Some(first), Some(second)) = (made("site-first"), made("site-second")) else { return };
    let digests = |folder: &Path| {
        let mut find = std::process::Command::new("sh");
        find.args(["-c", "find . -type f -exec sha256sum {} + | sort"]).current_dir(folder);
        ship::commands::said(&mut find).expect("digests")
    };
    assert_eq!(digests(&first), digests(&second));
}
