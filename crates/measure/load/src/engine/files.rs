//! Files that the process may have open: one for each connection.

use crate::types::error::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Whatever else is open: standard streams, the result, each thread's ring or epoll instance, other measuring.
const OTHERS: u64 = 200;

/// Makes room for `connections`, beyond the hard limit if the process may.
pub(crate) fn allow(connections: usize) -> Result<(), Error> {
    let needed = (connections as u64).saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    // No limit at all is `None`.
    let Some(current) = limit.current.filter(|current| *current < needed) else { return Ok(()) };
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).map_err(|error| Error::Files {
        connections,
        needed,
        found: limit.maximum.unwrap_or(current),
        source: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_any_kernel_allows_is_refused_with_the_numbers() {
        let error = allow(1 << 40).expect_err("fs.nr_open is far below").to_string();
        let expected = "open 1099511627776 connections: 1099511627976 files are needed, the hard limit is ";
        assert!(error.starts_with(expected) && error.ends_with("; raise `ulimit -Hn`"), "{error}");
        allow(1).expect("as many as there are already");
    }
}
