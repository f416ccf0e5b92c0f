//! Questions to a Prometheus over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Prometheus that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prometheus {
    pub(super) address: SocketAddr,
}

impl Prometheus {
    /// The figures of an expression, now.
    ///
    /// # Errors
    /// What Prometheus says against the expression, or a connection that fails.
    pub(super) fn figures(&self, expression: &str) -> Result<Vec<f64>> {
        let data = self.data(&format!("/api/v1/query?query={}", escaped(expression)))?;
        let result = data["result"].as_array().context("a result")?;
        let value = |pair: &Value| pair[1].as_str().and_then(|text| text.parse().ok());
        if data["resultType"] == "scalar" {
            return Ok(value(&data["result"]).into_iter().collect());
        }
        Ok(result.iter().filter_map(|series| value(&series["value"])).collect())
    }

    /// The field `data` of an answer.
    ///
    /// # Errors
    /// As for [`Prometheus::figures`].
    pub(super) fn data(&self, path: &str) -> Result<Value> {
        let body = get(self.address, path)?;
        let mut answer: Value = serde_json::from_str(&body).with_context(|| format!("read {body}"))?;
        if answer["status"] != "success" {
            bail!("{}", answer["error"].as_str().unwrap_or(&body));
        }
        Ok(answer["data"].take())
    }
}

/// The body of a page.
///
/// # Errors
/// If there is no answer within [`PATIENCE`].
pub(super) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // With 1.0 the end of the connection is the end of the body.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (_, body) = reply.split_once("\r\n\r\n").context("a head")?;
    Ok(body.to_owned())
}

fn escaped(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}
