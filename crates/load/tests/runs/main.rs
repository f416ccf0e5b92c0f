//! Whole runs of the load generator: against a scripted server and against memcached.

mod memcached;
mod scripted;
mod support;
