//! Line breaks between words.

/// The text after a label, broken so that no line is longer than `columns`; continued lines are indented below the
/// text.
pub(crate) fn hanging(label: &str, text: &str, columns: usize) -> String {
    let indent = label.chars().count();
    let room = columns.saturating_sub(indent).max(ROOM_MIN);
    let mut lines = String::new();
    let mut lead = label.to_owned();
    for line in lines_of(text, room) {
        lines += &format!("{lead}{line}\n");
        lead = " ".repeat(indent);
    }
    lines
}

/// A narrower column is not readable.
const ROOM_MIN: usize = 20;

fn lines_of(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let line = lines.last_mut().expect("there is always a line");
        let len = line.chars().count();
        match len {
            0 => line.push_str(word),
            _ if len + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_below_the_text() {
        assert_eq!(
            hanging("why: ", "one two three four five six", 25),
            "why: one two three four\n     five six\n"
        );
        assert_eq!(hanging("why: ", "a", 25), "why: a\n");
    }
}
