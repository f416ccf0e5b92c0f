//! Rows of the comparison of proxies: what the load sends.

/// One row of the table.
#[derive(Debug)]
pub(super) struct RouteRow {
    pub(super) name: &'static str,
    /// Words for `evenkeel load`.
    pub(super) words: &'static [&'static str],
}

/// All rows: 50 clients, values of 100 bytes.
pub(super) static ROUTE_ROWS: [RouteRow; 5] = [
    RouteRow { name: "get-d1", words: &["--depth", "1"] },
    RouteRow { name: "get-d16", words: &["--depth", "16"] },
    // The null proxy sends all keys to one server, so it is a bound that nobody who splits can reach.
    RouteRow { name: "multiget-20", words: &["--multiget", "20"] },
    RouteRow { name: "set-d16", words: &["--gets", "0", "--depth", "16"] },
    RouteRow { name: "mg-d16", words: &["--protocol", "meta", "--depth", "16"] },
];
