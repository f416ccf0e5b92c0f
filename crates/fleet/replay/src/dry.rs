//! The dry run: what a replay would send, and to whom.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use os::clock::unix_s;
use router::read_record;
use stdx::log_level::LogLevel;

use super::Error;
use super::fleet::Fleet;
use super::folder::{REST, list};
use super::lines::{LineReader, PieceEnd};
use super::options::ReplayOptions;
use super::taken::{Take, TakenFile};
use super::tally::ReplayTally;

/// Counts what a log has, and changes nothing.
///
/// # Errors
/// If the folder cannot be read.
pub fn dry_run(options: &ReplayOptions) -> Result<ReplayTally, Error> {
    let (root, mut fleet) = (&options.async_dir, Fleet::new(options));
    let mut tally = ReplayTally::default();
    let files = list(root).map_err(|source| Error::Read { path: root.clone(), source })?;
    for logged in files {
        if logged.may_grow(unix_s()) {
            tally.files_in_use += 1;
            continue;
        }
        let path = logged.path(root);
        let counted = match TakenFile::take(root, &logged, true) {
            Ok(Take::InUse) => {
                tally.files_in_use += 1;
                continue;
            }
            Ok(Take::Gone) => continue,
            Ok(Take::Taken(taken)) => count(options, *taken, &path, &mut fleet, &mut tally),
            Err(error) => Err(error),
        };
        if let Err(error) = counted {
            let trouble = format!("{}: {error}", path.display());
            (options.notice)(LogLevel::Warning, &trouble);
            tally.trouble = Some(trouble);
        }
    }
    tally.servers = fleet.tallies();
    Ok(tally)
}

fn count(
    options: &ReplayOptions,
    mut taken: TakenFile,
    path: &Path,
    fleet: &mut Fleet,
    tally: &mut ReplayTally,
) -> io::Result<()> {
    let (mut piece, mut lines) = (Vec::new(), LineCounts::default());
    while let Some(end) = taken.next(&mut piece)? {
        lines.take(options, &piece, end, fleet)?;
    }
    if taken.was_begun() {
        let mut rest = path.as_os_str().to_owned();
        rest.push(REST);
        match File::open(rest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            rest => {
                let mut reader = LineReader::new(BufReader::new(rest?), 0);
                while let Some(end) = reader.next(&mut piece)? {
                    lines.take(options, &piece, end, fleet)?;
                }
            }
        }
    }
    tally.sent += lines.deletes;
    tally.note_refused(lines.others, path);
    Ok(())
}

/// Counts of lines.
#[derive(Default)]
struct LineCounts {
    deletes: u64,
    others: u64,
    is_long: bool,
}

impl LineCounts {
    fn take(
        &mut self,
        options: &ReplayOptions,
        piece: &[u8],
        end: PieceEnd,
        fleet: &mut Fleet,
    ) -> io::Result<()> {
        let was_long = std::mem::replace(&mut self.is_long, end == PieceEnd::Long);
        if was_long {
            return Ok(());
        }
        match read_record(piece).ok().filter(|_| !self.is_long) {
            None => self.others += 1,
            Some(delete) => {
                self.deletes += 1;
                let router = delete.pool.and(options.router.as_deref());
                fleet.would_send(router.unwrap_or(&delete.server))?;
            }
        }
        Ok(())
    }
}
