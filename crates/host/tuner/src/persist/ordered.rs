//! Configuration directories in the order of systemd and udev: all of them together, by name.

use std::collections::BTreeSet;

use crate::observe::root::{Error, Root};
use crate::text::HEADER;

/// A file that takes part in an order of names: those in directories that come first hide others of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Its name, which decides.
    pub name: String,
    /// Its path, behind all links.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The files of these directories with this ending, in the order of their names. Ours are left out, and names that are
/// linked to /dev/null, which is how files are switched off.
pub(super) fn ordered(root: &Root, directories: &[&str], ending: &str) -> Result<Vec<Ordered>, Error> {
    let mut found: Vec<Ordered> = Vec::new();
    let mut names = BTreeSet::new();
    for directory in directories {
        for name in root.names(directory)?.into_iter().filter(|name| name.ends_with(ending)) {
            if !names.insert(name.clone()) {
                continue;
            }
            let path = resolved(root, &format!("{directory}/{name}"));
            let Some(text) = path.as_deref().map(|path| root.read(path)).transpose()?.flatten() else {
                continue;
            };
            if let (Some(path), false) = (path, text.starts_with(HEADER)) {
                found.push(Ordered { name, path, text });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Links followed inside of the root; `None`: to /dev/null, or in a circle.
pub(super) fn resolved(root: &Root, path: &str) -> Option<String> {
    /// The kernel's limit of links.
    const LINKS_MAX: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(target) = root.link(&path) else { return Some(path) };
        if target == "/dev/null" {
            return None;
        }
        let base = if target.starts_with('/') { "" } else { path.rsplit_once('/')?.0 };
        let mut parts: Vec<&str> = Vec::new();
        for part in base.split('/').chain(target.split('/')).filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        path = format!("/{}", parts.join("/"));
    }
    None
}

/// Lines with content, counted from 1.
pub(super) fn acting(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';']))
}
