//! The first words of a successor: whoever listens at the path of `--takeover` is asked what it has.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use os::socket_file::connect_to;
use server::Notice;

use super::OtherProcess;
use super::wire::TakeoverWire;
use crate::Error;

/// So often processes that end while they are asked are asked anew.
const ASKED_MAX: usize = 20;
/// A successor listens within this time, most often.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Words about those who are asked.
pub(crate) struct Asking {
    /// `server` or `router`.
    pub(crate) who: &'static str,
    /// What follows if it has ended.
    pub(crate) alone: &'static str,
}

/// What came of asking once.
enum Asked<T> {
    Offers(Box<(TakeoverWire, OtherProcess, T)>),
    /// It has ended while it was asked: why nothing came.
    HasEnded(String),
    Nobody,
}

impl Asking {
    pub(crate) fn failed(&self, path: &Path, is_alive: bool, why: impl Display) -> Error {
        let hint = match is_alive {
            true => format!("the other {} goes on serving", self.who),
            false => format!("the other {} has ended, too: start this one again", self.who),
        };
        let what = format!("take over from the {} at {} (--takeover): {why}", self.who, path.display());
        Error::other(what).with_hint(&hint)
    }

    /// The line of one that takes nothing over, although it should have.
    pub(crate) fn alone_line(&self, path: &Path, why: &str) -> String {
        format!("the {} at {} (--takeover) {} ({why})", self.who, path.display(), self.alone)
    }

    /// Asks whoever listens there; `None` if there is nobody, or nobody any more. Its process has to be root's, this user's or one of
    /// `users`.
    pub(crate) fn ask<T>(
        &self,
        path: &Path,
        users: &[u32],
        notice: Notice,
        offer: impl Fn(&mut TakeoverWire) -> Result<T, String>,
    ) -> Result<Option<(TakeoverWire, OtherProcess, T)>, Error> {
        let mut gone = None;
        for _ in 0..ASKED_MAX {
            match self.ask_once(path, users, &offer)? {
                Asked::Offers(found) => return Ok(Some(*found)),
                // Another successor may have taken over from it, and then it listens there in a moment.
                Asked::HasEnded(why) => {
                    gone = Some(why);
                    std::thread::park_timeout(ASK_AGAIN);
                }
                Asked::Nobody => break,
            }
        }
        gone.iter().for_each(|why| notice(&self.alone_line(path, why)));
        Ok(None)
    }

    fn ask_once<T>(
        &self,
        path: &Path,
        users: &[u32],
        offer: &impl Fn(&mut TakeoverWire) -> Result<T, String>,
    ) -> Result<Asked<T>, Error> {
        let stream = match connect_to(path, users) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(Asked::Nobody);
            }
            Err(error) => {
                // The kernel's own refusal has a number: then nobody has listened there.
                let is_of_another =
                    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none();
                let failure = Error::system(format!("reach {} (--takeover)", path.display()), error);
                let hint = format!(
                    "the path has to be where no other user can listen, such as a folder of the {}'s user",
                    self.who
                );
                return Err(if is_of_another { failure.with_hint(&hint) } else { failure });
            }
        };
        let process = OtherProcess::of(&stream);
        let process = process
            .map_err(|why| Error::other(format!("take over at {} (--takeover): {why}", path.display())))?;
        let mut wire = TakeoverWire::new(stream).map_err(|error| self.failed(path, true, error))?;
        match offer(&mut wire) {
            Ok(found) => Ok(Asked::Offers(Box::new((wire, process, found)))),
            Err(why) if process.is_alive(&wire) => Err(self.failed(path, true, why)),
            Err(why) => Ok(Asked::HasEnded(why)),
        }
    }
}
