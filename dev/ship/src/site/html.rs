//! Checks of the HTML that was made: every link leads to a file and an anchor that are there, and nothing is loaded from elsewhere.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a page contains of interest.
#[derive(Debug, Default)]
struct HtmlPage {
    anchors: BTreeSet<String>,
    /// The element, and its target.
    links: Vec<(String, String)>,
}

/// What is wrong with the pages and styles of a folder, a line each.
///
/// # Errors
/// If a file cannot be read.
pub fn faults(folder: &Path) -> Result<Vec<String>> {
    // Links are compared with paths without `..` and links of the file system.
    let folder = &folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
    let mut faults = Vec::new();
    let mut pages = BTreeMap::new();
    for path in files(folder)? {
        let extension = path.extension().unwrap_or_default();
        if extension != "html" && extension != "css" {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        // mdBook's script asks that host for a list of crates on each page that has such code.
        if text.contains("class=\"playground") {
            faults.push(format!(
                "{}: code that is marked as Rust asks play.rust-lang.org",
                name(folder, &path)
            ));
        }
        if extension == "html" {
            pages.insert(path, page(&text));
        } else if let Some(address) = loaded_by_style(&text) {
            faults.push(format!("{}: loads {address} from another host", name(folder, &path)));
        }
    }
    for (path, page) in &pages {
        for (element, target) in &page.links {
            if let Some(fault) = fault(path, element, target, &pages) {
                faults.push(format!("{}: {fault}", name(folder, path)));
            }
        }
    }
    Ok(faults)
}

fn name(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// What is wrong with one link.
fn fault(page: &Path, element: &str, target: &str, pages: &BTreeMap<PathBuf, HtmlPage>) -> Option<String> {
    if target.starts_with("data:") || target.starts_with("mailto:") || target.starts_with("javascript:") {
        return None;
    }
    if target.contains("://") || target.starts_with("//") {
        // A reader may follow a link to another host; the browser loads nothing from there by itself.
        return (element != "a").then(|| format!("<{element}> loads {target} from another host"));
    }
    if target.starts_with('/') {
        return Some(format!("{target} begins with a slash, which leads nowhere in a folder"));
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.split('?').next().unwrap_or(path);
    let found = match path {
        "" => page.to_owned(),
        path => page.parent()?.join(path),
    };
    let Ok(found) = found.canonicalize() else {
        return Some(format!("links to {target}, which is not there"));
    };
    if !found.is_file() {
        return Some(format!("links to {target}, which is a folder"));
    }
    let is_known = anchor.is_empty() || pages.get(&found).is_some_and(|page| page.anchors.contains(anchor));
    (!is_known).then(|| format!("links to {target}, but that page has no such anchor"))
}

/// Reads the tags of a page. What mdBook writes is well-formed: attributes are in double quotes.
fn page(text: &str) -> HtmlPage {
    let mut page = HtmlPage::default();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        let (tag, behind) = tag(rest);
        rest = behind;
        let element =
            tag.split(|letter: char| letter.is_whitespace() || letter == '>').next().unwrap_or_default();
        for (attribute, value) in attributes(&tag[element.len()..]) {
            match attribute {
                "id" | "name" => {
                    page.anchors.insert(decoded(value));
                }
                "href" | "src" => page.links.push((element.to_owned(), decoded(value))),
                _ => {}
            }
        }
        // What is inside of these is no HTML.
        if element == "script" || element == "style" {
            let end = format!("</{element}");
            rest = rest.find(&end).map_or("", |at| &rest[at..]);
        }
    }
    page
}

/// A tag up to its end, which is no `>` in quotes, and what follows.
fn tag(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '>' if !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

fn attributes(text: &str) -> Vec<(&str, &str)> {
    let mut attributes = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("=\"") {
        let name = before.split_whitespace().next_back().unwrap_or_default();
        let (value, behind) = behind.split_once('"').unwrap_or((behind, ""));
        attributes.push((name, value));
        rest = behind;
    }
    attributes
}

/// A value without the escapes of HTML and of addresses that pages have.
fn decoded(value: &str) -> String {
    let value = value.replace("&quot;", "\"").replace("&#39;", "'").replace("&#x27;", "'");
    percent_decoded(&value.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

fn percent_decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An address of another host that a style loads something from.
fn loaded_by_style(text: &str) -> Option<&str> {
    let loads = text.split("url(").skip(1).filter_map(|rest| rest.split(')').next());
    let imports = text.split("@import").skip(1).filter_map(|rest| rest.split(';').next());
    let is_elsewhere =
        |address: &&str| address.contains("://") || address.trim_matches(['"', '\'', ' ']).starts_with("//");
    // A namespace in a picture that is in the style itself is no address.
    loads.chain(imports).find(|address| is_elsewhere(address) && !address.contains("data:"))
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || format!("list {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(list)? {
        let path = entry.with_context(list)?.path();
        match path.is_dir() {
            true => files.extend(self::files(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_without_an_end_and_foreign_loads_are_faults() {
        let folder = std::env::temp_dir().join(format!("evenkeel-html-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("b.html"), "<h2 id=\"here-&amp;\">x</h2><a href=\"sub/\">y</a>").unwrap();
        fs::write(folder.join("sub/s.css"), "a { background: url(\"https://example.org/x.png\") }").unwrap();
        let text = "<!-- <a href=\"no\"> --><script>var a = '<a href=\"no\">';</script>\
                    <a href=\"b.html#here-%26\">1</a><a href=\"b.html#gone\">2</a><a href=\"c.html\">3</a>\
                    <a title=\"a > b\" href=\"/root.html\">4</a><a href=\"https://example.org\">5</a>\
                    <img src=\"https://example.org/a.png\"><link href=\"//example.org/a.css\">\
                    <pre>&lt;a href=\"no\"></pre>";
        fs::write(folder.join("a.html"), text).unwrap();
        fs::write(folder.join("c.css"), "/* <pre class=\"playground\"> */").unwrap();
        let found = faults(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let expected = [
            "c.css: code that is marked as Rust asks play.rust-lang.org",
            "sub/s.css: loads \"https://example.org/x.png\" from another host",
            "a.html: links to b.html#gone, but that page has no such anchor",
            "a.html: links to c.html, which is not there",
            "a.html: /root.html begins with a slash, which leads nowhere in a folder",
            "a.html: <img> loads https://example.org/a.png from another host",
            "a.html: <link> loads //example.org/a.css from another host",
            "b.html: links to sub/, which is a folder",
        ];
        assert_eq!(found, expected);
    }
}
