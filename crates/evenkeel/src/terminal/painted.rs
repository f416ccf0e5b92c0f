//! Text with the colours of `tuner::report`, as lines for a live picture.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use stdx::escape;

/// How an order to a terminal begins; with a number and `m` behind it, it is a colour, or text that cannot be seen.
const ORDER: &str = "\x1b[";

/// Lines, with the colours and without any other order to a terminal.
pub(crate) fn lines(text: &str) -> Vec<Line<'static>> {
    let mut style = Style::new();
    text.lines().map(|text| line(text, &mut style)).collect()
}

fn line(text: &str, style: &mut Style) -> Line<'static> {
    let mut parts = text.split(ORDER);
    let first = parts.next().unwrap_or_default();
    let mut spans = vec![Span::styled(escape::line(first).into_owned(), *style)];
    for part in parts {
        let (code, rest) = part.split_once('m').unwrap_or(("", part));
        match coloured(*style, code) {
            Some(next) => *style = next,
            None => spans.push(Span::styled(escape::line(ORDER).into_owned() + code, *style)),
        }
        spans.push(Span::styled(escape::line(rest).into_owned(), *style));
    }
    Line::from(spans)
}

/// The style after such an order; `None` for others.
fn coloured(style: Style, code: &str) -> Option<Style> {
    let colours =
        [Color::Black, Color::Red, Color::Green, Color::Yellow, Color::Blue, Color::Magenta, Color::Cyan];
    match code.parse::<usize>().ok()? {
        0 => Some(Style::new()),
        1 => Some(style.add_modifier(Modifier::BOLD)),
        2 => Some(style.add_modifier(Modifier::DIM)),
        number => Some(style.fg(*colours.get(number.checked_sub(30)?)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, Style)> {
        let all = lines(text).into_iter().flat_map(|line| line.spans);
        all.filter(|span| !span.content.is_empty())
            .map(|span| (span.content.into_owned(), span.style))
            .collect()
    }

    #[test]
    fn colours_last_until_they_are_taken_back() {
        let red = Style::new().fg(Color::Red);
        let expected = [("a ", Style::new()), ("b", red), ("c", red), (" d", Style::new())];
        let expected = expected.map(|(text, style)| (text.to_owned(), style));
        assert_eq!(shown("a \x1b[31mb\nc\x1b[0m d"), expected);
        assert_eq!(shown("\x1b[1mx")[0].1, Style::new().add_modifier(Modifier::BOLD));
    }

    #[test]
    fn no_other_order_reaches_the_terminal() {
        for order in ["\x1b[2J", "\x1b]0;x\x07", "\x1b[8mx", "\x1b[38;5;1mx", "\x1bc", "\x1b["] {
            let text: String = shown(order).into_iter().map(|(text, _)| text).collect();
            assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text}");
        }
    }
}
