//! Gets in memcached's binary protocol: a client in a closed loop, with so many packets unanswered on each connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;

use super::server::NetworkServer;

const CONNECTIONS: usize = 50;
const VALUE_LEN: usize = 100;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A packet's header, before extras, key and value.
const HEADER_LEN: usize = 24;
const GET: u8 = 0;
const SET: u8 = 1;
/// Flags, before the value.
const GET_EXTRAS_LEN: usize = 4;

/// The key of every get: the servers' work does not depend on it.
const KEY: &[u8] = b"key-of-16-bytes!";

/// A request's header, extras, key and value (protocol_binary.txt).
fn packet(opcode: u8, extras: &[u8], value: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADER_LEN];
    packet[0] = 0x80;
    packet[1] = opcode;
    packet[2..4].copy_from_slice(&(KEY.len() as u16).to_be_bytes());
    packet[4] = extras.len() as u8;
    let body = extras.len() + KEY.len() + value.len();
    packet[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    [&packet, extras, KEY, value].concat()
}

/// Requests per server CPU-second with `depth` unanswered gets on each connection.
pub(super) fn per_cpu_s(server: &NetworkServer, depth: usize, window: Duration) -> Result<f64> {
    store(&mut connect(server.port)?)?;
    let mut connections = (0..CONNECTIONS).map(|_| connect(server.port)).collect::<Result<Vec<_>>>()?;
    let requests = packet(GET, &[], &[]).repeat(depth);
    let mut replies = vec![0; (HEADER_LEN + GET_EXTRAS_LEN + VALUE_LEN) * depth];
    // All connections have requests on their way before the first reply is read, so that a server may gather them.
    let mut round = |connections: &mut [TcpStream]| -> Result<()> {
        for connection in &mut *connections {
            connection.write_all(&requests).context("send packets")?;
        }
        for connection in connections {
            connection.read_exact(&mut replies).context("receive packets")?;
            ensure!(
                replies[..2] == [0x81, GET] && replies[6..8] == [0, 0],
                "a get in a packet was not answered"
            );
        }
        Ok(())
    };
    round(&mut connections)?;
    let (began, before, mut rounds) = (clock::now(), server.cpu_s()?, 0_u64);
    while began.elapsed() < window {
        round(&mut connections)?;
        rounds += 1;
    }
    Ok((rounds * (CONNECTIONS * depth) as u64) as f64 / (server.cpu_s()? - before))
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Stores the value that is asked for.
fn store(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(&packet(SET, &[0; 8], &[b'x'; VALUE_LEN]))?;
    let mut reply = [0; HEADER_LEN];
    stream.read_exact(&mut reply).context("receive the reply to a set in a packet")?;
    ensure!(reply[6..8] == [0, 0], "a set in a packet was refused");
    Ok(())
}
