//! Links in the Markdown of a page: their targets, from the root of the checkout, and their replacement.

use std::path::{Component, Path, PathBuf};

/// Replaces the target of each link that stays within the checkout by what `new` says. It is given the target as a path from the
/// root of the checkout; the heading behind `#` stays.
pub(super) fn replaced(page: &Path, text: &str, mut new: impl FnMut(&Path) -> Option<PathBuf>) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut is_code = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code {
            replaced += line;
            continue;
        }
        let mut rest = line;
        while let Some(at) = next(rest) {
            let (before, target) = rest.split_at(at);
            replaced += before;
            let end = target.find(')').unwrap_or(target.len());
            let (target, behind) = target.split_at(end);
            replaced += &of_link(page, target, &mut new).unwrap_or_else(|| target.to_owned());
            rest = behind;
        }
        replaced += rest;
    }
    replaced
}

/// Where the next link's target begins: behind `](`, outside of code in the line.
fn next(line: &str) -> Option<usize> {
    let mut is_code = false;
    let bytes = line.as_bytes();
    for at in 0..bytes.len() {
        match bytes[at] {
            b'`' => is_code = !is_code,
            b']' if !is_code && bytes.get(at + 1) == Some(&b'(') => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// The new target of a link, if there is another one.
fn of_link(page: &Path, target: &str, new: &mut impl FnMut(&Path) -> Option<PathBuf>) -> Option<String> {
    let (path, heading) = match target.split_once('#') {
        Some((path, heading)) => (path, format!("#{heading}")),
        None => (target, String::new()),
    };
    if path.is_empty() || path.contains("://") || path.contains(' ') || path.starts_with("mailto:") {
        return None;
    }
    let folder = page.parent().unwrap_or(Path::new(""));
    let found = new(&normal(&folder.join(path)))?;
    Some(format!("{}{heading}", relative(folder, &found).display()))
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            component => normal.push(component),
        }
    }
    normal
}

/// A path as seen from a folder, both from the root of the checkout.
fn relative(folder: &Path, path: &Path) -> PathBuf {
    let common = folder.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_replaced_as_seen_from_their_page() {
        let page = Path::new("docs/serve/guide.md");
        let check = |text: &str, expected: &str| {
            let text = replaced(page, text, |target| {
                (target != Path::new("docs/serve/tls.md")).then(|| target.with_extension("yaml.md"))
            });
            assert_eq!(text, expected);
        };
        check("see [it](../../deploy/rules.yaml#a).\n", "see [it](../../deploy/rules.yaml.md#a).\n");
        check("[a](tls.md) and [`b`](flash.yaml)", "[a](tls.md) and [`b`](flash.yaml.md)");
        check(
            "[far](https://example.org/x.yaml), [here](#x)",
            "[far](https://example.org/x.yaml), [here](#x)",
        );
        check("`[a](b.yaml)` [c](d.yaml)", "`[a](b.yaml)` [c](d.yaml.md)");
        check("```\n[a](b.yaml)\n```\n", "```\n[a](b.yaml)\n```\n");
    }
}
