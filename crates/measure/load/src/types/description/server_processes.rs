//! Processes whose CPU time is the server's: `812`, or `812,813` for several.

use os::cpu_time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The processes of a server on this machine, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcesses(Vec<u32>);

/// One is a number, as it was when there was only one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Notation {
    One(u32),
    Several(Vec<u32>),
}

impl ServerProcesses {
    /// Nanoseconds of CPU time that all of them have used so far.
    pub(crate) fn cpu_ns(&self) -> Result<u64, cpu_time::Error> {
        self.0.iter().map(|pid| cpu_time::of_process(*pid)).sum()
    }
}

impl From<u32> for ServerProcesses {
    fn from(pid: u32) -> ServerProcesses {
        ServerProcesses(vec![pid])
    }
}

impl FromStr for ServerProcesses {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerProcesses, String> {
        let pid =
            |word: &str| word.parse().map_err(|_| format!("{word:?} is no process id; several are 12,34"));
        let mut pids = text.split(',').map(pid).collect::<Result<Vec<u32>, String>>()?;
        // The time of one that is there twice counts once.
        pids.sort_unstable();
        pids.dedup();
        Ok(ServerProcesses(pids))
    }
}

impl fmt::Display for ServerProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pids: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&pids.join(","))
    }
}

impl Serialize for ServerProcesses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let notation = match self.0.as_slice() {
            [one] => Notation::One(*one),
            several => Notation::Several(several.to_vec()),
        };
        notation.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ServerProcesses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ServerProcesses, D::Error> {
        Ok(match Notation::deserialize(deserializer)? {
            Notation::One(one) => ServerProcesses::from(one),
            Notation::Several(several) => ServerProcesses(several),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str, json: &str) {
        let processes: ServerProcesses = text.parse().expect(text);
        assert_eq!(
            (processes.to_string().as_str(), serde_json::to_string(&processes).expect("text").as_str()),
            (shown, json)
        );
        assert_eq!(serde_json::from_str::<ServerProcesses>(json).expect(json), processes);
    }

    #[test]
    fn one_or_several_processes_are_a_server() {
        check("812", "812", "812");
        check("813,812,813", "812,813", "[812,813]");
        for (bad, expected) in [("", "\"\""), ("12,", "\"\""), ("-1", "\"-1\""), ("12 13", "\"12 13\"")] {
            let error = bad.parse::<ServerProcesses>().expect_err(bad);
            assert_eq!(error, format!("{expected} is no process id; several are 12,34"));
        }
    }

    #[test]
    fn the_time_of_all_counts() {
        let own = std::process::id();
        let alone = ServerProcesses::from(own).cpu_ns().expect("own process");
        let gone = ServerProcesses(vec![own, u32::MAX]).cpu_ns().expect_err("one does not exist").to_string();
        assert_eq!((alone > 0, gone.as_str()), (true, "read /proc/4294967295/task"));
    }
}
