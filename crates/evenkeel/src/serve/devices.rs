//! Devices of the flash tier at the start: a block device belongs to root, and files are opened as the user that the server becomes.

use std::fs::File;
use std::io;
use std::path::Path;

use flash::{Devices, OpeningDevices};
use os::DirectoryEntry;
use rustix::fs::{Mode, OFlags};
use server::options::FlashOptions;

use super::lines::notice;
use crate::failure::Failure;

/// The devices, as far as root has them.
pub(super) enum DevicesAtStart {
    /// There is no flash tier.
    None,
    /// All of them are those of the server that is taken over.
    Handed(Devices),
    /// Block devices, if this is root; files are to be opened.
    Opening(OpeningDevices),
}

impl DevicesAtStart {
    pub(super) fn handed(devices: Option<Devices>) -> DevicesAtStart {
        devices.map_or(DevicesAtStart::None, DevicesAtStart::Handed)
    }

    /// Opens the block devices of the flash tier, if there is one.
    pub(super) fn open_block_devices(options: &FlashOptions) -> Result<DevicesAtStart, Failure> {
        if !options.is_on() {
            return Ok(DevicesAtStart::None);
        }
        let opened = Devices::open_block_devices(&options.paths, options.segment_bytes, &open_path);
        opened.map(DevicesAtStart::Opening).map_err(Failure::other)
    }

    /// Opens the rest of the devices, which are files.
    pub(super) fn open_files(self) -> Result<Option<Devices>, Failure> {
        let opening = match self {
            DevicesAtStart::None => return Ok(None),
            DevicesAtStart::Handed(devices) => return Ok(Some(devices)),
            DevicesAtStart::Opening(opening) => opening,
        };
        let (devices, warnings) = opening.open_files(&open_path).map_err(Failure::other)?;
        warnings.iter().for_each(|line| notice(line));
        Ok(Some(devices))
    }
}

/// A device's path usually leads over links, as in /dev/disk.
fn open_path(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    DirectoryEntry::behind_links(path)?.open(flags, mode.as_raw_mode())
}
