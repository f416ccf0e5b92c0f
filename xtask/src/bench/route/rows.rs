//! Rows of the comparison of proxies: what the load sends.

/// One row of the table.
#[derive(Debug)]
pub(super) struct RouteRow {
    pub(super) name: &'static str,
    /// Words for `evenkeel load`.
    pub(super) words: &'static [&'static str],
    /// In the meta protocol, which not every proxy speaks.
    pub(super) is_meta: bool,
}

/// All rows: 50 clients, values of 100 bytes.
pub(super) static ROUTE_ROWS: [RouteRow; 5] = [
    RouteRow { name: "get-d1", words: &["--depth", "1"], is_meta: false },
    RouteRow { name: "get-d16", words: &["--depth", "16"], is_meta: false },
    // The null proxy sends all keys to one server, so it is a bound that nobody who splits can reach.
    RouteRow { name: "multiget-20", words: &["--multiget", "20"], is_meta: false },
    RouteRow { name: "set-d16", words: &["--gets", "0", "--depth", "16"], is_meta: false },
    RouteRow { name: "mg-d16", words: &["--protocol", "meta", "--depth", "16"], is_meta: true },
];
