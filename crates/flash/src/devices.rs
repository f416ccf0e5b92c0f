//! The devices of a flash tier, by number, as a disk.

use crate::device::{Device, OpenedDevice};
use crate::disk::{Disk, assert_aligned, beyond_the_end, is_within, no_space_beyond_the_end, no_such_device};
use crate::error::OpenError;
use crate::identity::FileIdentity;
use crate::specification::PathSpecification;
use crate::transfer::{read_all, write_all};
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;

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
    ) -> Result<(Devices, Vec<String>), OpenError> {
        let (mut devices, mut warnings) = (Vec::<Device>::new(), Vec::new());
        for specification in specifications {
            // Before it is opened, which would fail because it is in use: here is known by whom.
            if let Some(first) = same_as(&devices, specification) {
                let (first, path) = (first.path().to_owned(), specification.path.clone());
                return Err(OpenError::Twice { first, path });
            }
            let OpenedDevice { device, warnings: more } = Device::open(specification, page_bytes)?;
            devices.push(device);
            warnings.extend(more);
        }
        Ok((Devices(devices), warnings))
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

/// The device that the path of another one leads to as well.
fn same_as<'d>(devices: &'d [Device], specification: &PathSpecification) -> Option<&'d Device> {
    let metadata = fs::metadata(&specification.path).ok()?;
    let identity = FileIdentity::of(&metadata, &specification.path).ok()?;
    devices.iter().find(|device| device.identity() == identity)
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
