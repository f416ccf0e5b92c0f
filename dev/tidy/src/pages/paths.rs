//! Paths of the tree in pages: `net/src/handler.rs`, from the root or from a crate's folder, leads to a file that is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders of a crate with files that pages name.
const INSIDE: [&str; 4] = ["src", "tests", "examples", "testdata"];

/// The folders of the workspace's crates, by their names.
pub(crate) struct CrateFolders {
    root: PathBuf,
    folders: BTreeMap<String, PathBuf>,
}

impl CrateFolders {
    /// The crates below `root`.
    pub(crate) fn below(root: &Path) -> Result<CrateFolders> {
        let mut folders = BTreeMap::new();
        let mut open = vec![root.join("crates"), root.join("dev")];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
                let path = entry?.path();
                match path.file_name().and_then(|name| name.to_str()) {
                    Some(name) if path.join("Cargo.toml").is_file() => {
                        folders.insert(name.to_owned(), path);
                    }
                    Some(_) if path.is_dir() && folder.ends_with("crates") => open.push(path),
                    _ => {}
                }
            }
        }
        Ok(CrateFolders { root: root.to_owned(), folders })
    }

    /// Paths in the code spans of `page` that lead nowhere.
    pub(crate) fn check(&self, name: &str, page: &str) -> Vec<String> {
        let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        // `NAME` and `TYPE` stand for what the reader chooses.
        let paths = spans
            .filter(|span| ![" ", "NAME", "TYPE"].iter().any(|other| span.contains(other)))
            .flat_map(alternatives);
        let wrong = paths.filter(|path| self.is_of_tree(path) && !self.exists(path));
        wrong.map(|path| format!("{name}: names {path}, which is not there")).collect()
    }

    fn is_of_tree(&self, path: &str) -> bool {
        let mut parts = path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates" | "dev"), Some(_)) => true,
            (Some(first), Some(inside)) => self.folders.contains_key(first) && INSIDE.contains(&inside),
            _ => false,
        }
    }

    fn exists(&self, path: &str) -> bool {
        // `rules/*.rs` names a folder.
        let path = path.split_once('*').map_or(path, |(before, _)| before.trim_end_matches(|c| c != '/'));
        let in_crate =
            path.split_once('/').and_then(|(first, rest)| Some(self.folders.get(first)?.join(rest)));
        self.root.join(path).exists() || in_crate.is_some_and(|path| path.exists())
    }
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn alternatives(span: &str) -> Vec<String> {
    let braces = span.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match braces {
        None => vec![span.to_owned()],
        Some((before, (inside, after))) => {
            inside.split(',').flat_map(|one| alternatives(&format!("{before}{one}{after}"))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_pages_lead_to_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders = CrateFolders::below(&root).expect("readable");
        let check = |page: &str| folders.check("page", page);
        assert_eq!(check("`tidy/src/pages/{paths,links}.rs` and `dev/tidy/src/*.rs`, `a/b.rs`"), [""; 0]);
        assert_eq!(
            check("see `tidy/src/pages/{paths,gone}.rs`, and `crates/gone`"),
            [
                "page: names tidy/src/pages/gone.rs, which is not there",
                "page: names crates/gone, which is not there"
            ]
        );
        assert_eq!(check("`cargo test -p xtask/src/gone.rs`: a command, not a path"), [""; 0]);
    }
}
