//! The order of the pages, as `docs/README.md` lists them: its table by verbs, and what it names below.

use super::links::replaced;
use std::path::{Path, PathBuf};

/// A page's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// From the root of the checkout.
    pub(super) path: PathBuf,
    /// The heading that begins with this page, if one does.
    pub(super) part: Option<String>,
}

/// What `docs/README.md` links to, each once: pages, and folders of pages.
pub(super) fn listed(page: &Path, text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    let mut was_table = false;
    for line in text.lines() {
        let cells = line.strip_prefix('|');
        let mut part = match cells {
            Some(cells) => cells.split('|').next().and_then(verb),
            None => was_table.then(|| "Reference".to_owned()),
        };
        let before = all.len();
        for path in targets(page, line) {
            if all.iter().all(|listed| listed.path != path) {
                all.push(Listed { path, part: part.take() });
            }
        }
        // What follows the table begins with its first link, and not with an empty line.
        was_table = cells.is_some() || was_table && all.len() == before;
    }
    all
}

/// The verb in a table's first cell.
fn verb(cell: &str) -> Option<String> {
    match cell.trim().trim_matches('`') {
        "" | "verb" => None,
        "all" => Some("All verbs".to_owned()),
        dashes if dashes.starts_with('-') => None,
        verb => Some(verb.to_owned()),
    }
}

/// The targets of the links in a text, in their order.
pub(super) fn targets(page: &Path, text: &str) -> Vec<PathBuf> {
    let mut targets = Vec::new();
    replaced(page, text, |target| {
        targets.push(target.to_owned());
        None
    });
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_begin_parts_and_so_does_what_follows_the_table() {
        let text = "| verb | page |\n|---|---|\n| | [a](a.md) |\n| `serve` | [b](s/b.md) |\n| | [c](s/c.md#x) |\n\
                    | `top` | [b](s/b.md#top) |\n\nSee [d](d.md).\n\n[e](../E.md) [f](f/)\n";
        let listed = listed(Path::new("docs/README.md"), text);
        let told = |Listed { path, part }: &Listed| {
            format!("{}:{}", part.as_deref().unwrap_or_default(), path.display())
        };
        let expected =
            [":docs/a.md", "serve:docs/s/b.md", ":docs/s/c.md", "Reference:docs/d.md", ":E.md", ":docs/f"];
        assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), expected);
    }
}
