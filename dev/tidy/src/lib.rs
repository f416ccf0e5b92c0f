//! `cargo xtask tidy`: the shape of the project, as far as a program can see it.
//!
//! Each check is a function from text to violations; this file finds the text and prints the violations.

mod circles;
mod code;
mod exceptions;
mod first_lines;
mod functions;
mod modules;
mod names;
mod nodes;
mod objects;
mod packages;
mod pages;
mod reexports;
mod rooms;
mod source;
mod unsafe_files;

use self::packages::{dependencies, edges, selections, test_programs};
use self::pages::links;
use self::pages::paths::CrateFolders;
use anyhow::{Context, Result};
use checkout::workspace;
use std::path::{Path, PathBuf};

/// Of the longest files, this many are named.
const LONGEST_SHOWN: usize = 5;

/// Prints what is wrong; whether nothing was.
///
/// # Errors
/// If cargo or a file cannot be read.
pub fn tidy() -> Result<bool> {
    let mut violations = edges::check(&edges::metadata()?);
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).context("read Cargo.toml")?;
    violations.extend(edges::members_without_comment(&manifest));
    let rules = std::fs::read_to_string(workspace().join("deny.toml")).context("read deny.toml")?;
    let resolved = dependencies::resolved()?;
    violations.extend(dependencies::check(&rules, &resolved)?);
    violations.extend(selections::check()?);
    let (mut lengths, mut texts) = (Vec::new(), Vec::new());
    for (name, text) in texts_of("rs")? {
        lengths.push((text.lines().count(), name.clone()));
        violations.extend(source::check(&name, &text));
        texts.push((name, text));
    }
    violations.extend(circles::check(&texts));
    violations.extend(names::check(&texts));
    violations.extend(first_lines::check(&texts));
    violations.extend(unsafe_files::check(&texts));
    violations.extend(objects::methods::check(&texts));
    violations.extend(objects::fields::check(&texts));
    violations.extend(functions::check(&texts));
    violations.extend(nodes::check(&texts));
    violations.extend(rooms::check(&texts));
    violations.extend(modules::orphans::check(&texts));
    violations.extend(reexports::check(&texts));
    violations.extend(test_programs::check(&texts_of("toml")?, &texts));
    let folders = CrateFolders::below(&workspace())?;
    for path in files(&[""], "md")? {
        let name = path.strip_prefix(workspace()).unwrap_or(&path).display().to_string();
        let page = std::fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        violations.extend(links::check(&name, &path, &page)?);
        // Records of the past keep the paths of their time.
        if !name.starts_with("docs/decisions/") && name != "CHANGELOG.md" {
            violations.extend(folders.check(&name, &page));
        }
    }
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    println!(
        "{} files, {} lines; the longest:",
        lengths.len(),
        lengths.iter().map(|(n, _)| n).sum::<usize>()
    );
    for (lines, name) in lengths.iter().take(LONGEST_SHOWN) {
        println!("{lines:>6} {name}");
    }
    for duplicate in dependencies::duplicates(&resolved) {
        println!("in several versions: {duplicate}");
    }
    for violation in &violations {
        println!("untidy: {violation}");
    }
    Ok(violations.is_empty())
}

/// Path and text of every file of our code whose name ends so.
///
/// # Errors
/// If one cannot be read.
fn texts_of(extension: &str) -> Result<Vec<(String, String)>> {
    let read = |path: PathBuf| {
        let name = path.strip_prefix(workspace()).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        Ok((name, text))
    };
    files(&["crates", "dev"], extension)?.into_iter().map(read).collect()
}

/// Every file of ours in these folders whose name ends so.
fn files(folders: &[&str], extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| workspace().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() && !is_built(&path) {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_built(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| ["target", "corpus", "artifacts", ".git"].iter().any(|built| name == *built))
}
