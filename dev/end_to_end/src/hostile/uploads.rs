//! Uploads: memory that is announced, held or half filled.

use std::io::{self, Write};
use std::time::Duration;

use super::target::Attack;

/// A size that `-I 32m` allows.
const LARGE: usize = 20_000_000;
static PIECE: [u8; 64 << 10] = [b'v'; 64 << 10];

pub(super) const IDLE_UPLOADS: Attack = Attack {
    name: "idle uploads",
    about: "100 connections announce a megabyte each and send nothing",
    round: |target| {
        let announce = |number| target.send(format!("set idle{number} 0 0 1000000\r\n").as_bytes());
        let connections = (0..100).map(announce).collect::<io::Result<Vec<_>>>()?;
        target.idle(Duration::from_secs(5));
        drop(connections);
        Ok(())
    },
};

pub(super) const DRIPPING_UPLOADS: Attack = Attack {
    name: "dripping uploads",
    about: "20 connections upload a megabyte each, a byte at a time",
    round: |target| {
        let announce = |number| target.send(format!("set drip{number} 0 0 1000000\r\n").as_bytes());
        let mut connections = (0..20).map(announce).collect::<io::Result<Vec<_>>>()?;
        for _ in 0..100 {
            target.idle(Duration::from_millis(50));
            connections.iter_mut().try_for_each(|connection| connection.write_all(b"v"))?;
        }
        Ok(())
    },
};

pub(super) const LARGE_VALUES: Attack = Attack {
    name: "large values",
    about: "a value of 20 MB is stored and never asked for again, under four names in turn",
    round: |target| {
        for number in 0..4 {
            let mut connection = target.send(format!("set large{number} 0 0 {LARGE}\r\n").as_bytes())?;
            pour(&mut connection, LARGE)?;
            connection.write_all(b"\r\nmn\r\n")?;
            target.idle(Duration::from_secs(1));
        }
        Ok(())
    },
};

pub(super) const HEADERS_OF_LARGE_VALUES: Attack = Attack {
    name: "large headers",
    about: "announces 20 MB and disconnects, to make the server evict in vain",
    round: |target| target.send(format!("set headers 0 0 {LARGE}\r\n").as_bytes()).map(drop),
};

pub(super) const APPENDS_THAT_DO_NOT_FIT: Attack = Attack {
    name: "appends",
    about: "appends to a value until it does not fit, which must not lose it",
    round: |target| {
        let half = LARGE / 4 * 3;
        let mut connection = target.send(format!("set appended 0 0 {half}\r\n").as_bytes())?;
        pour(&mut connection, half)?;
        connection.write_all(format!("\r\nappend appended 0 0 {LARGE}\r\n").as_bytes())?;
        pour(&mut connection, LARGE)?;
        connection.write_all(b"\r\n")?;
        target.ask(b"mn\r\n", b"MN\r\n")?;
        target.idle(Duration::from_secs(2));
        Ok(())
    },
};

pub(super) const APPENDS_TO_LARGE_VALUES: Attack = Attack {
    name: "large appends",
    about: "appends a byte to a value of 15 MB, again and again, so that all of it is copied",
    round: |target| {
        let len = LARGE / 4 * 3;
        let mut connection = target.send(format!("set joined 0 0 {len}\r\n").as_bytes())?;
        pour(&mut connection, len)?;
        connection.write_all(b"\r\n")?;
        for _ in 0..10 {
            target.ask(b"append joined 0 0 1\r\nv\r\nmn\r\n", b"MN\r\n")?;
        }
        target.idle(Duration::from_secs(1));
        Ok(())
    },
};

fn pour(connection: &mut impl Write, len: usize) -> io::Result<()> {
    let mut left = len;
    while left > 0 {
        let some = left.min(PIECE.len());
        connection.write_all(&PIECE[..some])?;
        left -= some;
    }
    Ok(())
}
