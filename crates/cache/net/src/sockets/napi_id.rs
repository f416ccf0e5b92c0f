//! The receive queue of a connection's packets: an option of sockets.

use std::os::fd::AsFd;

use crate::sockets::socket_option;

/// The NAPI id of the queue that brought the last packet; `None` where there is none (loopback, unix sockets, an older
/// kernel).
pub(crate) fn incoming_napi_id(socket: impl AsFd) -> Option<u32> {
    let id = socket_option::number(socket, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID);
    id.ok().filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_this_machine_has_no_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a client");
        let (served, _) = listener.accept().expect("a connection");
        assert_eq!([incoming_napi_id(&client), incoming_napi_id(&served)], [None, None]);
    }

    #[test]
    fn what_is_no_socket_has_no_queue() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(incoming_napi_id(&reader), None);
    }
}
