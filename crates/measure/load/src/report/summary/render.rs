//! The summary for people. What agents say in theirs is escaped like everything else that comes from another machine.

use super::{CommandCount, Connects, CpuCost, Recorded, Second, Summary, WaitsSummary};
use crate::report::figures::{grouped, percentiles};
use crate::types::mix::{Command, Mix};
use crate::types::span::Span;
use std::fmt;
use stdx::escape;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.conditions(f)?;
        let others = self.run.flags(&TOLD);
        if !others.is_empty() {
            writeln!(f, "  {:<10}{}", "flags", escape::line(&others.join(" ")))?;
        }
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
        write!(f, ", busiest thread {:.0} %", self.busiest_thread * 100.0)?;
        if self.cpu_wait >= WAIT_SHOWN {
            write!(f, ", waited for a CPU {:.0} %", self.cpu_wait * 100.0)?;
        }
        writeln!(f)?;
        self.distributions(f)?;
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

/// Flags whose values the text shows elsewhere: conditions, figures, or whole lines. All others are printed as they
/// were given.
pub(crate) const TOLD: [&str; 31] = [
    "arrivals",
    "connections",
    "depth",
    "duration",
    "gets",
    "host",
    "key_size",
    "keys",
    "mix",
    "multiget",
    "popularity",
    "port",
    "probe_rate",
    "probes",
    "protocol",
    "rate",
    "record",
    "seed",
    "server",
    "server_pid",
    "slot",
    "socket",
    "speed",
    "threads",
    "tls",
    "trace",
    "ttl",
    "udp",
    "value_size",
    "verify",
    "workload",
];

/// A smaller share of the window is not shown.
const WAIT_SHOWN: f64 = 0.01;

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
    /// Percentiles: of replies, and of connections that were made.
    fn distributions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A percentile of nothing is not 0.
        if self.requests > 0 {
            percentiles(f, "latency", &self.latency)?;
        }
        if let Some(waits) = self.waits.as_ref().filter(|_| self.requests > 0) {
            percentiles(f, "  service", &waits.service)?;
            percentiles(f, "  slip", &waits.slip)?;
            percentiles(f, "  late", &waits.late)?;
        }
        if let Some(unread) = &self.unread {
            percentiles(f, "unread", unread)?;
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
            let Connects { opened, refused, timed_out, closed_by_server, broken, .. } = connects;
            let [opened, refused, timed_out, closed] =
                [opened, refused, timed_out, closed_by_server].map(|n| grouped(*n as f64));
            write!(f, "  {:<10}{opened} opened, {refused} refused, ", "connects")?;
            write!(f, "{timed_out} timed out, {closed} closed by the server")?;
            match *broken {
                0 => writeln!(f)?,
                broken => writeln!(f, ", {} broken", grouped(broken as f64))?,
            }
        }
        Ok(())
    }

    fn conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = &self.run;
        write!(f, "{} loop ({})", escape::line(&self.r#loop), escape::line(&self.engine))?;
        if let (Some(rate), Some(arrivals)) = (run.rate, &run.arrivals) {
            write!(f, " of {} requests/s, {arrivals},", grouped(rate))?;
        }
        if let Some(Span(slot)) = run.slot {
            write!(f, " in slots of {} µs", slot.as_secs_f64() * 1e6)?;
        }
        writeln!(
            f,
            " against {} ({}): {} connection{} of depth {}, {} thread{}",
            escape::line(&self.target),
            escape::line(&self.transport),
            grouped(run.connections as f64),
            if run.connections == 1 { "" } else { "s" },
            run.depth,
            self.threads(),
            if self.threads() == 1 { "" } else { "s" }
        )?;
        if let Some(trace) = &run.trace {
            let (trace, speed) = (trace.display().to_string(), run.speed);
            let trace = escape::line(&trace);
            return writeln!(f, "  {} protocol, trace {trace} at speed {speed}", run.protocol);
        }
        writeln!(
            f,
            "  {}{} protocol, {} gets of {} key{}; {} items, keys of {}, values of {} bytes{}, {}, seed {}",
            run.workload.as_ref().map_or_else(String::new, |name| format!("workload {name}: ")),
            run.protocol,
            run.mix.as_ref().map_or_else(String::new, commands_asked),
            run.multiget,
            if run.multiget == 1 { "" } else { "s" },
            grouped(run.keys as f64),
            text(&run.key_size),
            text(&run.value_size),
            match text(&run.ttl).as_str() {
                "0" => String::new(),
                ttl => format!(", TTLs of {ttl} s"),
            },
            text(&run.popularity),
            run.seed
        )
    }

    /// Commands that the line above does not show.
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
        if self.run.verify {
            writeln!(f, "  {:<10}{} wrong values", "verified", grouped(self.wrong_values as f64))?;
        }
        if self.not_stored > 0 {
            writeln!(f, "  {:<10}{} sets", "declined", grouped(self.not_stored as f64))?;
        }
        if self.errors > 0 {
            writeln!(f, "  {:<10}{}", "errors", grouped(self.errors as f64))?;
        }
        for error in &self.error_lines {
            writeln!(f, "  {:>12}× {}", grouped(error.times as f64), escape::line(&error.line))?;
        }
        if let Some(WaitsSummary { unanswered, unsent, .. }) = self.waits
            && unanswered + unsent > 0
        {
            let [unanswered, unsent] = [unanswered, unsent].map(|n| grouped(n as f64));
            writeln!(
                f,
                "  {:<10}{unanswered} requests not answered in time, {unsent} never sent",
                "missing"
            )?;
        }
        if self.transport == "udp" || self.lost + self.failures.unconnected > 0 {
            let share = self.lost as f64 / (self.lost + self.requests).max(1) as f64;
            write!(f, "  {:<10}{} requests ({:.2} %)", "lost", grouped(self.lost as f64), share * 100.0)?;
            let told = self.failures.told();
            if !told.is_empty() {
                write!(f, ": {told}")?;
            }
            if self.transport == "udp" {
                write!(f, ", {} datagrams too late or twice", grouped(self.stray_datagrams as f64))?;
            }
            writeln!(f)?;
        }
        if let Some(availability) = self.availability.filter(|availability| *availability < 1.0) {
            let failed = grouped(self.failures.total() as f64);
            let s = if self.failures.total() == 1 { "" } else { "s" };
            write!(f, "  {:<10}{:.4} %: {failed} request{s} failed", "available", availability * 100.0)?;
            let [bad, all] = [true, false].map(|only_bad| {
                let counts =
                    |second: &&Second| second.availability.is_some_and(|share| !only_bad || share < 1.0);
                self.series.iter().filter(counts).count()
            });
            writeln!(f, ", in {bad} of {all} s")?;
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
        if self.misses * 10 > self.keys_asked && self.run.trace.is_none() {
            writeln!(
                f,
                "warning: more than a tenth of the keys were missing: store them with --prefill or --backfill"
            )?;
        }
        Ok(())
    }
}

/// The mix, which is left out where there are only gets and sets.
fn commands_asked(mix: &Mix) -> String {
    match mix.has(|command| !matches!(command, Command::Get | Command::Set)) {
        true => format!("{},", mix.shares()),
        false => format!("{} %", (mix.share(Command::is_get) * 1e6).round() / 1e4),
    }
}

/// Always present in a result: `RunPlan::new` fills it in.
fn text(given: &Option<impl fmt::Display>) -> String {
    given.as_ref().map_or_else(String::new, ToString::to_string)
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

#[cfg(test)]
mod tests;
