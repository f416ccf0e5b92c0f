//! The summary for people.

use super::{CommandCount, Connects, CpuCost, Latency, Recorded, Summary};
use std::fmt;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.conditions(f)?;
        writeln!(
            f,
            "  {:<10}{:>13} requests/s {:>13} keys/s  over {:.2} s",
            "rate",
            grouped(self.requests_per_second),
            grouped(self.keys_per_second),
            self.seconds
        )?;
        if let Some(server) = &self.server {
            cost(f, "server", server)?;
            writeln!(f)?;
        }
        cost(f, "client", &self.client)?;
        writeln!(f, ", busiest thread {:.0} %", self.busiest_thread * 100.0)?;
        // A percentile of nothing is not 0.
        if self.requests > 0 {
            percentiles(f, "latency", &self.latency)?;
        }
        if let Some(waits) = self.waits.as_ref().filter(|_| self.requests > 0) {
            percentiles(f, "  service", &waits.service)?;
            percentiles(f, "  slip", &waits.slip)?;
            percentiles(f, "  late", &waits.late)?;
        }
        if let Some(handshakes) = &self.handshakes {
            percentiles(f, "handshake", &handshakes.latency)?;
            let [count, resumed] = [handshakes.count, handshakes.resumed].map(|n| grouped(n as f64));
            writeln!(f, "  {:<10}{count} handshakes, {resumed} of them resumed", "tls")?;
        }
        if let Some(connects) = &self.connects {
            if connects.opened > 0 {
                percentiles(f, "connect", &connects.latency)?;
            }
            let Connects { opened, refused, timed_out, closed_by_server, .. } = connects;
            let [opened, refused, timed_out, closed] =
                [opened, refused, timed_out, closed_by_server].map(|n| grouped(*n as f64));
            write!(f, "  {:<10}{opened} opened, {refused} refused, ", "connects")?;
            writeln!(f, "{timed_out} timed out, {closed} closed by the server")?;
        }
        self.outcomes(f)?;
        if let Some(probes) = &self.probes {
            write!(f, "{probes}")?;
        }
        if let Some(recorded) = &self.recorded {
            write!(f, "{recorded}")?;
        }
        self.machines(f)?;
        self.warnings(f)?;
        write!(f, "{}", self.verdict)
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recorded { file, requests, left_out, ends_after_seconds } = self;
        let [requests, left_out] = [requests, left_out].map(|n| grouped(*n as f64));
        match ends_after_seconds {
            None => writeln!(f, "  {:<10}{requests} requests in {file}", "recorded"),
            Some(seconds) => writeln!(
                f,
                "  {:<10}{requests} requests in {file}, of the first {seconds:.3} s: then the disk fell behind, and the other \
                 {left_out} are left out",
                "recorded"
            ),
        }
    }
}

impl Summary {
    fn conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} loop ({})", self.r#loop, self.engine)?;
        if let (Some(rate), Some(arrivals)) = (self.rate, &self.arrivals) {
            write!(f, " of {} requests/s, {arrivals},", grouped(rate))?;
        }
        writeln!(
            f,
            " against {} ({}): {} connection{} of depth {}, {} thread{}",
            self.target,
            self.transport,
            grouped(self.connections as f64),
            if self.connections == 1 { "" } else { "s" },
            self.depth,
            self.threads,
            if self.threads == 1 { "" } else { "s" }
        )?;
        if let Some(trace) = &self.trace {
            return writeln!(f, "  {} protocol, trace {trace}", self.protocol);
        }
        writeln!(
            f,
            "  {}{} protocol, {} gets of {} key{}; {} items, keys of {}, values of {} bytes{}, {}, seed {}",
            self.workload.as_ref().map_or_else(String::new, |name| format!("workload {name}: ")),
            self.protocol,
            self.commands_asked(),
            self.multiget,
            if self.multiget == 1 { "" } else { "s" },
            grouped(self.keyspace as f64),
            self.key_size,
            self.value_size,
            if self.ttl == "0" { String::new() } else { format!(", TTLs of {} s", self.ttl) },
            self.popularity,
            self.seed
        )
    }

    /// The mix, which need not be said where there are only gets and sets.
    fn commands_asked(&self) -> String {
        let simple = self.mix.split(',').all(|part| part.starts_with("get=") || part.starts_with("set="));
        match simple {
            true => format!("{} %", (self.get_share * 1e6).round() / 1e4),
            false => format!("{},", self.mix),
        }
    }

    /// Commands that the line above does not tell of.
    fn other_commands(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.commands.iter().filter(|count| !["get", "set"].contains(&count.command.as_str()));
        for (index, CommandCount { command, requests, declined }) in others.enumerate() {
            write!(
                f,
                "{}{} {command}",
                if index == 0 { "  commands  " } else { ", " },
                grouped(*requests as f64)
            )?;
            if *declined > 0 {
                let why = if command == "add" { "was there" } else { "was not there" };
                write!(f, " ({} {why})", grouped(*declined as f64))?;
            }
        }
        if self.commands.iter().any(|count| !["get", "set"].contains(&count.command.as_str())) {
            writeln!(f)?;
        }
        Ok(())
    }

    fn outcomes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_keys =
            if self.keys_asked == 0 { 0.0 } else { self.misses as f64 / self.keys_asked as f64 * 100.0 };
        writeln!(
            f,
            "  {:<10}{} gets, {} hits, {} misses ({of_keys:.2} %), {} sets",
            "requests",
            grouped(self.gets as f64),
            grouped(self.hits as f64),
            grouped(self.misses as f64),
            grouped(self.sets as f64)
        )?;
        self.other_commands(f)?;
        if self.refills > 0 {
            writeln!(f, "  {:<10}{} missed keys", "backfill", grouped(self.refills as f64))?;
        }
        if self.verified {
            writeln!(f, "  {:<10}{} wrong values", "verified", grouped(self.wrong_values as f64))?;
        }
        if self.not_stored > 0 {
            writeln!(f, "  {:<10}{} sets", "declined", grouped(self.not_stored as f64))?;
        }
        if self.errors > 0 {
            writeln!(f, "  {:<10}{}", "errors", grouped(self.errors as f64))?;
        }
        for error in &self.error_lines {
            writeln!(f, "  {:>12}× {}", grouped(error.times as f64), error.line)?;
        }
        if self.transport == "udp" || self.lost > 0 {
            let share = self.lost as f64 / (self.lost + self.requests).max(1) as f64;
            write!(f, "  {:<10}{} requests ({:.2} %)", "lost", grouped(self.lost as f64), share * 100.0)?;
            if self.transport == "udp" {
                write!(f, ", {} datagrams too late or twice", grouped(self.stray_datagrams as f64))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn machines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for agent in &self.agents {
            writeln!(
                f,
                "  agent     {}: {} requests/s, p99 {} µs, busiest thread {:.0} %, clock within {} µs",
                agent.name,
                grouped(agent.requests_per_second),
                grouped(agent.p99_us),
                agent.busiest_thread * 100.0,
                grouped(agent.clock_error_us)
            )?;
        }
        Ok(())
    }

    fn warnings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.misses * 10 > self.keys_asked && self.trace.is_none() {
            writeln!(
                f,
                "warning: more than a tenth of the keys were missing: store them with --prefill or --backfill"
            )?;
        }
        Ok(())
    }
}

pub(super) fn percentiles(f: &mut fmt::Formatter<'_>, what: &str, latency: &Latency) -> fmt::Result {
    writeln!(
        f,
        "  {what:<10}p50 {} | p90 {} | p99 {} | p99.9 {} | max {} µs",
        grouped(latency.p50_us),
        grouped(latency.p90_us),
        grouped(latency.p99_us),
        grouped(latency.p999_us),
        grouped(latency.max_us)
    )
}

fn cost(f: &mut fmt::Formatter<'_>, who: &str, cost: &CpuCost) -> fmt::Result {
    write!(
        f,
        "  {who:<10}{:>13} requests/CPU-s {:>9} keys/CPU-s  in {:.2} CPU-s",
        grouped(cost.requests_per_cpu_second),
        grouped(cost.keys_per_cpu_second),
        cost.cpu_seconds
    )
}

/// Rounded to a whole number, with a comma every three digits.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{ErrorLine, WaitsSummary};
    use crate::verdict::{Reason, Verdict};

    fn summary() -> Summary {
        let cost = |cpu_seconds, per_second: f64| CpuCost {
            cpu_seconds,
            requests_per_cpu_second: per_second,
            keys_per_cpu_second: per_second * 10.0,
        };
        Summary {
            r#loop: String::from("closed"),
            verdict: Verdict { valid: true, reasons: Vec::new() },
            rate: None,
            arrivals: None,
            trace: None,
            engine: String::from("io_uring"),
            target: String::from("127.0.0.1:11211"),
            transport: String::from("tcp"),
            protocol: String::from("text"),
            connections: 64,
            depth: 16,
            threads: 1,
            get_share: 0.9,
            workload: None,
            mix: String::from("get=0.9,set=0.1"),
            multiget: 10,
            keyspace: 100_000,
            key_size: String::from("14"),
            value_size: String::from("64-1024"),
            ttl: String::from("0"),
            popularity: String::from("zipf:0.99"),
            seed: 1,
            verified: false,
            seconds: 5.0,
            requests: 1_000_000,
            commands: Vec::new(),
            gets: 900_000,
            sets: 100_000,
            keys_asked: 9_000_000,
            hits: 8_999_100,
            misses: 900,
            refills: 0,
            not_stored: 0,
            wrong_values: 0,
            errors: 0,
            lost: 0,
            stray_datagrams: 0,
            error_lines: Vec::new(),
            requests_per_second: 200_000.4,
            keys_per_second: 1_820_000.0,
            latency: Latency {
                p50_us: 250.2,
                p90_us: 300.0,
                p99_us: 999.5,
                p999_us: 1_234.0,
                max_us: 10_000.0,
                mean_us: 260.0,
            },
            waits: None,
            connects: None,
            handshakes: None,
            steal: 0.0,
            client: cost(4.0, 250_000.0),
            busiest_thread: 0.8,
            server: Some(cost(5.0, 200_000.0)),
            probes: None,
            recorded: None,
            series: Vec::new(),
            agents: Vec::new(),
        }
    }

    #[test]
    fn a_good_run_reads_like_this() {
        let expected = "\
closed loop (io_uring) against 127.0.0.1:11211 (tcp): 64 connections of depth 16, 1 thread
  text protocol, 90 % gets of 10 keys; 100,000 items, keys of 14, values of 64-1024 bytes, zipf:0.99, seed 1
  rate            200,000 requests/s     1,820,000 keys/s  over 5.00 s
  server          200,000 requests/CPU-s 2,000,000 keys/CPU-s  in 5.00 CPU-s
  client          250,000 requests/CPU-s 2,500,000 keys/CPU-s  in 4.00 CPU-s, busiest thread 80 %
  latency   p50 250 | p90 300 | p99 1,000 | p99.9 1,234 | max 10,000 µs
  requests  900,000 gets, 8,999,100 hits, 900 misses (0.01 %), 100,000 sets
VALID
";
        assert_eq!(summary().to_string(), expected);
    }

    #[test]
    fn an_open_loop_says_where_the_time_went() {
        let latency = |scale: f64| Latency {
            p50_us: scale,
            p90_us: scale * 2.0,
            p99_us: scale * 3.0,
            p999_us: scale * 4.0,
            max_us: scale * 5.0,
            mean_us: scale,
        };
        let open = Summary {
            r#loop: String::from("open"),
            rate: Some(10_000.0),
            arrivals: Some(String::from("poisson")),
            latency: latency(100.0),
            waits: Some(WaitsSummary {
                service: latency(80.0),
                slip: latency(20.0),
                late: latency(10.0),
                unanswered: 0,
                unsent: 0,
            }),
            ..summary()
        };
        let shown = open.to_string();
        let first = "open loop (io_uring) of 10,000 requests/s, poisson, against 127.0.0.1:11211 (tcp): 64 connections of \
                     depth 16, 1 thread";
        let waits = "  latency   p50 100 | p90 200 | p99 300 | p99.9 400 | max 500 µs
    service p50 80 | p90 160 | p99 240 | p99.9 320 | max 400 µs
    slip    p50 20 | p90 40 | p99 60 | p99.9 80 | max 100 µs
    late    p50 10 | p90 20 | p99 30 | p99.9 40 | max 50 µs
";
        assert!(shown.starts_with(first) && shown.contains(waits), "{shown}");
    }

    #[test]
    fn other_commands_have_their_line() {
        let count = |command: &str, requests, declined| CommandCount {
            command: String::from(command),
            requests,
            declined,
        };
        let mixed = Summary {
            workload: Some(String::from("etc")),
            mix: String::from("get=0.9,add=0.1"),
            ttl: String::from("60:0.5,3600"),
            commands: vec![count("get", 9000, 0), count("add", 1000, 990), count("delete", 5, 0)],
            ..summary()
        };
        let shown = mixed.to_string();
        for line in [
            "  workload etc: text protocol, get=0.9,add=0.1, gets of 10 keys; 100,000 items, keys of 14, values of 64-1024 bytes, \
             TTLs of 60:0.5,3600 s, zipf:0.99, seed 1\n",
            "  commands  1,000 add (990 was there), 5 delete\n",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn a_bad_run_says_what_was_bad() {
        let bad = Summary {
            verified: true,
            refills: 1234,
            wrong_values: 2,
            not_stored: 3,
            errors: 4000,
            error_lines: vec![ErrorLine { line: String::from("SERVER_ERROR busy"), times: 4000 }],
            misses: 5_000_000,
            verdict: Verdict {
                valid: false,
                reasons: vec![Reason { what: String::from("steal"), why: String::from("others took 9 %") }],
            },
            ..summary()
        };
        assert!(!bad.is_clean() && summary().is_clean());
        let shown = bad.to_string();
        let tail: Vec<&str> = shown.lines().skip(7).collect();
        let expected = [
            "  backfill  1,234 missed keys",
            "  verified  2 wrong values",
            "  declined  3 sets",
            "  errors    4,000",
            "         4,000× SERVER_ERROR busy",
            "warning: more than a tenth of the keys were missing: store them with --prefill or --backfill",
            "INVALID (steal): others took 9 %",
        ];
        assert_eq!(tail, expected);
    }

    #[test]
    fn large_numbers_are_grouped() {
        for (number, shown) in
            [(0.0, "0"), (7.0, "7"), (999.0, "999"), (1000.0, "1,000"), (1_234_567.8, "1,234,568")]
        {
            assert_eq!(grouped(number), shown);
        }
    }
}
