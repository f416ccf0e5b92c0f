//! The flags of `evenkeel route`: mcrouter's, and a few of our own.
//!
//! There is one table, in a file per section; the crate `flags` parses it and prints its help. [`getopt`] reads what
//! mcrouter's command lines have beyond that: switches with a value, and names that no version knows.

mod choices;
mod entry;
mod getopt;
mod health;
mod network;
mod options;
mod routing;
#[cfg(test)]
mod tests;
mod tls;
mod tls_clients;
mod tls_options;
mod without;

pub use ::flags::{Effect, Error};
use ::flags::{Section, Table};

pub use entry::RouteFlag;
pub use getopt::known;
pub use options::{ConfigSource, RouteOptions, Validate};
pub use tls_options::RouteTlsOptions;

/// The table.
pub static TABLE: Table<RouteOptions> = Table {
    verb: "route",
    about: "Route requests to servers; takes mcrouter's own flags and configuration",
    sections: &[
        Section { title: "Network", flags: network::FLAGS, options: &[] },
        Section { title: "Routing", flags: routing::FLAGS, options: &[] },
        Section { title: "Servers", flags: health::FLAGS, options: &[] },
        Section { title: "TLS to servers", flags: tls::FLAGS, options: &[] },
        Section { title: "TLS of clients", flags: tls_clients::FLAGS, options: &[] },
        Section { title: "Operations", flags: choices::FLAGS, options: &[] },
        Section { title: "mcrouter's others", flags: without::FLAGS, options: &[] },
    ],
    extended: None,
};
