//! Costs of requests to a server, as measured on one machine.

use super::{CpuArchitecture, InputFigure};

/// Costs of requests. Times are CPU time of the server in µs, the kernel's work for it included.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestCosts {
    /// Where they were measured.
    pub architecture: CpuArchitecture,
    /// The clock at which they were measured, in GHz.
    pub clock_ghz: InputFigure,
    /// A get of 100 bytes that comes alone.
    pub get_us: InputFigure,
    /// The same of one among 16 that come together.
    pub get_of_16_us: InputFigure,
    /// A get of 4 KiB that comes alone.
    pub get_4k_us: InputFigure,
    /// A get of 64 KiB that comes alone.
    pub get_64k_us: InputFigure,
    /// A set of 100 bytes that comes alone.
    pub set_us: InputFigure,
    /// The same of one among 16.
    pub set_of_16_us: InputFigure,
    /// A set of 4 KiB that comes alone.
    pub set_4k_us: InputFigure,
    /// A set of 64 KiB that comes alone.
    pub set_64k_us: InputFigure,
    /// A delete that comes alone.
    pub delete_us: InputFigure,
    /// A get of 16 keys.
    pub multiget_16_us: InputFigure,
    /// A get of 100 keys.
    pub multiget_100_us: InputFigure,
    /// A get of 100 bytes over TLS that comes alone.
    pub tls_get_us: InputFigure,
    /// The same of one among 16.
    pub tls_get_of_16_us: InputFigure,
    /// A get of 4 KiB over TLS that comes alone.
    pub tls_get_4k_us: InputFigure,
    /// A get of 64 KiB over TLS that comes alone.
    pub tls_get_64k_us: InputFigure,
    /// A get of 100 bytes over UDP.
    pub udp_get_us: InputFigure,
    /// A get of 4 KB from flash that comes alone.
    pub flash_get_us: InputFigure,
    /// Bytes of memory of an item besides key and value, but for its entry in the index.
    pub record_bytes: InputFigure,
    /// Bytes of memory of an item's entry in the index.
    pub index_bytes: InputFigure,
    /// Bytes of memory of an item on flash.
    pub flash_item_bytes: InputFigure,
    /// Bytes written to flash for each byte that leaves memory.
    pub flash_write_amplification: InputFigure,
    /// Reads of the disk for a hit on flash, or for a read of another data server.
    pub disk_reads_per_read: InputFigure,
    /// Random writes of the disk for a set. A cache's are sequential and count by their bytes: 0.
    pub disk_writes_per_set: InputFigure,
    /// The 99th percentile of a read of flash beside writes, in µs, where that of a shape is not known.
    pub flash_p99_us: InputFigure,
}

/// Bytes of the values with which most costs were measured.
const SMALL_BYTES: f64 = 100.0;
/// What else was measured, in bytes.
const SIZES: (f64, f64) = (4096.0, 65536.0);
/// Requests that came together in the measurement of pipelines.
const TOGETHER: f64 = 16.0;

/// A cost with a part for the system calls of a batch, and a part for each request in it: `each + batch ÷ requests in the batch`.
struct BatchedCost {
    each: f64,
    batch: f64,
}

impl BatchedCost {
    /// From the cost of one alone, and of one among 16.
    fn of(alone: f64, of_16: f64) -> BatchedCost {
        let batch = ((alone - of_16) / (1.0 - 1.0 / TOGETHER)).max(0.0);
        BatchedCost { each: (alone - batch).max(0.0), batch }
    }

    fn at(&self, together: f64) -> f64 {
        self.each + self.batch / together
    }
}

/// What a request costs by the size of its value: a line through the sizes that were measured, and on behind the last.
struct SizeCost {
    small: f64,
    page: f64,
    large: f64,
}

impl SizeCost {
    fn of(small: &InputFigure, page: &InputFigure, large: &InputFigure) -> SizeCost {
        SizeCost { small: small.value, page: page.value, large: large.value }
    }

    /// What the bytes of a value add to those of a small one.
    fn beyond_small(&self, value_bytes: f64) -> f64 {
        let (page, large) = SIZES;
        let to_page = (self.page - self.small) / (page - SMALL_BYTES);
        let to_large = (self.large - self.page) / (large - page);
        let below = (value_bytes.min(page) - SMALL_BYTES).max(0.0);
        let above = (value_bytes - page).max(0.0);
        (below * to_page + above * to_large).max(0.0)
    }
}

impl RequestCosts {
    /// A get of one key of this size, `together` with others.
    pub(super) fn get(&self, value_bytes: f64, together: f64) -> f64 {
        BatchedCost::of(self.get_us.value, self.get_of_16_us.value).at(together)
            + self.of_get_size(value_bytes)
    }

    /// A set of this size, `together` with others.
    pub(super) fn set(&self, value_bytes: f64, together: f64) -> f64 {
        let of_size = SizeCost::of(&self.set_us, &self.set_4k_us, &self.set_64k_us);
        BatchedCost::of(self.set_us.value, self.set_of_16_us.value).at(together)
            + of_size.beyond_small(value_bytes)
    }

    /// A delete. Those that come together share system calls as sets do.
    pub(super) fn delete(&self, together: f64) -> f64 {
        let share = self.set_of_16_us.value / self.set_us.value;
        BatchedCost::of(self.delete_us.value, self.delete_us.value * share).at(together)
    }

    /// A get of several keys: a part for the request, and a part for each key.
    pub(super) fn multiget(&self, keys: f64, value_bytes: f64) -> f64 {
        let (few, many) = (self.multiget_16_us.value, self.multiget_100_us.value);
        let per_key = ((many - few) / (100.0 - TOGETHER)).max(0.0);
        let request = (few - TOGETHER * per_key).max(0.0);
        request + keys * (per_key + self.of_get_size(value_bytes))
    }

    /// What encryption adds to a request that comes or goes with this many bytes of values, which are a get's or a set's alike.
    pub(super) fn tls(&self, value_bytes: f64, together: f64) -> f64 {
        let plain = BatchedCost::of(self.get_us.value, self.get_of_16_us.value);
        let tls = BatchedCost::of(self.tls_get_us.value, self.tls_get_of_16_us.value);
        let of_size = SizeCost::of(&self.tls_get_us, &self.tls_get_4k_us, &self.tls_get_64k_us);
        let bytes = of_size.beyond_small(value_bytes) - self.of_get_size(value_bytes);
        (tls.at(together) - plain.at(together) + bytes).max(0.0)
    }

    /// What UDP adds to a get that comes alone; less than nothing, if a datagram costs less.
    pub(super) fn udp(&self) -> f64 {
        self.udp_get_us.value - self.get_us.value
    }

    /// What a hit on flash adds to one in memory.
    pub(super) fn flash(&self) -> f64 {
        (self.flash_get_us.value - self.get_4k_us.value).max(0.0)
    }

    fn of_get_size(&self, value_bytes: f64) -> f64 {
        SizeCost::of(&self.get_us, &self.get_4k_us, &self.get_64k_us).beyond_small(value_bytes)
    }
}
