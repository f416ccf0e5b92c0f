//! The help, laid out for a terminal.
//!
//! clap's own layout has flags only, and puts all names and their lines on separate lines as soon as one name is long.
//! Here the sub-options are in two columns like the flags. Flags without effect are listed by reason: with `-h` by name
//! only, because 70 lines about them would hide the rest.

use std::fmt::Write;

use clap::builder::Styles;

use crate::table::{Effect, Flag, Table};
use crate::value::Kind;

/// The width without a terminal: that of clap.
pub(crate) const COLUMNS_DEFAULT: usize = 100;
/// Below this width, two columns do not fit.
pub(crate) const COLUMNS_MIN: usize = 60;
/// Above this width, lines are too long to read.
pub(crate) const COLUMNS_MAX: usize = 120;

/// The indentation of the paragraphs of `--help` below their flag.
const DETAILS_INDENT: usize = 8;

impl<T: 'static> Table<T> {
    /// The text of `-h` below the usage line: a line per flag.
    pub(crate) fn short_help(&self, columns: usize) -> String {
        let mut page = Page::new(columns);
        for section in self.sections {
            page.heading(section.title);
            page.two_columns(2, section.flags.iter().filter(works).map(|flag| self.row(flag)));
        }
        self.tail(page, Table::names)
    }

    /// The text of `--help` there: paragraphs for each flag.
    pub(crate) fn help(&self, columns: usize) -> String {
        let mut page = Page::new(columns);
        for section in self.sections {
            page.heading(section.title);
            for flag in section.flags.iter().filter(works) {
                page.paragraphs(&self.typed(flag), &flag.line(), flag.details);
            }
        }
        self.tail(page, Table::meanings)
    }

    /// The end that both pages share; `list` lists the flags without effect.
    fn tail(&self, mut page: Page, list: fn(&Self, &mut Page, &[&'static Flag<T>])) -> String {
        if self.extended.is_some() {
            page.heading(&format!("Extended options ({} name[=value],…)", self.extended_label()));
            page.two_columns(2, self.options().filter(works).map(|option| self.row(option)));
        }
        for (title, reasons) in
            [("Accepted without effect", self.without_effect()), ("Not supported yet", self.not_yet())]
        {
            page.heading(title);
            for (why, flags) in reasons {
                page.indented(&format!("{why}:"), 2);
                list(self, &mut page, &flags);
            }
        }
        page.text.truncate(page.text.trim_end().len());
        page.text
    }

    fn row(&self, flag: &Flag<T>) -> (String, String) {
        (self.typed(flag), flag.line())
    }

    fn names(&self, page: &mut Page, flags: &[&'static Flag<T>]) {
        let names: Vec<_> = flags.iter().map(|flag| bare(flag)).collect();
        page.indented(&names.join(", "), 6);
    }

    fn meanings(&self, page: &mut Page, flags: &[&'static Flag<T>]) {
        page.two_columns(6, flags.iter().map(|flag| (self.typed(flag), flag.doc.to_owned())));
    }

    /// One flag or sub-option as it is typed: `-p, --port <num>` or `idle_timeout=<seconds>`.
    pub fn typed(&self, flag: &Flag<T>) -> String {
        let is_option = self.option(flag.name).is_some();
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

    /// Flags and sub-options that are accepted without effect, by reason.
    pub fn without_effect(&self) -> Vec<(&'static str, Vec<&'static Flag<T>>)> {
        self.by_reason(|effect| match effect {
            Effect::Without(why) | Effect::Lacking(why) => Some(why),
            Effect::Works | Effect::NotYet(_) => None,
        })
    }

    /// Flags and sub-options that are refused, by what is missing.
    pub fn not_yet(&self) -> Vec<(&'static str, Vec<&'static Flag<T>>)> {
        self.by_reason(|effect| if let Effect::NotYet(missing) = effect { Some(missing) } else { None })
    }

    fn by_reason(
        &self,
        reason: fn(Effect) -> Option<&'static str>,
    ) -> Vec<(&'static str, Vec<&'static Flag<T>>)> {
        let mut reasons: Vec<(&str, Vec<_>)> = Vec::new();
        for flag in self.flags().chain(self.options()) {
            let Some(why) = reason(flag.effect) else { continue };
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, flags)) => flags.push(flag),
                None => reasons.push((why, vec![flag])),
            }
        }
        reasons
    }
}

impl<T> Flag<T> {
    /// Its effect, and its default.
    pub fn line(&self) -> String {
        // The space inside the brackets is a no-break space.
        let default = self.default.map_or(String::new(), |default| format!(" [default:\u{a0}{default}]"));
        format!("{}{default}", self.doc)
    }
}

fn works<T>(flag: &&Flag<T>) -> bool {
    flag.effect == Effect::Works
}

/// A growing text, with clap's styles for headings and flags, which clap removes without a terminal.
struct Page {
    text: String,
    columns: usize,
    styles: Styles,
}

impl Page {
    fn new(columns: usize) -> Self {
        Self { text: String::new(), columns, styles: Styles::styled() }
    }

    fn heading(&mut self, title: &str) {
        let style = self.styles.get_header();
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}{style}{title}:{style:#}");
    }

    fn two_columns(&mut self, indent: usize, rows: impl Iterator<Item = (String, String)>) {
        let rows: Vec<_> = rows.collect();
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let style = self.styles.get_literal();
        for (name, line) in rows {
            // Where names alone fill a narrow terminal, the texts beside them are a word wide.
            let left = self.columns.saturating_sub(width + indent + 2);
            for (row, part) in wrap(&line, left).iter().enumerate() {
                let name = if row == 0 { &name } else { "" };
                let _ = writeln!(self.text, "{:indent$}{style}{name:width$}{style:#}  {part}", "");
            }
        }
    }

    fn paragraphs(&mut self, typed: &str, line: &str, details: &str) {
        let style = self.styles.get_literal();
        let gap = if self.text.ends_with(":\u{1b}[0m\n") { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}  {style}{typed}{style:#}");
        let paragraphs = [line].into_iter().chain(details.split("\n\n"));
        for paragraph in paragraphs.filter(|paragraph| !paragraph.is_empty()) {
            self.indented(paragraph, DETAILS_INDENT);
        }
    }

    fn indented(&mut self, text: &str, indent: usize) {
        for line in wrap(text, self.columns.saturating_sub(indent)) {
            let _ = writeln!(self.text, "{:indent$}{line}", "");
        }
    }
}

/// Its name in a list: flags by letter and name, sub-options by name.
fn bare<T>(flag: &Flag<T>) -> String {
    flag.short.map_or(flag.name.to_owned(), |letter| format!("-{letter}\u{a0}--{}", flag.name))
}

/// Lines of at most this many characters, broken at spaces.
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
