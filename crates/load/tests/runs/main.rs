//! Whole runs of the load generator: against a scripted server and against memcached.

mod churn;
mod memcached;
mod open;
mod probes;
mod recording;
mod scripted;
mod support;
mod tls;
mod udp;
