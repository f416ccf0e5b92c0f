//! The book: which pages it has, in which order, and what becomes of links that lead out of them.
//!
//! It lies as the checkout does, so that links between pages stay as they are. A file of the tree that a page links to is a page of
//! its own, with its text as code: the address of a repository is in no file here, and a copy is what fits this version. Data for
//! programs (JSON) and pictures are copied as they are.

use super::links::replaced;
use super::order::{Listed, listed, targets};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// The page that says the order of the others.
const ORDER: &str = "docs/README.md";

/// Files that a browser shows, or that are for programs: no page is made of them.
const COPIED: [&str; 3] = ["svg", "png", "json"];

/// The languages of files that become pages, by their names' ends; without one, a text is not coloured.
const LANGUAGES: [(&str, &str); 4] = [("yaml", "yaml"), ("toml", "toml"), ("sh", "bash"), ("service", "ini")];

/// A page of the book.
#[derive(Clone, Debug)]
pub struct BookPage {
    /// Where it lies in the checkout, or would, from its root.
    pub path: PathBuf,
    /// Its title, in Markdown.
    pub title: String,
    /// Its text.
    pub text: String,
    /// How many pages it stands below.
    pub depth: usize,
    /// The heading that begins with it in the list of pages, if one does.
    pub part: Option<String>,
}

impl BookPage {
    /// Where it lies in the book, from its root.
    pub fn place(&self) -> PathBuf {
        place(&self.path)
    }
}

/// All pages, in their order, and the files that they show.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The pages.
    pub pages: Vec<BookPage>,
    /// Files that are copied, from the root of the checkout.
    pub files: BTreeSet<PathBuf>,
}

impl Book {
    /// Reads the pages of a checkout.
    ///
    /// # Errors
    /// If a page cannot be read, is not listed, or links to what is not there.
    pub fn read(root: &Path) -> Result<Book> {
        let mut book = Book::default();
        let readme = PathBuf::from("README.md");
        for path in [readme, PathBuf::from(ORDER)] {
            book.add(root, path, 0, None)?;
        }
        let order = listed(Path::new(ORDER), &book.pages[1].text);
        for Listed { path, part } in &order {
            if !book.has(path) {
                book.add_with_children(root, path, part.clone(), &order)?;
            }
        }
        for path in markdown(root)? {
            ensure!(book.has(&path), "{ORDER} leads to no {}: list it there", path.display());
        }
        let own = book.pages.len();
        book.follow(root)?;
        book.list_files(own);
        Ok(book)
    }

    /// The list of pages, as mdBook reads it.
    pub fn summary(&self) -> String {
        let mut summary = String::from("# Summary\n\n");
        for (at, page) in self.pages.iter().enumerate() {
            if let Some(part) = &page.part {
                summary += &format!("\n# {part}\n\n");
            }
            // What stands before the list has no place in its numbers and cannot be folded.
            let bullet = if at < 2 { String::new() } else { format!("{}- ", "  ".repeat(page.depth)) };
            let title = page.title.replace('[', "\\[").replace(']', "\\]");
            summary += &format!("{bullet}[{title}]({})\n", page.place().display());
            if at == 1 {
                summary += "\n";
            }
        }
        summary
    }

    /// Writes the pages, their list and the files that they show into a folder.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn write(&self, root: &Path, folder: &Path) -> Result<()> {
        let made = |path: &Path| -> Result<PathBuf> {
            let to = folder.join(path);
            let parent = to.parent().unwrap_or(folder);
            fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
            Ok(to)
        };
        for page in &self.pages {
            let to = made(&page.place())?;
            fs::write(&to, &page.text).with_context(|| format!("write {}", to.display()))?;
        }
        for file in &self.files {
            fs::copy(root.join(file), made(file)?).with_context(|| format!("copy {}", file.display()))?;
        }
        fs::write(made(Path::new("SUMMARY.md"))?, self.summary()).context("write SUMMARY.md")
    }

    fn has(&self, path: &Path) -> bool {
        self.pages.iter().any(|page| page.path == path)
    }

    /// Adds a page of the checkout.
    fn add(&mut self, root: &Path, path: PathBuf, depth: usize, part: Option<String>) -> Result<()> {
        let text =
            fs::read_to_string(root.join(&path)).with_context(|| format!("read {}", path.display()))?;
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{} does not begin with a heading", path.display()))?;
        // Below another page, a name is enough: "serve: Does evenkeel serve …".
        let title = if depth == 0 { title } else { title.split(": ").next().unwrap_or(title) };
        self.pages.push(BookPage { title: title.to_owned(), path, text, depth, part });
        Ok(())
    }

    /// Adds what is listed, and below it the pages that it lists itself: those of a folder, or those that a folder's README names.
    fn add_with_children(
        &mut self,
        root: &Path,
        path: &Path,
        part: Option<String>,
        order: &[Listed],
    ) -> Result<()> {
        let children = if root.join(path).is_dir() {
            let children: Vec<PathBuf> =
                below(root, path)?.into_iter().filter(|path| is_page(path)).collect();
            self.add_list(path, &children, 0, part);
            children
        } else {
            self.add(root, path.to_owned(), 0, part)?;
            let page = self.pages.last().expect("it has just been added");
            let is_of_folder = |target: &PathBuf| {
                is_page(target)
                    && target.parent() == path.parent()
                    && order.iter().all(|listed| listed.path != *target)
            };
            let targets = match path.ends_with("README.md") {
                true => targets(path, &page.text),
                false => Vec::new(),
            };
            targets.into_iter().filter(is_of_folder).collect()
        };
        for child in children {
            if !self.has(&child) {
                self.add(root, child, 1, None)?;
            }
        }
        Ok(())
    }

    /// Adds a page that lists a folder.
    fn add_list(&mut self, folder: &Path, entries: &[PathBuf], depth: usize, part: Option<String>) {
        let mut text = format!("# {}\n\n", folder.display());
        for entry in entries {
            let name = entry.strip_prefix(folder).unwrap_or(entry).display();
            text += &format!("* [{name}]({name})\n");
        }
        let title = match folder.file_name() {
            Some(name) if depth == 0 => capital(&name.to_string_lossy()),
            _ => folder.display().to_string(),
        };
        self.pages.push(BookPage { path: folder.join("README.md"), title, text, depth, part });
    }

    /// Follows the links of all pages, and adds what they lead to.
    fn follow(&mut self, root: &Path) -> Result<()> {
        let mut waiting: VecDeque<usize> = (0..self.pages.len()).collect();
        while let Some(at) = waiting.pop_front() {
            let BookPage { path, text, .. } = self.pages[at].clone();
            let mut failure = None;
            let text = replaced(&path, &text, |target| {
                let before = self.pages.len();
                let led = self.lead(root, target);
                // A page that was made of a file has no links of its own.
                let added = before..self.pages.len();
                waiting.extend(added.filter(|&at| self.pages[at].path.ends_with("README.md")));
                match led {
                    Ok(led) => Some(place(&led)),
                    Err(error) => {
                        failure.get_or_insert(error);
                        None
                    }
                }
            });
            if let Some(error) = failure {
                return Err(error.context(format!("follow the links of {}", path.display())));
            }
            self.pages[at].text = text;
        }
        Ok(())
    }

    /// Puts what links have led to below a page that lists it.
    fn list_files(&mut self, own: usize) {
        let mut files = self.pages.split_off(own);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let mut text = "# Files\n\nFiles of the source tree that pages lead to, as they were when the site was made.\n\n".to_owned();
        for page in &mut files {
            page.depth = 1;
            text += &format!("* [{}]({})\n", page.title, page.place().display());
        }
        let (title, part) = ("Files".to_owned(), Some("Source".to_owned()));
        self.pages.push(BookPage { path: PathBuf::from("FILES.md"), title, text, depth: 0, part });
        self.pages.append(&mut files);
    }

    /// The page or file of the book that stands for what a link leads to, added if it is not there.
    fn lead(&mut self, root: &Path, target: &Path) -> Result<PathBuf> {
        let source = root.join(target);
        if self.has(target) {
            return Ok(target.to_owned());
        }
        if source.is_dir() {
            let list = target.join("README.md");
            if !self.has(&list) {
                self.add_list(target, &below(root, target)?, 1, None);
            }
            return Ok(list);
        }
        ensure!(source.is_file(), "there is no {}", target.display());
        let extension = target.extension().unwrap_or_default().to_string_lossy();
        if COPIED.contains(&&*extension) {
            self.files.insert(target.to_owned());
            return Ok(target.to_owned());
        }
        let path = PathBuf::from(format!("{}.md", target.display()));
        if !self.has(&path) {
            let text = fs::read_to_string(&source).with_context(|| format!("read {}", target.display()))?;
            let text = as_code(target, &text, &extension);
            let title = target.display().to_string();
            self.pages.push(BookPage { path: path.clone(), title, text, depth: 1, part: None });
        }
        Ok(path)
    }
}

/// Where a file of the checkout lies in the book: a README is what a browser shows for its folder.
fn place(path: &Path) -> PathBuf {
    if path.ends_with("README.md") { path.with_file_name("index.md") } else { path.to_owned() }
}

/// A file's text as the code of a page.
fn as_code(path: &Path, text: &str, extension: &str) -> String {
    let language =
        LANGUAGES.iter().find(|(end, _)| *end == extension).map_or("text", |(_, language)| language);
    // Longer than any in the text, which would end the block.
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("# {}\n\n{fence}{language}\n{text}{end}{fence}\n", path.display())
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// All pages: those in the root, and those below docs.
fn markdown(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> =
        below(root, Path::new("docs"))?.into_iter().filter(|path| is_page(path)).collect();
    for entry in fs::read_dir(root).with_context(|| format!("list {}", root.display()))? {
        let name = PathBuf::from(entry?.file_name());
        pages.extend(is_page(&name).then_some(name));
    }
    Ok(pages)
}

/// All files below a folder, by name, as paths from the root.
fn below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || format!("list {}", folder.display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(root.join(folder)).with_context(list)? {
        entries.push(folder.join(entry.with_context(list)?.file_name()));
    }
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        match root.join(&entry).is_dir() {
            true => files.extend(below(root, &entry)?),
            false => files.push(entry),
        }
    }
    Ok(files)
}
