//! A root as a probe reads it: unreadable or unexpected files are noted, and the probe goes on.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::str::FromStr;

use crate::observe::root::{Error, Root};
use os::CpuSet;

/// More gaps than this add nothing: a host without rights shows the same gap for each of its interrupts.
const GAPS_MAX: usize = 100;

/// A root, and the files that could not be read there.
pub(crate) struct ProbeView<'r> {
    /// The directory of the files.
    pub(crate) root: &'r Root,
    gaps: RefCell<BTreeSet<String>>,
}

impl<'r> ProbeView<'r> {
    /// Nothing has been noted yet.
    pub(crate) fn new(root: &'r Root) -> ProbeView<'r> {
        ProbeView { root, gaps: RefCell::default() }
    }

    /// Files that could not be read, each once, in order.
    pub(crate) fn into_gaps(self) -> Vec<String> {
        self.gaps.into_inner().into_iter().collect()
    }

    /// Notes a missing fact, and the reason.
    pub(crate) fn note(&self, gap: impl Into<String>) {
        let mut gaps = self.gaps.borrow_mut();
        if gaps.len() < GAPS_MAX {
            gaps.insert(gap.into());
        }
    }

    /// A file's text.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.noted(self.root.read(path)).flatten()
    }

    /// A file's lines; none if there is no such file.
    pub(crate) fn lines(&self, path: &str) -> Vec<String> {
        self.text(path).map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default()
    }

    /// A file that holds one value.
    pub(crate) fn value<T: FromStr>(&self, path: &str, expected: &'static str) -> Option<T> {
        self.noted(self.root.value(path, expected)).flatten()
    }

    /// A file that holds one number that is not negative; -1 stands for "unknown" in /sys.
    pub(crate) fn number<T: TryFrom<i64>>(&self, path: &str) -> Option<T> {
        self.value::<i64>(path, "a number").and_then(|value| T::try_from(value).ok())
    }

    /// A file that holds 0 or 1.
    pub(crate) fn flag(&self, path: &str) -> Option<bool> {
        self.number::<u32>(path).map(|value| value != 0)
    }

    /// A file that holds a list of CPUs: `0-3,8`.
    pub(crate) fn list(&self, path: &str) -> Option<CpuSet> {
        self.value(path, "a list of CPUs")
    }

    /// A file that holds a mask of CPUs: `ff,00000003`.
    pub(crate) fn mask(&self, path: &str) -> Option<CpuSet> {
        let text = self.text(path)?;
        let mask = CpuSet::parse_mask(&text);
        self.noted(mask.map_err(|_| Error::Parse {
            path: path.into(),
            expected: "a mask of CPUs",
            found: text,
        }))
    }

    /// Names in a directory, in natural order.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        self.noted(self.root.names(path)).unwrap_or_default()
    }

    /// Names in a directory that are numbers.
    pub(crate) fn numbers(&self, path: &str) -> Vec<u32> {
        self.names(path).iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// The last part of a symbolic link's target: a driver's name.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        Some(self.root.link(path)?.rsplit('/').next()?.to_owned())
    }

    fn noted<T>(&self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                self.note(format!("{error}{}", cause.unwrap_or_default()));
                None
            }
        }
    }
}

/// The word in brackets: `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// All the words of such a text, without the brackets.
pub(crate) fn choices(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert_eq!(choices("[none] mq-deadline"), ["none", "mq-deadline"]);
    }

    #[test]
    fn what_cannot_be_understood_is_noted_and_the_rest_goes_on() {
        let root = Root::new(env!("CARGO_MANIFEST_DIR"));
        let view = ProbeView::new(&root);
        assert_eq!(view.number::<u32>("/nothing"), None, "not there: no gap");
        assert_eq!(view.mask("/Cargo.toml"), None);
        let gaps = view.into_gaps();
        assert_eq!(gaps.len(), 1);
        assert!(gaps[0].starts_with("understand /Cargo.toml: expected a mask of CPUs"), "{gaps:?}");
    }
}
