//! Misuse of administrative commands and statistics.

use std::io::{self, Write};
use std::time::Duration;

use super::target::{Attack, Target, wrong};

pub(super) const FORGED_KEYS: Attack = Attack {
    name: "forged keys",
    about: "keys with line ends in base64, beside a monitor that reads all dumps and must not see them raw",
    round: |target| {
        // A carriage return, a line feed, and a statistic.
        target.ask(
            b"stats detail on\r\nms DQpTVEFUIGZvcmdlZCAxDQo= 1 b\r\nv\r\nmg DQpTVEFUIGZvcmdlZCAxDQo= b v\r\n",
            b"v\r\n",
        )?;
        for (request, end) in [
            ("stats detail dump\r\n", "END\r\n"),
            ("lru_crawler metadump all\r\n", "END\r\n"),
            ("lru_crawler mgdump all\r\n", "EN\r\n"),
        ] {
            let dump = target.ask(request.as_bytes(), end.as_bytes())?;
            if dump.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"STAT forged")) {
                return Err(wrong(format!("{request:?} shows a line that a key forged")));
            }
        }
        target.idle(Duration::from_secs(1));
        Ok(())
    },
};

pub(super) const STATISTICS: Attack = Attack {
    name: "statistics",
    about: "stats beside stats reset, where no number may have wrapped below zero",
    round: |target| {
        target.ask(b"stats reset\r\n", b"RESET\r\n")?;
        for request in
            ["stats\r\n", "stats items\r\n", "stats slabs\r\n", "stats conns\r\n", "stats settings\r\n"]
        {
            let answer = target.ask(request.as_bytes(), b"END\r\n")?;
            if let Some(line) = String::from_utf8_lossy(&answer).lines().find(|line| is_negative(line)) {
                return Err(wrong(format!("{}: {line}", request.trim())));
            }
        }
        Ok(())
    },
};

/// Whether a number is a wrapped negative one: in the upper half of 64 bits.
fn is_negative(line: &str) -> bool {
    let number = line.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
    // Except a number that is meant so: "no limit".
    number.is_some_and(|number| number > u64::MAX / 2) && !line.contains("maxbytes")
}

pub(super) const MEMORY_LIMIT: Attack = Attack {
    name: "memory limit",
    about: "cache_memlimit goes from 64 to 32 and back, below what is being received beside the items",
    round: |target| {
        target.ask(b"cache_memlimit 32\r\n", b"\r\n")?;
        target.idle(Duration::from_secs(3));
        target.ask(b"cache_memlimit 1\r\n", b"\r\n")?;
        target.ask(b"cache_memlimit 64\r\n", b"\r\n")?;
        target.idle(Duration::from_secs(20));
        Ok(())
    },
};

pub(super) const SILENT_LISTS: Attack = Attack {
    name: "silent lists",
    about: "among 200 connections, 20 ask again and again who is connected, and read nothing",
    round: |target| {
        let crowd = (0..200).map(|_| target.connect()).collect::<io::Result<Vec<_>>>()?;
        let ask = |_| target.send(&b"stats conns\r\n".repeat(1000));
        let connections = (0..20).map(ask).collect::<io::Result<Vec<_>>>()?;
        target.idle(Duration::from_secs(3));
        drop((crowd, connections));
        Ok(())
    },
};

/// The most expensive reports, in time or in bytes.
const REPORTS: [&str; 9] = [
    "stats",
    "stats items",
    "stats slabs",
    "stats settings",
    "stats sizes",
    "stats cachedump 1 0",
    "stats detail dump",
    "lru_crawler metadump all",
    "lru_crawler crawl all",
];

pub(super) const SILENT_REPORTS: Attack = Attack {
    name: "silent reports",
    about: "18 connections ask again and again for reports, two for each kind, and read nothing",
    round: |target| {
        let ask = |report: &&str| target.send(format!("{report}\r\n").repeat(500).as_bytes());
        let reports = REPORTS.iter().chain(&REPORTS);
        let connections = reports.map(ask).collect::<io::Result<Vec<_>>>()?;
        target.idle(Duration::from_secs(3));
        drop(connections);
        Ok(())
    },
};

pub(super) const SILENT_WATCHERS: Attack = Attack {
    name: "silent watchers",
    about: "watchers of all streams that never read",
    round: |target: &Target| {
        let streams =
            "fetchers mutations evictions connevents proxyreqs proxyevents proxyuser deletions rawcmds";
        let watch = |stream| target.send(format!("watch {stream}\r\n").as_bytes());
        let mut connections = streams.split(' ').map(watch).collect::<io::Result<Vec<_>>>()?;
        target.idle(Duration::from_secs(5));
        connections.iter_mut().try_for_each(|connection| connection.write_all(b"x\r\n"))
    },
};
