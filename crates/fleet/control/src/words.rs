//! Words of messages: errors with their causes.

use std::error::Error;

/// An error and what has caused it, for a line of its own: `sync /var/x: No space left on device`.
pub(crate) fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // Some errors name their cause themselves.
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::register::RegisterError;

    #[test]
    fn a_full_disk_is_named_once() {
        let full = io::Error::from_raw_os_error(28);
        let error = RegisterError::Disk { what: "write", path: "/var/x".into(), source: full };
        assert_eq!(in_full(&error), "write /var/x: No space left on device (os error 28)");
        let error = RegisterError::Unavailable("no member answers".to_owned());
        assert_eq!(in_full(&error), "reach the register: no member answers");
    }
}
