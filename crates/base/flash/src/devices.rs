//! The devices of a flash tier, by number, as a disk.

use crate::device::{Device, OpenPath, OpenedDevice, look};
use crate::disk::{Disk, assert_aligned, beyond_the_end, is_within, no_space_beyond_the_end, no_such_device};
use crate::error::OpenError;
use crate::identity::FileIdentity;
use crate::specification::PathSpecification;
use crate::transfer::{read_all, write_all};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// Devices, numbered in the order in which they were named.
#[derive(Debug)]
pub struct Devices(Vec<Device>);

impl Devices {
    /// Opens all of them, or none. Returns sentences for people, too: all devices work in spite of them.
    ///
    /// # Panics
    /// If `page_bytes` is not a multiple of 4096, or 0.
    pub fn open(
        specifications: &[PathSpecification],
        page_bytes: u64,
        open: OpenPath<'_>,
    ) -> Result<(Devices, Vec<String>), OpenError> {
        Devices::open_block_devices(specifications, page_bytes, open)?.open_files(open)
    }

    /// Opens those that are block devices: they belong to root, which may become another user before it opens the rest.
    ///
    /// # Panics
    /// As [`Devices::open`].
    pub fn open_block_devices(
        specifications: &[PathSpecification],
        page_bytes: u64,
        open: OpenPath<'_>,
    ) -> Result<OpeningDevices, OpenError> {
        let opened = specifications.iter().map(|_| None).collect();
        let mut opening = OpeningDevices { specifications: specifications.to_vec(), page_bytes, opened };
        // What cannot be looked at is not one.
        opening.open_where(open, |path| {
            look(path, open).is_ok_and(|found| found.file_type().is_block_device())
        })?;
        Ok(opening)
    }

    /// Takes over what another process has opened as these, in this order ([`Device::adopt`]).
    pub fn adopt(
        specifications: &[PathSpecification],
        page_bytes: u64,
        files: impl IntoIterator<Item = File>,
    ) -> Result<Devices, OpenError> {
        let adopted = specifications.iter().zip(files);
        let adopted = adopted.map(|(specification, file)| Device::adopt(specification, page_bytes, file));
        adopted.collect::<Result<_, _>>().map(Devices)
    }

    fn device(&self, number: usize) -> io::Result<&Device> {
        self.0.get(number).ok_or_else(no_such_device)
    }
}

/// Devices of a tier of which some are open.
#[derive(Debug)]
pub struct OpeningDevices {
    specifications: Vec<PathSpecification>,
    page_bytes: u64,
    opened: Vec<Option<OpenedDevice>>,
}

impl OpeningDevices {
    /// Opens the rest.
    pub fn open_files(mut self, open: OpenPath<'_>) -> Result<(Devices, Vec<String>), OpenError> {
        self.open_where(open, |_| true)?;
        let (mut devices, mut warnings) = (Vec::new(), Vec::new());
        for OpenedDevice { device, warnings: more } in self.opened.into_iter().flatten() {
            devices.push(device);
            warnings.extend(more);
        }
        Ok((Devices(devices), warnings))
    }

    fn open_where(&mut self, open: OpenPath<'_>, is_meant: impl Fn(&Path) -> bool) -> Result<(), OpenError> {
        for number in 0..self.opened.len() {
            let specification = &self.specifications[number];
            if self.opened[number].is_some() || !is_meant(&specification.path) {
                continue;
            }
            // Before it is opened, which would fail because it is in use: here is known by whom.
            if let Some(first) = self.same_as(specification, open) {
                let (first, path) = (first.path().to_owned(), specification.path.clone());
                return Err(OpenError::Twice { first, path });
            }
            self.opened[number] = Some(Device::open(specification, self.page_bytes, open)?);
        }
        Ok(())
    }

    /// The device that the path of another one leads to as well.
    fn same_as(&self, specification: &PathSpecification, open: OpenPath<'_>) -> Option<&Device> {
        let metadata = look(&specification.path, open).ok()?;
        let identity = FileIdentity::of(&metadata, &specification.path).ok()?;
        let mut opened = self.opened.iter().flatten().map(|opened| &opened.device);
        opened.find(|device| device.identity() == identity)
    }
}

impl Deref for Devices {
    type Target = [Device];

    fn deref(&self) -> &[Device] {
        &self.0
    }
}

impl Disk for Devices {
    fn read(&self, device: usize, position: u64, bytes: &mut [u8]) -> io::Result<()> {
        assert_aligned(position, bytes);
        let device = self.device(device)?;
        if !is_within(position, bytes.len(), device.bytes()) {
            return Err(beyond_the_end());
        }
        read_all(bytes, position, |rest, position| device.descriptor().read_at(rest, position))
    }

    fn write(&self, device: usize, position: u64, bytes: &[u8]) -> io::Result<()> {
        assert_aligned(position, bytes);
        let device = self.device(device)?;
        if !is_within(position, bytes.len(), device.bytes()) {
            return Err(no_space_beyond_the_end());
        }
        write_all(bytes, position, |rest, position| device.descriptor().write_at(rest, position))
    }
}
