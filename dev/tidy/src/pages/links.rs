//! Links between the pages: each leads to a file that is there, and to a heading that the file has.

use anyhow::{Context, Result};
use std::path::Path;

/// Where `page` links to what is not there. `path` is the page's file.
pub(crate) fn check(name: &str, path: &Path, page: &str) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for link in links(page) {
        let (target, heading) = link.split_once('#').unwrap_or((link, ""));
        let found = match target {
            "" => path.to_owned(),
            target => path.parent().unwrap_or(path).join(target),
        };
        if !found.exists() {
            violations.push(format!("{name}: links to {link}, which is not there"));
        } else if !heading.is_empty() {
            let text =
                std::fs::read_to_string(&found).with_context(|| format!("read {}", found.display()))?;
            if !headings(&text).any(|anchor| anchor == heading) {
                violations.push(format!("{name}: links to {link}, but that page has no such heading"));
            }
        }
    }
    Ok(violations)
}

/// The targets of links that stay within the project.
fn links(page: &str) -> impl Iterator<Item = &str> {
    outside_code(page)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains("://") && !target.contains(' ') && !target.starts_with("mailto:"))
}

/// The anchors of a page's headings.
fn headings(page: &str) -> impl Iterator<Item = String> {
    outside_code(page)
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#').trim()))
}

/// As GitHub makes it of a heading: letters in lower case, digits, `_`, `-`, and `-` for a space.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Lines that are no part of a block of code.
fn outside_code(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_to_is_there() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pages/links.rs");
        let check = |page: &str| check("page", &here, page).expect("readable").len();
        assert_eq!(
            check("see [it](links.rs) and [others](../packages/edges.rs), [far](https://example.org/no)"),
            0
        );
        assert_eq!(check("| [a](gone.md) | [b](links.rs) | [c](gone.md#here) |"), 2);
        assert_eq!(check("```\n[a](gone.md)\n```\n[b](gone.md)"), 1);
    }

    #[test]
    fn headings_are_linked_to_as_on_github() {
        assert_eq!(anchor("`stats`: what it says, and why"), "stats-what-it-says-and-why");
        let page = "# One\n```\n# no heading\n```\n## Two `words` here";
        assert_eq!(headings(page).collect::<Vec<_>>(), ["one", "two-words-here"]);
    }
}
