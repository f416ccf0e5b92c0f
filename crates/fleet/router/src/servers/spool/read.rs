//! Reading records: lines that a router, ours or mcrouter, has written, and the refusal of everything else.

use protocol::Key;

use super::error::RecordError;
use super::scan::{Scanner, shown};

/// A host's name is at most this long, and so is a path here.
const HOST_LEN_MAX: usize = 255;

/// A delete that did not reach its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpooledDelete {
    /// The server as a configuration has it: `host:port`, `[address]:port`, `unix:/path`.
    pub server: String,
    /// A key, as `protocol` checks it, without a carriage return.
    pub key: Vec<u8>,
    /// Only in AS2.0: the pool, or the name of the log.
    pub pool: Option<String>,
}

/// Reads a line without its end.
///
/// # Errors
/// If it is anything but the record of one delete.
pub fn read_record(line: &[u8]) -> Result<SpooledDelete, RecordError> {
    let mut scanner = Scanner::new(line);
    scanner.take(b'[', "`[`")?;
    let format = scanner.text()?;
    let content = match &*format {
        b"AS1.0" => command,
        b"AS2.0" => object,
        other => return Err(RecordError::Format(shown(other))),
    };
    comma(&mut scanner)?;
    // The time of the delete.
    scanner.number()?;
    comma(&mut scanner)?;
    let kind = scanner.text()?;
    if kind != b"C" {
        return Err(RecordError::Command(format!("a record of the kind {}", shown(&kind))));
    }
    comma(&mut scanner)?;
    let delete = content(&mut scanner)?;
    scanner.take(b']', "`]`")?;
    scanner.end()?;
    Ok(delete)
}

fn comma(scanner: &mut Scanner<'_>) -> Result<(), RecordError> {
    scanner.take(b',', "`,`")
}

/// AS1.0: `["host", port, "delete key\r\n"]`
fn command(scanner: &mut Scanner<'_>) -> Result<SpooledDelete, RecordError> {
    scanner.take(b'[', "`[`")?;
    let host = scanner.text()?;
    comma(scanner)?;
    let port = scanner.number()?;
    comma(scanner)?;
    let command = scanner.text()?;
    scanner.take(b']', "`]`")?;
    let key = command.strip_prefix(b"delete ").and_then(|rest| rest.strip_suffix(b"\r\n"));
    let key = key.ok_or_else(|| RecordError::Command(shown(&command)))?;
    Ok(SpooledDelete { server: server(&host, port)?, key: checked(key)?, pool: None })
}

/// AS2.0: an object whose members come in any order, each once.
fn object(scanner: &mut Scanner<'_>) -> Result<SpooledDelete, RecordError> {
    let (mut place, mut pool, mut key) = (None, None, None);
    let (mut service, mut flavor, mut region, mut attributes) = (None, None, None, None);
    scanner.take(b'{', "`{`")?;
    loop {
        let name = scanner.text()?;
        let member = match &*name {
            b"h" => &mut place,
            b"p" => &mut pool,
            b"k" => &mut key,
            b"s" => &mut service,
            b"f" => &mut flavor,
            b"r" => &mut region,
            b"a" => &mut attributes,
            // It may change what the record means.
            other => return Err(RecordError::Command(format!("a record with a member {}", shown(other)))),
        };
        if member.is_some() {
            return Err(RecordError::Command(format!("a record with two members {}", shown(&name))));
        }
        scanner.take(b':', "`:`")?;
        *member = Some(match &*name {
            b"a" => scanner.skip().map(|()| Vec::new())?,
            _ => scanner.text()?,
        });
        if scanner.takes(b'}') {
            break;
        }
        scanner.take(b',', "`,` or `}`")?;
    }
    let place = place.ok_or(RecordError::Missing('h'))?;
    let pool = pool.ok_or(RecordError::Missing('p'))?;
    let key = key.ok_or(RecordError::Missing('k'))?;
    let at = place.windows(2).rposition(|pair| pair == b"]:").filter(|_| place.starts_with(b"["));
    let at = at.ok_or_else(|| RecordError::Server(shown(&place)))?;
    let port = std::str::from_utf8(&place[at + 2..]).unwrap_or_default();
    Ok(SpooledDelete {
        server: server(&place[1..at], port)?,
        key: checked(&key)?,
        pool: Some(String::from_utf8_lossy(&pool).into_owned()),
    })
}

/// The key, if it stays one on the wire. `protocol` allows a carriage return, as memcached does; other servers might end the
/// line there.
fn checked(key: &[u8]) -> Result<Vec<u8>, RecordError> {
    let is_key = Key::new(key).is_ok() && !key.contains(&b'\r');
    if is_key { Ok(key.to_vec()) } else { Err(RecordError::Key(shown(key))) }
}

/// A server's name from mcrouter's pair.
fn server(host: &[u8], port: &str) -> Result<String, RecordError> {
    let wrong = || RecordError::Server(format!("{} and {port}", shown(host)));
    let host = std::str::from_utf8(host).ok().filter(|host| (1..=HOST_LEN_MAX).contains(&host.len()));
    let host = host.filter(|host| !host.chars().any(char::is_control)).ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    match (host.starts_with('/'), port) {
        (true, 0) => Ok(format!("unix:{host}")),
        (true, _) | (false, 0) => Err(wrong()),
        (false, _) if host.contains([' ', '/', '[', ']']) => Err(wrong()),
        (false, port) if host.contains(':') => Ok(format!("[{host}]:{port}")),
        (false, port) => Ok(format!("{host}:{port}")),
    }
}

#[cfg(test)]
mod tests;
