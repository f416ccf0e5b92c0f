//! The most similar name, for the hint of an error.

/// The name with the fewest typing errors in `typed`, or else in a prefix of the name; none if there is more than one
/// error in three letters, because another word was meant then.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<_> = names.into_iter().collect();
    let fewest = |slips_max: usize, part: &dyn Fn(&'a str) -> &'a [u8]| {
        // Each letter more or less is a slip: a text of 100 kB, compared with every name, takes seconds to be none.
        let possible = names.iter().filter(|name| part(name).len().abs_diff(typed.len()) <= slips_max);
        let counted = possible.map(|name| (slips(typed.as_bytes(), part(name)), *name));
        counted.filter(|&(slips, _)| slips <= slips_max).min_by_key(|&(slips, _)| slips).map(|(_, name)| name)
    };
    let beginning = |name: &'a str| &name.as_bytes()[..name.len().min(typed.len())];
    let whole = fewest(typed.len().max(3) / 3, &str::as_bytes);
    whole.or_else(|| fewest(typed.len() / 3, &beginning).filter(|_| !typed.is_empty()))
}

/// The edit distance of two words: letters inserted, omitted or replaced, and neighbours swapped.
fn slips(from: &[u8], to: &[u8]) -> usize {
    let mut two_above = vec![0; to.len() + 1];
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, &letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &wanted) in to.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != wanted);
            let mut least = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && from[row - 1] == wanted && letter == to[column - 1] {
                least = least.min(two_above[column - 1] + 1);
            }
            current.push(least);
        }
        two_above = std::mem::replace(&mut above, current);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, meant: Option<&str>) {
        assert_eq!(nearest(typed, ["port", "threads", "memory-limit", "maxconns_fast"]), meant);
    }

    #[test]
    fn a_typing_error_is_recognised() {
        check("prot", Some("port"));
        check("thread", Some("threads"));
        check("memroy-limt", Some("memory-limit"));
        check("maxconn_fast", Some("maxconns_fast"));
        check("memroy", Some("memory-limit"));
        check("max", Some("maxconns_fast"));
    }

    #[test]
    fn another_word_has_no_similar_name() {
        check("frobnicate", None);
        check("x", None);
        check("", None);
    }

    #[test]
    fn a_text_that_is_far_too_long_costs_nothing() {
        // Letter by letter this would be more work than any test waits for.
        let typed = "maxconns_fast".repeat(10_000_000 / 13);
        assert_eq!(nearest(&typed, vec!["maxconns_fast"; 1000]), None);
    }
}
