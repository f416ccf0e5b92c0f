//! `evenkeel lab weeks` against a Prometheus that is made up, on the loopback, and against a file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use crate::lab::{check, directory, lab};

/// The 20th of December, 10:00, in the middle of 28 days.
const ROLLED_OUT: u64 = 1_797_760_800;
const END: &str = "2027-01-03T10:00Z";

/// A figure that differs from hour to hour and day to day, and by a third since the roll-out.
fn value(unix_s: u64, level: f64) -> f64 {
    let (day, hour) = (unix_s / 86_400, unix_s % 86_400 / 3600);
    let factor = if unix_s > ROLLED_OUT { 0.66 } else { 1.0 };
    level * factor * (1.0 + 0.02 * (day * 7 % 5) as f64 + 0.01 * hour as f64)
}

/// Answers range queries as Prometheus does, in chunks, until the test ends; each path is told to `asked`.
fn prometheus(asked: std::sync::mpsc::Sender<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &asked);
        }
    });
    url
}

fn answer(mut stream: TcpStream, asked: &std::sync::mpsc::Sender<String>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    let token = lines
        .take_while(|line| !line.is_empty())
        .find(|line| line.to_ascii_lowercase().starts_with("authorization"));
    let _ = asked.send(format!("{path} {}", token.unwrap_or_default()));
    let number = |name: &str| -> u64 {
        let value = path.split(['?', '&']).find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let level = if path.contains("wait_seconds") { 0.04 } else { 0.0018 };
    let point = |unix_s: u64| format!("[{unix_s}, \"{}\"]", value(unix_s, level));
    let points: Vec<String> =
        (number("start")..=number("end")).step_by(number("step").max(1) as usize).map(point).collect();
    let series = format!("{{\"metric\": {{}}, \"values\": [{}]}}", points.join(", "));
    let (status, body) = match &path {
        path if path.contains("refused") => {
            ("400 Bad Request", "{\"status\": \"error\", \"errorType\": \"bad_data\", \"error\": \"parse error: unexpected end\"}".to_owned())
        }
        path => {
            // This service has no router.
            let result = if path.contains("evenkeel_route") { "" } else { &series };
            ("200 OK", format!("{{\"status\": \"success\", \"data\": {{\"resultType\": \"matrix\", \"result\": [{result}]}}}}"))
        }
    };
    let (first, second) = body.split_at(body.len() / 2);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let head = format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let _ = stream.write_all([head, chunk(first), chunk(second), "0\r\n\r\n".to_owned()].concat().as_bytes());
}

#[test]
fn a_roll_out_is_found_in_what_prometheus_keeps() {
    let directory = directory("lab-weeks");
    let (sender, asked) = std::sync::mpsc::channel();
    let url = prometheus(sender);
    fs::write(directory.join("token"), "secret\n").expect("written");
    let words = |more: &[&'static str]| -> Vec<String> {
        let words =
            ["weeks", "--prometheus", &url, "--end", END, "--annotate", "2026-12-20T10:00Z=mlock <and> FIFO"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let run = |more: &[&'static str]| {
        let words = words(more);
        lab(&directory, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let output = run(&["--html", "weeks.html", "--token-file", "token", "--select", "job=\"cache\""]);
    let text = check(&output, 0);
    assert!(
        text.contains("server p99 (ms): 2.08 before") && text.matches(": better.").count() == 2,
        "{text}"
    );
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("client_p99_us: not known in this time"), "{errors}");
    let page = fs::read_to_string(directory.join("weeks.html")).expect("a page");
    assert!(page.contains("mlock &lt;and&gt; FIFO") && !page.contains("<and>"), "{page}");
    assert!(directory.join("pictures/week-server_p99_us-1.svg").exists());
    let asked: Vec<String> = asked.try_iter().collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let is_right =
        |path: &String| path.contains("job%3D%22cache%22") && path.ends_with("authorization: Bearer secret");
    assert!(asked.iter().all(is_right), "{asked:?}");
    let json = check(&run(&["--json"]), 0);
    assert!(json.contains("\"verdict\": \"better\""), "{json}");
    let refused = run(&["--figure", "x_s=refused("]);
    check(&refused, 1);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.contains("for x_s: parse error: unexpected end\n  hint: the expression is refused("),
        "{error}"
    );
}

#[test]
fn a_server_that_is_not_there_is_an_error_of_the_system() {
    let directory = directory("lab-weeks-unreachable");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let output = lab(&directory, &["weeks", "--prometheus", &url]);
    check(&output, 71);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.starts_with(&format!("evenkeel: lab: ask {url} for client_p99_s: Connection refused")),
        "{error}"
    );
}

#[test]
fn a_file_of_samples_is_enough() {
    let directory = directory("lab-weeks-file");
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).expect("written");
    let hours = (ROLLED_OUT - 14 * 86_400..ROLLED_OUT + 14 * 86_400).step_by(3600);
    let line =
        |unix_s: u64| format!("{{\"unix_s\": {unix_s}, \"client_p99_us\": {}}}\n", value(unix_s, 1_800.0));
    write("samples", &hours.map(line).collect::<String>());
    let on_file = |file: &str, more: &[&str]| {
        let words =
            [&["weeks", "--samples", file, "--annotate", "2026-12-20T10:00Z=mlock"][..], more].concat();
        lab(Path::new(&directory), &words)
    };
    let text = check(&on_file("samples", &["--end", END]), 0);
    assert!(text.contains("client p99 (ms): 2.08 before") && text.contains(": better."), "{text}");
    check(&on_file("samples", &["--end", "2020-01-01"]), 20);
    write("wrong", "{\"unix_s\": 1}\nnothing\n");
    let output = on_file("wrong", &[]);
    check(&output, 1);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("evenkeel: lab: read wrong: line 2: expected an object such as"), "{error}");
    check(&on_file("nowhere", &[]), 71);
    for words in [
        &["weeks"][..],
        &["weeks", "--samples", "a", "--prometheus", "http://b"],
        &["weeks", "--samples", "a", "--end", "soon"],
    ] {
        check(&lab(&directory, words), 64);
    }
}
