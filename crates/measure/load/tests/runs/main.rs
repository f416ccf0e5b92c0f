//! Whole runs of the load generator: against scripted servers and against memcached.

mod churn;
mod hostile;
mod memcached;
mod open;
mod packets;
mod probes;
mod recording;
mod scripted;
mod support;
mod tls;
mod udp;
