//! The file that a server or a router reads for clients with auto-discovery: the members of the server's cluster, or the routers
//! of the router's view and zone.

use std::path::PathBuf;
use std::sync::Arc;
use stdx::log_level::LogLevel;

use fleet::TextDigest;
use protocol::discovery::{DISCOVERY_FILE_LEN_MAX, DiscoveryList};

use super::state::read;
use crate::routers::router_client::digest_of;
use crate::routers::router_file::RouterFile;

/// A text and its digest.
pub(super) type HeldText = (TextDigest, Arc<str>);

/// The file beside a server or a router.
pub(super) struct ClusterFile {
    path: PathBuf,
    /// The text that it shall have, at most [`DISCOVERY_FILE_LEN_MAX`] bytes; what it had when the agent began, until an
    /// order says something else.
    held: Option<HeldText>,
    /// The last trouble with it, which is said once.
    trouble: Option<String>,
}

impl ClusterFile {
    /// With what is there. A file that cannot be read is written when there is an order.
    pub(super) fn new(path: PathBuf) -> ClusterFile {
        let found = read(&path).ok().flatten().filter(|text| text.len() <= DISCOVERY_FILE_LEN_MAX);
        let text = found.and_then(|text| String::from_utf8(text).ok());
        let held = text.map(|text| (digest_of(text.as_bytes()), text.into()));
        ClusterFile { path, held, trouble: None }
    }

    /// What controllers need not send.
    pub(super) fn held(&self) -> Option<&HeldText> {
        self.held.as_ref()
    }

    /// Writes the text of this digest, unless it is there, and says what has come of it. `whose` names the server or router.
    pub(super) fn carry_out(
        &mut self,
        whose: &str,
        digest: &TextDigest,
        text: Option<Arc<str>>,
        say: &dyn Fn(LogLevel, &str),
    ) {
        self.trouble = match self.on_order(digest, text) {
            Ok(written) => {
                if let Some(revision) = written {
                    say(LogLevel::Info, &format!("{whose}: the file of its cluster has revision {revision}"));
                }
                None
            }
            Err(why) => {
                if self.trouble.as_ref() != Some(&why) {
                    say(LogLevel::Warning, &format!("{whose}: {why}"));
                }
                Some(why)
            }
        };
    }

    /// Writes the text of this digest, unless it is there. Returns the revision that was written. A text that is neither held
    /// nor sent comes with the next turn, which says that it is missing.
    fn on_order(&mut self, digest: &TextDigest, text: Option<Arc<str>>) -> Result<Option<u64>, String> {
        if self.held.as_ref().is_none_or(|(held, _)| held != digest) {
            let Some(text) = text else { return Ok(None) };
            if text.len() > DISCOVERY_FILE_LEN_MAX || digest_of(text.as_bytes()) != *digest {
                return Err("the text of its cluster's file is damaged".to_owned());
            }
            self.held = Some((digest.clone(), text));
        }
        let Some((_, text)) = &self.held else { return Ok(None) };
        let found = read(&self.path).map_err(|error| error.to_string())?;
        if found.as_deref() == Some(text.as_bytes()) {
            return Ok(None);
        }
        let shown = self.path.display();
        let list = DiscoveryList::parse(text.as_bytes()).map_err(|error| format!("{shown}: {error}"))?;
        let before = found.and_then(|found| DiscoveryList::parse(&found).ok());
        // A controller may be behind the others for some seconds; the server would refuse the text, too.
        if let Some(newer) = before.filter(|before| before.revision() > list.revision()) {
            return Err(format!(
                "{shown} stays as it is: its revision {} is newer than {}; if somebody else has written it, remove it and \
                 start the process again that reads it",
                newer.revision(),
                list.revision()
            ));
        }
        RouterFile::new(&self.path).write(text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Some(list.revision()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::fs;

    /// An order with its text.
    fn order(file: &mut ClusterFile, text: &str) -> Result<Option<u64>, String> {
        file.on_order(&digest_of(text.as_bytes()), Some(text.into()))
    }

    #[test]
    fn a_text_is_written_once_and_again_if_it_is_gone() {
        let scratch = Scratch::new();
        let path = scratch.path("members");
        let mut file = ClusterFile::new(path.clone());
        let (first, digest) = ("1\na||1\n", digest_of(b"1\na||1\n"));
        assert_eq!(file.on_order(&digest, None), Ok(None), "the text is missing");
        assert!(file.held().is_none() && !path.exists());
        assert_eq!(order(&mut file, first), Ok(Some(1)));
        assert_eq!(file.on_order(&digest, None), Ok(None));
        assert_eq!(fs::read_to_string(&path).expect("a file"), first);
        for damage in ["", "1\nb||1\n", "no list"] {
            fs::write(&path, damage).expect("a file");
            assert_eq!(file.on_order(&digest, None), Ok(Some(1)), "{damage:?}");
            assert_eq!(fs::read_to_string(&path).expect("a file"), first);
        }
        fs::remove_file(&path).expect("it is there");
        assert_eq!(file.on_order(&digest, None), Ok(Some(1)));
        // An agent that is started again holds what is there.
        let file = ClusterFile::new(path);
        assert_eq!(file.held().map(|(held, _)| held), Some(&digest));
    }

    #[test]
    fn an_older_revision_and_a_damaged_text_change_nothing() {
        let scratch = Scratch::new();
        let path = scratch.path("members");
        let mut file = ClusterFile::new(path.clone());
        assert_eq!(order(&mut file, "5\na||1\n"), Ok(Some(5)));
        let mut refused = |text: &str, digest: &TextDigest, expected: &str| {
            let error = file.on_order(digest, Some(text.into())).expect_err("refused");
            assert!(error.contains(expected), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("a file"), "5\na||1\n");
        };
        refused("4\nb||1\n", &digest_of(b"4\nb||1\n"), "its revision 5 is newer than 4");
        refused("6\nb||1\n", &digest_of(b"another"), "is damaged");
        refused("6\nb\n", &digest_of(b"6\nb\n"), "expected host|ip|port");
        let long = format!("6\nb||1\n#{}\n", "x".repeat(DISCOVERY_FILE_LEN_MAX));
        refused(&long, &digest_of(long.as_bytes()), "is damaged");
        assert_eq!(order(&mut file, "6\nb||1\n"), Ok(Some(6)));
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_left_alone() {
        let scratch = Scratch::new();
        let path = scratch.path("members");
        std::os::unix::fs::symlink("elsewhere", &path).expect("a link");
        let mut file = ClusterFile::new(path.clone());
        assert!(order(&mut file, "1\na||1\n").is_err());
        assert!(path.is_symlink() && !scratch.path("elsewhere").exists());
    }
}
