//! A scripted server: a small memcached in a thread, whose replies a test can cut up or replace.

use clap::Parser;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

/// The summary of a run with these arguments, or what the run failed to do.
pub(crate) fn run(line: &str) -> Result<load::Summary, String> {
    load::run(&arguments(line), &mut std::io::sink()).map_err(|error| error.to_string())
}

pub(crate) fn arguments(line: &str) -> load::Arguments {
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: load::Arguments,
    }
    Command::parse_from(std::iter::once("load").chain(line.split_ascii_whitespace())).arguments
}

/// What a test changes: given the request line and the reply that belongs to it, the reply to send instead.
pub(crate) type Script = fn(&str, Vec<u8>) -> Vec<u8>;

/// Starts a server that sends at most `piece` bytes at a time; returns `--server` and its address.
pub(crate) fn server(piece: usize, script: Script) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let items = Items::default();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let items = Arc::clone(&items);
            // A run ends by closing its connections: then reading or writing fails, and that ends the thread.
            thread::spawn(move || {
                stream.set_nodelay(true)?;
                serve(stream, &items, piece, script)
            });
        }
    });
    format!("--server {address}")
}

pub(crate) type Items = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Answers on one connection until the client or the script closes it.
pub(crate) fn serve(
    stream: impl Read + Write,
    items: &Items,
    piece: usize,
    script: Script,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let request = line.trim_end().to_owned();
        line.clear();
        let words: Vec<&str> = request.split(' ').collect();
        let reply = script(&request, answer(&words, items, &mut reader)?);
        if reply == CLOSE {
            return Ok(());
        }
        for part in reply.chunks(piece) {
            reader.get_mut().write_all(part)?;
        }
    }
    Ok(())
}

/// A script's order that the server closes the connection.
pub(crate) const CLOSE: &[u8] = b"close";

pub(crate) fn answer(words: &[&str], items: &Items, body: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut items = items.lock().expect("no panic");
    let mut reply = Vec::new();
    match words {
        ["get", keys @ ..] => {
            for key in keys {
                if let Some(value) = items.get(*key) {
                    reply.extend(format!("VALUE {key} 0 {}\r\n", value.len()).bytes());
                    reply.extend_from_slice(value);
                    reply.extend_from_slice(b"\r\n");
                }
            }
            reply.extend_from_slice(b"END\r\n");
        }
        ["mg", key, flags @ ..] => match items.get(*key) {
            Some(value) => {
                reply.extend(format!("VA {}", value.len()).bytes());
                if flags.contains(&"k") {
                    reply.extend(format!(" k{key}").bytes());
                }
                reply.extend_from_slice(b"\r\n");
                reply.extend_from_slice(value);
                reply.extend_from_slice(b"\r\n");
            }
            None if flags.contains(&"q") => {}
            None => reply.extend_from_slice(b"EN\r\n"),
        },
        ["mn"] => reply.extend_from_slice(b"MN\r\n"),
        ["set", key, _, _, len] | ["ms", key, len] => {
            let len: usize = len.parse().expect("a length");
            let mut value = vec![0; len + 2];
            body.read_exact(&mut value)?;
            value.truncate(len);
            items.insert((*key).to_owned(), value);
            reply.extend_from_slice(if words[0] == "set" { b"STORED\r\n" } else { b"HD\r\n" });
        }
        _ => panic!("a request that no test sends: {words:?}"),
    }
    Ok(reply)
}
