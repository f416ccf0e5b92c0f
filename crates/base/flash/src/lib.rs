//! Files and block devices of a flash tier: opened, checked, locked, read and written in whole pages of 4096 bytes.
//!
//! What lies in the pages is the business of others: there is no key, no item and no cache here, no clock and no thread.
//!
//! ```text
//! "FILE:SIZE[:BUCKET]".parse() -> PathSpecification         extstore's ext_path
//! Devices::open(&[PathSpecification], page_bytes, open) -> (Devices, warnings)
//! Device::open(&PathSpecification, page_bytes, open) -> OpenedDevice
//!
//! Disk::read(device, position, &mut bytes)                  blocking, all of it or an error; `Devices` does it,
//! Disk::write(device, position, &bytes)                     and for tests `faulty::MemoryDisk`
//! AlignedBytes::zeroed(len)                                 memory for both
//! ```

mod aligned_bytes;
mod alignment;
mod allocation;
mod device;
mod devices;
mod disk;
mod error;
pub mod faulty;
mod identity;
mod specification;
mod transfer;

pub use aligned_bytes::AlignedBytes;
pub use device::{Device, OpenedDevice};
pub use devices::{Devices, OpeningDevices};
pub use disk::{Disk, PAGE_BYTES};
pub use error::OpenError;
pub use specification::{Bucket, PathSpecification};
