//! Sockets: listening, accepted and dialled ones, those of datagrams, and their options.

pub(crate) mod accept_queue;
pub mod address;
pub mod datagram;
pub(crate) mod datagram_sockets;
pub(crate) mod fast_open;
pub(crate) mod inherited;
pub mod listener;
pub(crate) mod napi_id;
pub(crate) mod receive_stamp;
pub mod segments;
pub(crate) mod socket_option;
