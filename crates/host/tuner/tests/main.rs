//! Hosts made of files and of namespaces, and the one at hand.

mod devices;
mod hosts;
mod irqbalance;
mod live;
mod namespace;
mod queues;
#[path = "../../../evenkeel/tests/support/running.rs"]
mod running;
