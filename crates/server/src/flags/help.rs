//! The help, laid out for a terminal.
//!
//! clap's own layout knows flags only, and puts a name and its line apart as soon as one name is long. Here the
//! sub-options of `-o` stand in two columns like the flags. What does nothing is listed by reason: with `-h` by name
//! only, because nobody wants to read 70 lines about what does not happen.

use std::fmt::Write;

use clap::builder::Styles;

use super::{Effect, Flag, Kind, SECTIONS, all, extended};

/// Without a terminal: what clap takes too.
pub(super) const COLUMNS_DEFAULT: usize = 100;
/// Below, two columns no longer fit.
pub(super) const COLUMNS_MIN: usize = 60;
/// Beyond, lines are too long to read.
pub(super) const COLUMNS_MAX: usize = 120;

/// How far the paragraphs of `--help` stand to the right of their flag.
const DETAILS_INDENT: usize = 8;

/// What `-h` prints below the usage line: a line per flag.
pub(super) fn short(columns: usize) -> String {
    let mut page = Page::new(columns);
    for section in SECTIONS {
        page.heading(section.title);
        page.two_columns(2, section.flags.iter().filter(works), line);
    }
    page.tail(Page::names)
}

/// What `--help` prints there: paragraphs for each flag.
pub(super) fn long(columns: usize) -> String {
    let mut page = Page::new(columns);
    for section in SECTIONS {
        page.heading(section.title);
        for flag in section.flags.iter().filter(works) {
            page.paragraphs(flag);
        }
    }
    page.tail(Page::meanings)
}

/// One flag or sub-option as it is typed: `-p, --port <num>` or `idle_timeout=<seconds>`.
pub fn typed(flag: &Flag) -> String {
    let is_option = extended::find(flag.name).is_some();
    let (name, equals) = match flag.short {
        Some(letter) => (format!("-{letter}, --{}", flag.name), " "),
        None if is_option => (flag.name.to_owned(), "="),
        None => (format!("    --{}", flag.name), " "),
    };
    match flag.kind {
        kind if !kind.takes_value() => name,
        Kind::NumberOr { .. } => format!("{name}[{equals}<{}>]", flag.value),
        _ => format!("{name}{equals}<{}>", flag.value),
    }
}

/// What it does, and its default.
pub fn line(flag: &Flag) -> String {
    // The blank inside the brackets does not break.
    let default = flag.default.map_or(String::new(), |default| format!(" [default:\u{a0}{default}]"));
    format!("{}{default}", flag.doc)
}

/// Why flags and sub-options are accepted without effect, each reason with those that share it.
pub fn without_effect() -> Vec<(&'static str, Vec<&'static Flag>)> {
    by_reason(|effect| if let Effect::Without(why) = effect { Some(why) } else { None })
}

/// What is missing for flags and sub-options that are refused.
pub fn not_yet() -> Vec<(&'static str, Vec<&'static Flag>)> {
    by_reason(|effect| if let Effect::NotYet(missing) = effect { Some(missing) } else { None })
}

fn by_reason(reason: fn(Effect) -> Option<&'static str>) -> Vec<(&'static str, Vec<&'static Flag>)> {
    let mut reasons: Vec<(&str, Vec<_>)> = Vec::new();
    for flag in all().chain(extended::all()) {
        let Some(why) = reason(flag.effect) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, flags)) => flags.push(flag),
            None => reasons.push((why, vec![flag])),
        }
    }
    reasons
}

fn works(flag: &&Flag) -> bool {
    flag.effect == Effect::Works
}

/// Text that grows, with the looks that clap gives to headings and flags on a terminal, and takes away elsewhere.
struct Page {
    text: String,
    columns: usize,
    styles: Styles,
}

impl Page {
    fn new(columns: usize) -> Self {
        Self { text: String::new(), columns, styles: Styles::styled() }
    }

    /// The end that both pages share, but for how they `list` what does nothing.
    fn tail(mut self, list: fn(&mut Page, &[&'static Flag])) -> String {
        self.heading("Extended options (-o name[=value],…)");
        self.two_columns(2, extended::all().filter(works), line);
        for (title, reasons) in
            [("Accepted without effect", without_effect()), ("Not supported yet", not_yet())]
        {
            self.heading(title);
            for (why, flags) in reasons {
                self.indented(&format!("{why}:"), 2);
                list(&mut self, &flags);
            }
        }
        self.text.truncate(self.text.trim_end().len());
        self.text
    }

    fn heading(&mut self, title: &str) {
        let style = self.styles.get_header();
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}{style}{title}:{style:#}");
    }

    fn two_columns(
        &mut self,
        indent: usize,
        flags: impl Iterator<Item = &'static Flag>,
        meaning: fn(&Flag) -> String,
    ) {
        let rows: Vec<_> = flags.map(|flag| (typed(flag), meaning(flag))).collect();
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let style = self.styles.get_literal();
        for (name, line) in rows {
            for (row, part) in wrap(&line, self.columns - width - indent - 2).iter().enumerate() {
                let name = if row == 0 { &name } else { "" };
                let _ = writeln!(self.text, "{:indent$}{style}{name:width$}{style:#}  {part}", "");
            }
        }
    }

    fn paragraphs(&mut self, flag: &Flag) {
        let style = self.styles.get_literal();
        let gap = if self.text.ends_with(":\u{1b}[0m\n") { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}  {style}{}{style:#}", typed(flag));
        let line = line(flag);
        let paragraphs = [line.as_str()].into_iter().chain(flag.details.split("\n\n"));
        for paragraph in paragraphs.filter(|paragraph| !paragraph.is_empty()) {
            self.indented(paragraph, DETAILS_INDENT);
        }
    }

    fn names(&mut self, flags: &[&'static Flag]) {
        let names: Vec<_> = flags.iter().map(|flag| bare(flag)).collect();
        self.indented(&names.join(", "), 6);
    }

    fn meanings(&mut self, flags: &[&'static Flag]) {
        self.two_columns(6, flags.iter().copied(), |flag| flag.doc.to_owned());
    }

    fn indented(&mut self, text: &str, indent: usize) {
        for line in wrap(text, self.columns - indent) {
            let _ = writeln!(self.text, "{:indent$}{line}", "");
        }
    }
}

/// Its name in a list: flags by letter and name, sub-options by name.
fn bare(flag: &Flag) -> String {
    flag.short.map_or(flag.name.to_owned(), |letter| format!("-{letter}\u{a0}--{}", flag.name))
}

/// Lines of at most so many characters, broken at blanks.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > columns {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines.iter().map(|line| line.replace('\u{a0}', " ")).collect()
}
