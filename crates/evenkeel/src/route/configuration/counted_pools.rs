//! The file of `--pool-stats-config-file`: it is read once, at the start.
//!
//! A file that cannot be used is a line, and no reason not to route: so it is with mcrouter.

use std::path::Path;
use std::sync::Arc;

use router::CountedPools;

use crate::process::bounded_file::read_at_most;
use crate::route::lines::notice;

/// The longest file: as many names as are read, each of a kilobyte.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// Lines about one file.
const LINES_MAX: usize = 10;

/// The pools that the file names; none without a file.
pub(crate) fn counted_pools(path: Option<&Path>) -> Arc<CountedPools> {
    let Some(path) = path else { return Arc::default() };
    let text = read_at_most(path, FILE_LEN_MAX).map_err(|error| error.to_string());
    match text.and_then(|text| CountedPools::parse(&text).map_err(|error| error.to_string())) {
        Ok((pools, left_out)) => {
            let shown = path.display();
            left_out.iter().take(LINES_MAX).for_each(|line| {
                notice(&format!("--pool-stats-config-file: {shown}: {line}"));
            });
            match left_out.len().saturating_sub(LINES_MAX) {
                0 => {}
                more => notice(&format!("--pool-stats-config-file: {shown}: {more} more names are left out")),
            }
            Arc::new(pools)
        }
        Err(error) => {
            notice(&format!(
                "--pool-stats-config-file: no pool has statistics of its own: {}: {error}",
                path.display()
            ));
            Arc::default()
        }
    }
}
