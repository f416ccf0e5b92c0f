//! Writing records.

/// A delete that did not reach its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolRecord<'a> {
    /// The server as configured: `host:port`, `[address]:port`, `unix:/path`.
    pub server: &'a str,
    /// The key as the server would have got it.
    pub key: &'a [u8],
    /// The name of the log: that of the pool, unless `asynclog_name` gives another.
    pub pool: &'a str,
}

/// The form of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolFormat {
    /// AS1.0: the server and the command.
    One,
    /// AS2.0 (`--use-asynclog-version2`): with the pool and where the record comes from.
    Two {
        /// `--service-name`
        service: String,
        /// The region of `--route-prefix`.
        region: String,
    },
}

/// Appends a record, as a line.
pub fn write_record(out: &mut Vec<u8>, record: &SpoolRecord<'_>, unix_ms: u64, format: &SpoolFormat) {
    let (host, port) = host_and_port(record.server);
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    match format {
        SpoolFormat::One => {
            out.extend_from_slice(format!(r#"["AS1.0",{seconds}.{ms:03},"C",["#).as_bytes());
            text(out, &[host.as_bytes()]);
            out.extend_from_slice(format!(",{port},").as_bytes());
            text(out, &[b"delete ", record.key, b"\r\n"]);
            out.extend_from_slice(b"]]\n");
        }
        SpoolFormat::Two { service, region } => {
            out.extend_from_slice(format!(r#"["AS2.0",{seconds}.{ms:03},"C",{{"s":"#).as_bytes());
            text(out, &[service.as_bytes()]);
            // mcrouter's word where no flavor is configured.
            out.extend_from_slice(br#","f":"unknown","r":"#);
            text(out, &[region.as_bytes()]);
            out.extend_from_slice(br#","h":"#);
            text(out, &[format!("[{host}]:{port}").as_bytes()]);
            out.extend_from_slice(br#","p":"#);
            text(out, &[record.pool.as_bytes()]);
            out.extend_from_slice(br#","k":"#);
            text(out, &[record.key]);
            out.extend_from_slice(b",\"a\":{\"al\":1}}]\n");
        }
    }
}

/// mcrouter's pair: for a unix socket the path, and port 0.
fn host_and_port(server: &str) -> (&str, u16) {
    if let Some(path) = server.strip_prefix("unix:") {
        return (path, 0);
    }
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "0"));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or(0))
}

/// Appends a JSON string. Keys are bytes: those that are not ASCII stand as they are, as in mcrouter's files.
fn text(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.push(b'"');
    for byte in parts.iter().copied().flatten().copied() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, key: &[u8], format: &SpoolFormat, expected: &[u8]) {
        let mut out = Vec::new();
        let record = SpoolRecord { server, key, pool: "A" };
        write_record(&mut out, &record, 1_289_416_829_036, format);
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn records_have_the_form_of_mcrouter() {
        let one = SpoolFormat::One;
        check(
            "10.0.0.1:11302",
            b"foo",
            &one,
            b"[\"AS1.0\",1289416829.036,\"C\",[\"10.0.0.1\",11302,\"delete foo\\r\\n\"]]\n",
        );
        check("[::1]:5", b"k", &one, b"[\"AS1.0\",1289416829.036,\"C\",[\"::1\",5,\"delete k\\r\\n\"]]\n");
        check("unix:/a", b"k", &one, b"[\"AS1.0\",1289416829.036,\"C\",[\"/a\",0,\"delete k\\r\\n\"]]\n");
        check(
            "h:5",
            b"a\"b\\\x01\xff",
            &one,
            b"[\"AS1.0\",1289416829.036,\"C\",[\"h\",5,\"delete a\\\"b\\\\\\u0001\xff\\r\\n\"]]\n",
        );
        let two = SpoolFormat::Two { service: "s".to_owned(), region: "r".to_owned() };
        check(
            "h:5",
            b"foo",
            &two,
            b"[\"AS2.0\",1289416829.036,\"C\",{\"s\":\"s\",\"f\":\"unknown\",\"r\":\"r\",\"h\":\"[h]:5\",\"p\":\"A\",\"k\":\"foo\",\
              \"a\":{\"al\":1}}]\n",
        );
    }
}
