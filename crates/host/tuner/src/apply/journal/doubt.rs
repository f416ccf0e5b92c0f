//! Doubts: journals of this boot from which not everything can be undone, because not everything can be read.

use std::fmt;
use std::path::PathBuf;

/// Line numbers that are named, at most.
const NAMED_MAX: usize = 8;

/// A file with a journal's name, and what cannot be read of it. Prints a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalDoubt {
    /// Some lines of it.
    Lines {
        /// The file.
        path: PathBuf,
        /// Their numbers, from 1; none: they are not there any more.
        unread: Vec<usize>,
        /// Whether nothing says of which boot it is, so that nothing of it is undone.
        is_of_any_boot: bool,
        /// A file with the planned changes, and the values at that time.
        planned: Option<PathBuf>,
    },
    /// Nothing of it.
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: String,
        /// A file with the planned changes, and the values at that time.
        planned: Option<PathBuf>,
    },
    /// Another version of this program has written it.
    OtherVersion {
        /// What cannot be done.
        error: String,
    },
}

/// The remedy for a journal of another version.
pub const OTHER_VERSION_REMEDY: &str = "`evenkeel tune rollback` of the evenkeel that wrote it undoes its plan; if nothing of it is in force, remove it";

impl fmt::Display for JournalDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalDoubt::Lines { path, unread, is_of_any_boot, planned } => {
                write!(f, "{}: {}", path.display(), lines(unread))?;
                if *is_of_any_boot {
                    f.write_str("; none says of which boot it is, so nothing of it is undone")?;
                }
                remedy(f, planned.as_ref())
            }
            JournalDoubt::File { path, error, planned } => {
                write!(f, "{}: nothing in it can be read ({error})", path.display())?;
                remedy(f, planned.as_ref())
            }
            JournalDoubt::OtherVersion { error } => write!(f, "failed to {error}; {OTHER_VERSION_REMEDY}"),
        }
    }
}

fn lines(unread: &[usize]) -> String {
    let mut names: Vec<String> = unread.iter().take(NAMED_MAX).map(usize::to_string).collect();
    names.extend((unread.len() > NAMED_MAX).then(|| "…".to_owned()));
    match unread.len() {
        0 => "lines of it are missing".to_owned(),
        1 => format!("line {} cannot be read", names[0]),
        count => format!("{count} lines cannot be read ({})", names.join(", ")),
    }
}

fn remedy(f: &mut fmt::Formatter<'_>, planned: Option<&PathBuf>) -> fmt::Result {
    f.write_str("; a setting that it names may still be changed: look into it")?;
    if let Some(planned) = planned {
        write!(f, " and, for the values at the time of the plan, into {}", planned.display())?;
    }
    f.write_str("; this is said until the file is removed or the host restarted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_says_what_cannot_be_read_and_what_that_may_mean() {
        let check = |unread: &[usize], is_of_any_boot, planned: Option<&str>, expected: &str| {
            let planned = planned.map(PathBuf::from);
            let doubt =
                JournalDoubt::Lines { path: "/j".into(), unread: unread.to_vec(), is_of_any_boot, planned };
            assert_eq!(doubt.to_string(), expected);
        };
        let end = "a setting that it names may still be changed: look into it";
        let until = "this is said until the file is removed or the host restarted";
        check(&[5], false, None, &format!("/j: line 5 cannot be read; {end}; {until}"));
        check(&[5, 7], false, None, &format!("/j: 2 lines cannot be read (5, 7); {end}; {until}"));
        let many: Vec<usize> = (1..=9).collect();
        let boot = "none says of which boot it is, so nothing of it is undone";
        let said = format!("/j: 9 lines cannot be read (1, 2, 3, 4, 5, 6, 7, 8, …); {boot}; {end}; {until}");
        check(&many, true, None, &said);
        let planned = "and, for the values at the time of the plan, into /p";
        check(&[], false, Some("/p"), &format!("/j: lines of it are missing; {end} {planned}; {until}"));
    }
}
