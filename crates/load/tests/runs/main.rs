//! Whole runs of the load generator: against a scripted server and against memcached.

mod churn;
mod memcached;
mod open;
mod scripted;
mod support;
mod tls;
mod udp;
