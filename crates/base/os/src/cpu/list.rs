//! CPU lists whose order matters.

use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// CPUs in the notation of `taskset -c`, in the given order: `1`, `2,4`, `4-7`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// The CPU of worker number `index`: after the last CPU, the first one follows.
    pub fn of(&self, index: usize) -> usize {
        self.0[index % self.0.len()]
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuList, String> {
        let cpu = |text: &str| match text.parse() {
            Ok(cpu) if cpu < CpuSet::MAX_CPU => Ok(cpu),
            _ => Err(format!("{text:?} is no CPU")),
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                Some((first, last)) => cpus.extend(cpu(first)?..=cpu(last)?),
                None => cpus.push(cpu(part)?),
            }
        }
        if cpus.is_empty() { Err(format!("{text} names no CPU")) } else { Ok(CpuList(cpus)) }
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<CpuList, String> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_as_by_taskset() {
        let check =
            |text: &str, cpus: &[usize]| assert_eq!(text.parse(), Ok(CpuList(cpus.to_vec())), "{text}");
        check("1", &[1]);
        check("2,4", &[2, 4]);
        check("4-6,0", &[4, 5, 6, 0]);
        for bad in ["", "x", "1-", "5-2", "99999"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lists_are_strings_in_json() {
        let list: CpuList = serde_json::from_str("\"4-6,0\"").expect("a list");
        assert_eq!(serde_json::to_string(&list).expect("a text"), "\"4,5,6,0\"");
        let error = serde_json::from_str::<CpuList>("\"x\"").expect_err("no CPU").to_string();
        assert!(error.starts_with("\"x\" is no CPU"), "{error}");
    }

    #[test]
    fn workers_cycle_through_the_list() {
        let list: CpuList = "3,5".parse().expect("a list");
        assert_eq!((list.of(0), list.of(1), list.of(2)), (3, 5, 3));
    }
}
