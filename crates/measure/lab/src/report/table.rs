//! Tables as values: aligned on a terminal, marked up in a page.

use std::borrow::Cow;
use std::fmt;
use stdx::escape;

/// A cell with more letters than this has several lines in a page, so that the columns beside it stay visible.
const LINE_MAX: usize = 80;

/// Rows of texts below a header, as many each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportTable {
    /// Its subject.
    pub title: String,
    /// The columns' names.
    pub header: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl ReportTable {
    /// Columns of figures stand at the right: those between the first and the last, if they begin with a digit or sign.
    fn is_figures(&self, column: usize) -> bool {
        let figure =
            |row: &Vec<String>| row[column].starts_with(|c: char| c.is_ascii_digit() || "+-×<".contains(c));
        let filled = self.rows.iter().filter(|row| !row[column].is_empty());
        column > 0
            && column + 1 < self.header.len()
            && filled.clone().count() > 0
            && filled.clone().all(figure)
    }

    /// As HTML.
    pub fn html(&self) -> String {
        let class = |column: usize| if self.is_figures(column) { " class=\"n\"" } else { "" };
        let head = self.header.iter().enumerate();
        let head: String = head.map(|(i, name)| format!("<th{}>{}</th>", class(i), markup(name))).collect();
        let mut html =
            format!("<h3>{}</h3>\n<div class=\"wide\"><table>\n<tr>{head}</tr>\n", markup(&self.title));
        for row in &self.rows {
            let cells = row.iter().enumerate();
            let class = |i: usize, cell: &String| match cell.chars().count() > LINE_MAX {
                _ if cell.starts_with(|c| ('▁'..='█').contains(&c)) => " class=\"sparks\"",
                true => " class=\"long\"",
                false => class(i),
            };
            let cells: String =
                cells.map(|(i, cell)| format!("<td{}>{}</td>", class(i, cell), markup(cell))).collect();
            let mark = match row.last().map_or("", String::as_str) {
                word @ ("better" | "worse" | "different") => format!(" class=\"{word}\""),
                "equivalent"
                | "no difference shown"
                | "too few pairs"
                | "too few days"
                | "not compared"
                | "baseline" => " class=\"none\"".to_owned(),
                _ => String::new(),
            };
            html += &format!("<tr{mark}>{cells}</tr>\n");
        }
        html + "</table></div>\n"
    }
}

impl ReportTable {
    /// As Markdown, without its title.
    pub fn markdown(&self) -> String {
        let cells = |row: &[String]| {
            format!("| {} |\n", row.iter().map(|cell| words(cell)).collect::<Vec<_>>().join(" | "))
        };
        let header: Vec<String> = self.header.iter().map(|name| (*name).to_owned()).collect();
        let side = |column: usize| if self.is_figures(column) { "---:" } else { "---" };
        let sides: Vec<&str> = (0..self.header.len()).map(side).collect();
        let rows: String = self.rows.iter().map(|row| cells(row)).collect();
        format!("{}|{}|\n{rows}", cells(&header), sides.join("|"))
    }
}

impl fmt::Display for ReportTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", escape::lines(&self.title))?;
        let header = self.header.iter().map(|name| Cow::Borrowed(*name)).collect();
        // A history has the names of other machines: none of them begins a row of its own.
        let cells =
            |row: &Vec<String>| row.iter().map(|cell| escape::line(cell).into_owned().into()).collect();
        let rows: Vec<Vec<Cow<'_, str>>> =
            std::iter::once(header).chain(self.rows.iter().map(cells)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // The width of a format has 16 bits, and names have any length.
                let room = " ".repeat(width - cell.chars().count());
                match self.is_figures(column) {
                    true => line.extend(["  ", &room, cell]),
                    false => line.extend(["  ", cell, &room]),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text for Markdown, which is no markup there and stays in its line.
pub(super) fn words(text: &str) -> String {
    let is_markup = |c: char| matches!(c, '\\' | '`' | '*' | '_' | '<' | '[' | ']' | '~' | '|' | '&');
    let escaped = |c: char| if is_markup(c) { format!("\\{c}") } else { c.to_string() };
    escape::line(text).chars().map(escaped).collect()
}

/// Text escaped for HTML.
pub(crate) fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ReportTable {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        ReportTable {
            title: "p99 (µs)".into(),
            header: vec!["cell", "median", "verdict"],
            rows: vec![row(["a<b", "5", "baseline"]), row(["io_uring", "1,234", "better"])],
        }
    }

    #[test]
    fn a_terminal_has_columns() {
        let wanted = "p99 (µs)\n  cell      median  verdict\n  a<b            5  baseline\n  io_uring   1,234  better\n";
        assert_eq!(table().to_string(), wanted);
    }

    #[test]
    fn a_name_of_any_length_stays_in_its_row() {
        let mut long = table();
        long.rows[0][0] = "x".repeat(100_000);
        long.rows[1][0] = "a\n\x1b[2Jb".into();
        let text = long.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{} bytes", text.len());
        assert!(lines[2].ends_with("x       5  baseline"), "{}", &lines[2][99_990..]);
        assert!(lines[3].starts_with("  a\\u000a\\u001b[2Jb  "));
    }

    #[test]
    fn a_page_has_marks_and_no_markup_of_others() {
        let html = table().html();
        assert!(html.contains("<tr class=\"better\"><td>io_uring</td><td class=\"n\">1,234</td>"), "{html}");
        assert!(html.contains("a&lt;b") && !html.contains("a<b"), "{html}");
        assert!(!html.contains("class=\"long\""));
        let mut long = table();
        long.rows[0][0] = "x".repeat(LINE_MAX + 1);
        assert_eq!(long.html().matches("<td class=\"long\">x").count(), 1);
    }

    #[test]
    fn a_table_in_markdown_has_figures_at_the_right_and_no_markup_of_others() {
        let mut table = table();
        table.rows[0][0] = "a_b|<i>".into();
        let wanted = "| cell | median | verdict |\n|---|---:|---|\n| a\\_b\\|\\<i> | 5 | baseline |\n| io\\_uring | 1,234 | better |\n";
        assert_eq!(table.markdown(), wanted);
    }
}
