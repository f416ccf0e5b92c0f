//! The report of shadows as a file (`--shadow-report`), replaced at intervals.

use std::io;
use std::path::{Path, PathBuf};

use router::ShadowReport;

use super::lines::notice;

/// Looks of the thread that reloads, one in a second, between two reports.
const LOOKS: u32 = 10;

pub(super) struct ShadowFile {
    path: Option<PathBuf>,
    /// Looks until the next report.
    left: u32,
    /// The last one could not be written, which a line has said.
    has_failed: bool,
}

impl ShadowFile {
    pub(super) fn new(path: Option<PathBuf>) -> ShadowFile {
        ShadowFile { path, left: 0, has_failed: false }
    }

    /// Writes a report when it is time.
    pub(super) fn look(&mut self, report: impl FnOnce() -> ShadowReport) {
        let Some(path) = &self.path else { return };
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = LOOKS - 1;
        let written = write(path, &report());
        if let (Err(error), false) = (&written, self.has_failed) {
            notice(&format!("failed to write {}: {error}", path.display()));
        }
        self.has_failed = written.is_err();
    }
}

/// Whoever reads the file finds a whole report.
fn write(path: &Path, report: &ShadowReport) -> io::Result<()> {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    os::file::replace(path, if is_json { report.to_json() } else { report.to_string() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_report_is_written_every_tenth_look() {
        let folder = std::env::temp_dir().join(format!("evenkeel-shadows-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for (name, expected) in
            [("report.json", "{\"shadows\":[\n]}\n"), ("report", "no shadows are compared\n")]
        {
            let path = folder.join(name);
            let mut file = ShadowFile::new(Some(path.clone()));
            for look in 0..25 {
                file.look(ShadowReport::default);
                assert_eq!(path.exists(), look % 10 == 0, "{look}");
                if look % 10 == 0 {
                    assert_eq!(fs::read_to_string(&path).expect("a report"), expected);
                    fs::remove_file(&path).expect("removed");
                }
            }
        }
        let mut file = ShadowFile::new(Some(folder.join("missing/report")));
        file.look(ShadowReport::default);
        assert!(file.has_failed);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
