//! Items on flash in a take-over: the devices are passed as descriptors, with their locks, and both servers must mean the same ones.

use std::fs::File;

use flash::{Devices, OpenError};
use serde::{Deserialize, Serialize};
use server::FlashSizes;
use server::options::FlashOptions;
use stdx::units::MIB;

/// A flash tier that is offered. Its devices' descriptors follow in the same order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FlashOffer {
    /// `ext_page_size`, in bytes.
    pub(super) segment_bytes: u64,
    /// Bytes that are written at once.
    pub(super) piece_bytes: u64,
    /// The memory limit of the first server that had these items, which decides about that.
    pub(super) limit_bytes: u64,
    pub(super) devices: Vec<DeviceOffer>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeviceOffer {
    /// Its name there, for messages.
    pub(super) path: String,
    /// Pages of it that are used.
    pub(super) segments: u64,
}

impl FlashOffer {
    pub(super) fn of(sizes: FlashSizes, options: &FlashOptions) -> FlashOffer {
        let FlashSizes { segment_bytes, piece_bytes, limit_bytes, segments } = sizes;
        let device = |(segments, path): (u64, &flash::PathSpecification)| DeviceOffer {
            path: path.path.display().to_string(),
            segments,
        };
        let devices = segments.into_iter().zip(&options.paths).map(device).collect();
        FlashOffer { segment_bytes, piece_bytes, limit_bytes, devices }
    }
}

/// The devices of a server's own options, from descriptors of those that the other server has open.
pub(super) fn adopt(
    own: &FlashOptions,
    offer: Option<&FlashOffer>,
    files: Vec<File>,
) -> Result<Option<Devices>, String> {
    let offer = match (own.is_on(), offer) {
        (false, None) => return Ok(None),
        (true, None) => return Err("-o ext_path: expected none, because it has no items on flash".to_owned()),
        (_, Some(offer)) => offer,
    };
    check_count(own, offer)?;
    let devices = Devices::adopt(&own.paths, own.segment_bytes, files);
    let devices = devices.map_err(|error| explain(&error, own, offer))?;
    check_sizes(own, offer)?;
    Ok(Some(devices))
}

fn check_count(own: &FlashOptions, offer: &FlashOffer) -> Result<(), String> {
    if own.paths.len() == offer.devices.len() {
        return Ok(());
    }
    let paths: Vec<&str> = offer.devices.iter().map(|device| device.path.as_str()).collect();
    let expected = match paths.len() {
        1 => paths[0].to_owned(),
        count => format!("the same {count} as it has ({}), in this order", paths.join(", ")),
    };
    let found = match own.paths.len() {
        0 => "none".to_owned(),
        1 => "1 path".to_owned(),
        count => format!("{count} paths"),
    };
    Err(format!("-o ext_path: expected {expected}, found {found}: it has items on flash"))
}

fn explain(error: &OpenError, own: &FlashOptions, offer: &FlashOffer) -> String {
    let OpenError::NotTheSame { path } = error else {
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        return format!("-o ext_path: {error}{source}");
    };
    let place = own.paths.iter().position(|own| own.path == *path).unwrap_or_default();
    let theirs = &offer.devices[place].path;
    if *theirs == path.display().to_string() {
        return format!(
            "-o ext_path: {theirs} was replaced since it has opened it: expected the same file or device"
        );
    }
    format!(
        "-o ext_path: expected the same paths in the same order, and {theirs} is its number {}, found {}",
        place + 1,
        path.display()
    )
}

fn check_sizes(own: &FlashOptions, offer: &FlashOffer) -> Result<(), String> {
    let differ = |option: &str, expected: u64, found: u64| {
        format!("-o {option}: expected {expected} as it has, found {found}")
    };
    if own.segment_bytes != offer.segment_bytes {
        return Err(differ("ext_page_size", offer.segment_bytes / MIB, own.segment_bytes / MIB));
    }
    let piece_bytes = own.piece_within(offer.limit_bytes);
    if piece_bytes != offer.piece_bytes {
        let expected = offer.piece_bytes;
        return Err(format!(
            "-o ext_wbuf_size: expected write buffers of {expected} bytes as it has, found {piece_bytes}"
        ));
    }
    for (path, device) in own.paths.iter().zip(&offer.devices) {
        let segments = path.bytes / own.segment_bytes;
        if segments != device.segments {
            let what = format!("ext_path={}, pages of {} MB", path.path.display(), own.segment_bytes / MIB);
            return Err(differ(&what, device.segments, segments));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of so many pages of 1 MB, with names of their own.
    struct Files(Vec<std::path::PathBuf>);

    impl Files {
        fn new(name: &str, count: usize) -> Files {
            let folder = std::env::temp_dir();
            let path = |number| folder.join(format!("evenkeel-adopt-{name}-{number}-{}", std::process::id()));
            let files: Vec<_> = (0..count).map(path).collect();
            files.iter().for_each(|path| std::fs::write(path, b"").expect("room"));
            Files(files)
        }

        fn options(&self, sizes: &[u64]) -> FlashOptions {
            let path = |(path, mib): (&std::path::PathBuf, &u64)| {
                format!("{}:{mib}m", path.display()).parse().expect("a path")
            };
            let paths = self.0.iter().zip(sizes).map(path).collect();
            FlashOptions { paths, segment_bytes: MIB, piece_bytes: MIB, ..FlashOptions::default() }
        }

        fn open(&self) -> Vec<File> {
            self.0.iter().map(|path| File::open(path).expect("a file")).collect()
        }

        fn offer(&self, sizes: &[u64]) -> FlashOffer {
            let sizes = FlashSizes {
                segment_bytes: MIB,
                piece_bytes: MIB,
                limit_bytes: 64 * MIB,
                segments: sizes.to_vec(),
            };
            FlashOffer::of(sizes, &self.options(&[9; 9]))
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            // If it fails, the files are in nobody's way.
            self.0.iter().for_each(|path| _ = std::fs::remove_file(path));
        }
    }

    #[track_caller]
    fn check(own: &FlashOptions, offer: Option<&FlashOffer>, files: Vec<File>, expected: &str) {
        let error = adopt(own, offer, files).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn only_the_same_devices_with_the_same_sizes_are_taken() {
        let two = Files::new("two", 2);
        let offer = two.offer(&[9, 5]);
        let devices = adopt(&two.options(&[9, 5]), Some(&offer), two.open()).expect("the same");
        assert_eq!(
            devices.expect("flash").iter().map(|device| device.bytes() / MIB).collect::<Vec<_>>(),
            [9, 5]
        );
        assert!(adopt(&FlashOptions::default(), None, Vec::new()).expect("no flash").is_none());
        check(&two.options(&[9, 5]), None, Vec::new(), "expected none, because it has no items on flash");
        check(
            &FlashOptions::default(),
            Some(&offer),
            two.open(),
            "in this order, found none: it has items on flash",
        );
        check(
            &two.options(&[9]),
            Some(&offer),
            two.open(),
            "in this order, found 1 path: it has items on flash",
        );
        check(
            &two.options(&[9, 6]),
            Some(&offer),
            two.open(),
            "pages of 1 MB: expected 5 as it has, found 6",
        );
        let other_page = FlashOptions { segment_bytes: 2 * MIB, ..two.options(&[9, 5]) };
        check(&other_page, Some(&offer), two.open(), "ext_page_size: expected 1 as it has, found 2");
        let offer = FlashOffer { limit_bytes: 1 << 30, piece_bytes: 4 * MIB, ..offer };
        check(
            &two.options(&[9, 5]),
            Some(&offer),
            two.open(),
            "buffers of 4194304 bytes as it has, found 1048576",
        );
    }

    #[test]
    fn another_order_and_a_file_that_was_replaced_are_seen() {
        let mut two = Files::new("order", 2);
        let offer = two.offer(&[9, 9]);
        let files = two.open();
        two.0.reverse();
        check(&two.options(&[9, 9]), Some(&offer), files, "expected the same paths in the same order");
        two.0.reverse();
        let files = two.open();
        let last = two.0.last().expect("two");
        // It stays open above, so its number is not given to the next one.
        std::fs::remove_file(last).and_then(|()| std::fs::write(last, b"")).expect("a folder");
        check(&two.options(&[9, 9]), Some(&offer), files, "was replaced since it has opened it");
        let files = two.open();
        std::fs::remove_file(last).expect("a folder");
        check(&two.options(&[9, 9]), Some(&offer), files, "No such file");
    }
}
