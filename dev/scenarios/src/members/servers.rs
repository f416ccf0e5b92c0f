//! One server at the addresses of all: the whole of 127.0.0.0/8 is the loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The kernel gives a free port.
const ANY_PORT: u16 = 0;

/// Answers probes on a thread of its own, at this port of every address.
pub(super) fn begin() -> Result<u16> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, ANY_PORT)).context("listen")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("servers".to_owned())
        .spawn(move || runtime.block_on(serve(listener)))?;
    Ok(port)
}

async fn serve(listener: std::net::TcpListener) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(answer(stream))),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn answer(mut stream: TcpStream) {
    let mut question = [0; 64];
    while matches!(stream.read(&mut question).await, Ok(len) if len > 0) {
        if stream.write_all(b"VERSION 1.6.45\r\n").await.is_err() {
            return;
        }
    }
}
