//! One server at the addresses of all: the whole of 127.0.0.0/8 is the loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::fleet::Fleet;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::operator::Operator;
use super::{MEMBERS_PER_REQUEST, names};

/// The kernel gives a free port.
const ANY_PORT: u16 = 0;

/// Answers probes on a thread of its own, and puts so many members into the inventory. Returns how many there are.
pub(super) fn begin(fleet: &Fleet, count: usize) -> Result<usize> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, ANY_PORT)).context("listen")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("servers".to_owned())
        .spawn(move || runtime.block_on(serve(listener)))?;
    let operator = Operator::of(fleet)?;
    let members: Vec<Value> = (0..count).map(|number| member(number, port)).collect();
    for part in members.chunks(MEMBERS_PER_REQUEST) {
        operator.post("/v1/members", &json!({"members": part, "remove": [], "why": "measured"}))?;
    }
    Ok(count)
}

fn member(number: usize, port: u16) -> Value {
    let (host, zone) = names(number);
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number as u32);
    json!({"id": format!("m{number}"), "host": host, "zone": zone, "address": format!("{address}:{port}")})
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
