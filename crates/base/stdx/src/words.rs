//! Words of messages: counts with their nouns.

/// A count with its noun: `1 slot`, `2 slots`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        let found = [0, 1, 2].map(|count| counted(count, "slot"));
        assert_eq!(found, ["0 slots", "1 slot", "2 slots"]);
    }
}
