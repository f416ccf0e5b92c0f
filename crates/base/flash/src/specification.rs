//! Paths of a flash tier as the command line names them: extstore's `ext_path=FILE:SIZE[:BUCKET]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A file or block device, how much of it may be used, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpecification {
    /// A file, which is created if there is none, or a block device.
    pub path: PathBuf,
    /// How many bytes of it may be used.
    pub bytes: u64,
    /// What is written to it first.
    pub bucket: Bucket,
}

/// What a path is for, by extstore's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Anything.
    #[default]
    Default,
    /// What was kept when a page was emptied.
    Compact,
    /// What expires soon.
    LowTtl,
    /// What is large.
    Chunked,
    /// What was kept although it was not read.
    ColdCompact,
    /// What is old.
    Old,
}

/// A text that is no path of a flash tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecificationError {
    /// There is no size.
    #[error("use `{0}` as a path of the flash tier: it has no size\n  {HINT}")]
    NoSize(String),
    /// There is no file before the size.
    #[error("use `{0}` as a path of the flash tier: it names no file\n  {HINT}")]
    NoFile(String),
    /// The size is not one.
    #[error(
        "use `{found}` as the size of a path of the flash tier: a whole number with m, g, t or p is accepted, in units of \
         1024\n  {HINT}"
    )]
    Size {
        /// What stands in its place.
        found: String,
    },
    /// A size of 0.
    #[error("use `{found}` as the size of a path of the flash tier: it is zero\n  {HINT}")]
    Zero {
        /// What stands in its place.
        found: String,
    },
    /// A size that no file has.
    #[error("use `{found}` as the size of a path of the flash tier: less than 8192p is accepted\n  {HINT}")]
    TooLarge {
        /// What stands in its place.
        found: String,
    },
    /// The bucket is not one.
    #[error(
        "use `{found}` as the bucket of a path of the flash tier: {} are accepted\n  {HINT}",
        bucket_names()
    )]
    Bucket {
        /// What stands in its place.
        found: String,
    },
}

const HINT: &str =
    "hint: write FILE:SIZE or FILE:SIZE:BUCKET, for example /dev/nvme0n1p1:800g or /flash/cache:64g:default";

impl Bucket {
    /// All of them, in the order of extstore's documentation.
    pub const ALL: [Bucket; 6] =
        [Bucket::Default, Bucket::Compact, Bucket::LowTtl, Bucket::Chunked, Bucket::ColdCompact, Bucket::Old];

    /// Its name in `ext_path` and in `stats extstore`.
    pub fn name(self) -> &'static str {
        match self {
            Bucket::Default => "default",
            Bucket::Compact => "compact",
            Bucket::LowTtl => "lowttl",
            Bucket::Chunked => "chunked",
            Bucket::ColdCompact => "coldcompact",
            Bucket::Old => "old",
        }
    }

    /// As memcached compares them, a name in capitals is none.
    fn named(name: &str) -> Option<Bucket> {
        Bucket::ALL.into_iter().find(|bucket| bucket.name() == name)
    }
}

fn bucket_names() -> String {
    Bucket::ALL.map(Bucket::name).join(", ")
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As it is read.
impl fmt::Display for PathSpecification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shift =
            UNITS.iter().map(|(_, shift)| *shift).rev().find(|shift| self.bytes.is_multiple_of(1 << shift));
        let (unit, shift) = shift.map_or(("", 0), |shift| (unit_name(shift), shift));
        write!(f, "{}:{}{unit}:{}", self.path.display(), self.bytes >> shift, self.bucket)
    }
}

/// Suffixes of sizes, and the powers of two for which they stand. A size without one is refused, as in memcached, where its
/// last digit would be taken for one.
const UNITS: [(&str, u32); 4] = [("m", 20), ("g", 30), ("t", 40), ("p", 50)];

fn unit_name(shift: u32) -> &'static str {
    UNITS.iter().find(|(_, other)| *other == shift).map_or("", |(name, _)| name)
}

impl FromStr for PathSpecification {
    type Err = SpecificationError;

    /// Reads from the right, as the file's name may contain `:`: the last part is a size, or the one before it is and the
    /// last is a bucket.
    fn from_str(text: &str) -> Result<PathSpecification, SpecificationError> {
        let Some((front, last)) = text.rsplit_once(':') else {
            return Err(SpecificationError::NoSize(text.to_owned()));
        };
        let (file, size, bucket) = match front.rsplit_once(':') {
            Some((file, size))
                if !looks_like_a_size(last) && (looks_like_a_size(size) || Bucket::named(last).is_some()) =>
            {
                let bucket = Bucket::named(last)
                    .ok_or_else(|| SpecificationError::Bucket { found: last.to_owned() })?;
                (file, size, bucket)
            }
            None if Bucket::named(last).is_some() => return Err(SpecificationError::NoSize(text.to_owned())),
            _ => (front, last, Bucket::Default),
        };
        if file.is_empty() {
            return Err(SpecificationError::NoFile(text.to_owned()));
        }
        Ok(PathSpecification { path: PathBuf::from(file), bytes: size_bytes(size)?, bucket })
    }
}

/// Whether a part can be nothing but a size, be it one that is refused: `64m`, `64`, `64k`, `0.5g`, `64mb`.
fn looks_like_a_size(part: &str) -> bool {
    part.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
}

fn size_bytes(text: &str) -> Result<u64, SpecificationError> {
    let wrong = || SpecificationError::Size { found: text.to_owned() };
    let (end, _) = text.char_indices().next_back().ok_or_else(wrong)?;
    let (digits, unit) = text.split_at(end);
    let (_, shift) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).ok_or_else(wrong)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let too_large = || SpecificationError::TooLarge { found: text.to_owned() };
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    // Positions in files are signed.
    let bytes =
        number.checked_mul(1 << shift).filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(too_large)?;
    match bytes {
        0 => Err(SpecificationError::Zero { found: text.to_owned() }),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, path: &str, bytes: u64, bucket: Bucket) {
        let expected = PathSpecification { path: path.into(), bytes, bucket };
        let read: PathSpecification = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read, expected, "{text}");
        assert_eq!(read.to_string().parse(), Ok(expected), "{read} is what {text} means");
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let error = text.parse::<PathSpecification>().expect_err(text).to_string();
        let (message, hint) = error.split_once('\n').expect("a hint");
        assert_eq!(message, expected, "{text}");
        assert_eq!(hint.trim_start(), HINT);
    }

    #[test]
    fn a_size_has_a_unit_of_1024_in_either_case() {
        for (unit, bytes) in [('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40), ('p', 1 << 50)] {
            check(&format!("/a:3{unit}"), "/a", 3 * bytes, Bucket::Default);
            check(&format!("/a:64{}", unit.to_ascii_uppercase()), "/a", 64 * bytes, Bucket::Default);
        }
        check("/a:8191p", "/a", 8191 << 50, Bucket::Default);
        check("/a:007m", "/a", 7 << 20, Bucket::Default);
    }

    #[test]
    fn a_bucket_may_follow() {
        for bucket in Bucket::ALL {
            check(&format!("a/b:64m:{bucket}"), "a/b", 64 << 20, bucket);
        }
    }

    #[test]
    fn a_file_may_have_colons_in_its_name() {
        check(
            "/dev/disk/by-path/pci-0000:00:04.0:1g",
            "/dev/disk/by-path/pci-0000:00:04.0",
            1 << 30,
            Bucket::Default,
        );
        check("/dev/disk/by-path/pci-0000:00:1g:old", "/dev/disk/by-path/pci-0000:00", 1 << 30, Bucket::Old);
        check("/a:1g:2g", "/a:1g", 2 << 30, Bucket::Default);
        check("/a:old:2g", "/a:old", 2 << 30, Bucket::Default);
        check("::1m", ":", 1 << 20, Bucket::Default);
    }

    #[test]
    fn what_is_missing_is_named() {
        check_refused("", "use `` as a path of the flash tier: it has no size");
        check_refused("/a", "use `/a` as a path of the flash tier: it has no size");
        check_refused("/a:compact", "use `/a:compact` as a path of the flash tier: it has no size");
        check_refused(":64m", "use `:64m` as a path of the flash tier: it names no file");
        check_refused(":64m:old", "use `:64m:old` as a path of the flash tier: it names no file");
    }

    #[test]
    fn a_size_that_is_none_is_refused() {
        let wrong = |size: &str| {
            format!(
                "use `{size}` as the size of a path of the flash tier: a whole number with m, g, t or p is accepted, in \
                 units of 1024"
            )
        };
        for size in ["", "64", "64k", "m", "-1g", "+1g", "1 g", "0.5g", "64mb", "x", "64é", "é"] {
            check_refused(&format!("/a:{size}"), &wrong(size));
            check_refused(&format!("/a:{size}:old"), &wrong(size));
        }
        check_refused("/a:0g", "use `0g` as the size of a path of the flash tier: it is zero");
        for size in ["8192p", "16384p", "99999999999999999999m"] {
            let message =
                format!("use `{size}` as the size of a path of the flash tier: less than 8192p is accepted");
            check_refused(&format!("/a:{size}"), &message);
        }
    }

    #[test]
    fn a_bucket_that_is_none_is_refused() {
        for bucket in ["hot", "Old", "", "lowttl "] {
            check_refused(
                &format!("/a:64m:{bucket}"),
                &format!(
                    "use `{bucket}` as the bucket of a path of the flash tier: default, compact, lowttl, chunked, \
                     coldcompact, old are accepted"
                ),
            );
        }
    }
}
