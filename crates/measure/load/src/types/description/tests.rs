//! Flags on their way: none can be forgotten.

use super::*;
use crate::agents::talk::{ToAgent, say};
use crate::report::summary::{Summary, TOLD};
use crate::types::arguments::Arguments;
use crate::types::part::Part;
use crate::workload::asked::RequestedLoad;
use crate::workload::plan::RunPlan;

/// Flags that are not in the description of a run, and why.
const LOCAL: [(&str, &str); 11] = [
    ("search", "makes many runs: its result has the objective beside the first of them"),
    ("agents", "who makes the load: the result has what each has done"),
    ("agent_command", "how they are started, before anything is run"),
    ("agent_patience", "when the coordinator gives up, and there is no result"),
    ("kubernetes_job", "makes no load"),
    ("image", "is for a job that makes no load"),
    ("agent", "says that the description comes from elsewhere"),
    ("self_test", "has a server, and a result, of its own"),
    ("strict", "decides about the exit status alone"),
    ("json", "where the result goes"),
    ("hdr_log", "where the latencies of each second go, which are known in any case"),
];

fn flags<T: Args>() -> Vec<clap::Arg> {
    T::augment_args(clap::Command::new("run")).get_arguments().cloned().collect()
}

fn json(run: &Description) -> Map<String, Value> {
    match serde_json::to_value(run) {
        Ok(Value::Object(fields)) => fields,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_flag_is_described_or_left_out_for_a_reason() {
    let described = json(&Description::default());
    for flag in flags::<Arguments>() {
        let id = flag.get_id().as_str();
        let is_local = LOCAL.iter().any(|(local, _)| *local == id);
        assert_ne!(described.contains_key(id), is_local, "--{id}");
    }
    assert_eq!(flags::<Arguments>().len(), described.len() + LOCAL.len());
}

/// What one flag or another takes.
const WORDS: [&str; 10] =
    ["", "=7", "=1.2", "=constant", "=5@3s", "=get=1,set=2", "=zipf", "=etc", "=meta", "=epoll"];
/// What one flag or another needs beside it.
const BESIDE: [&str; 6] = ["", "--udp", "--tls", "--trace=x", "--probes=1", "--probe-rate=1"];

/// A run in which this flag says something else than its default.
fn with(flag: &clap::Arg) -> Description {
    let (id, long) = (flag.get_id().as_str(), flag.get_long().expect("all have a name"));
    let default = json(&Description::default());
    let lines =
        BESIDE.iter().flat_map(|beside| WORDS.iter().map(move |word| (*beside, format!("--{long}{word}"))));
    let mut runs = lines.filter_map(|(beside, word)| {
        Description::of([beside, &word].into_iter().filter(|word| !word.is_empty())).ok()
    });
    runs.find(|run| json(run)[id] != default[id])
        .unwrap_or_else(|| panic!("a word for --{long} is missing here"))
}

/// One in which all do, whatever may stand beside what.
fn with_all() -> Description {
    let fields: Map<String, Value> = flags::<Description>()
        .iter()
        .map(|flag| (flag.get_id().to_string(), json(&with(flag))[flag.get_id().as_str()].clone()))
        .collect();
    serde_json::from_value(Value::Object(fields)).expect("a description")
}

/// As an agent hears it.
fn told(run: &Description) -> Description {
    let mut line = Vec::new();
    say(&mut line, &ToAgent::Plan { agent: 0, agents: 1, run: Box::new(run.clone()) })
        .expect("a vector takes all");
    match serde_json::from_slice(&line) {
        Ok(ToAgent::Plan { run, .. }) => *run,
        other => panic!("{other:?} of {}", String::from_utf8_lossy(&line)),
    }
}

#[test]
fn no_flag_is_lost_on_the_way_to_an_agent_or_into_the_result() {
    let (run, default) = (with_all(), json(&Description::default()));
    assert!(json(&run).iter().all(|(flag, value)| *value != default[flag]), "{run:?}");
    assert_eq!(told(&run), run);
    let result = serde_json::to_value(Summary { run: run.clone(), ..Summary::default() }).expect("JSON");
    assert_eq!(result["run"], Value::Object(json(&run)));
    // What a plan makes of a run goes into the result.
    let mut planned = 0;
    for flag in flags::<Description>() {
        let (run, id) = (with(&flag), flag.get_id().as_str());
        if let Ok(plan) = RunPlan::new(&run, Part::WHOLE) {
            assert_eq!(json(&plan.run)[id], json(&run)[id], "--{id}");
            planned += 1;
        }
    }
    assert!(planned > 25, "{planned}");
}

#[test]
fn the_text_of_a_result_has_the_flags_that_no_word_of_it_tells() {
    for flag in flags::<Description>() {
        let (id, long) = (flag.get_id().as_str(), flag.get_long().expect("all have a name"));
        let text = Summary { run: with(&flag), ..Summary::default() }.to_string();
        assert_ne!(text.contains(&format!(" --{long}")), TOLD.contains(&id), "{text}");
    }
    let defaults = Summary::default().to_string();
    assert!(!defaults.contains("--"), "{defaults}");
    assert_eq!(with_all().flags(&[]).len(), flags::<Description>().len());
}

#[test]
fn agents_hear_numbers_as_they_were_typed() {
    for line in [
        "--rate 33333.333333333336 --arrivals pareto:0.154971",
        "--mix get=0.123456789012345,set=7e-9,touch=0",
        "--gets 0.99999999",
        "--key-size gev:30.7984,8.20449,0.078688 --value-size 100:0.1,4k-16k:1e-7,3",
        "--ttl 92.6d:0.28,1d:0.25 --popularity hot:0.123456789,17",
        "--workload twitter:c52 --popularity zipf:1.2345678901",
        "--slot 12345.678us --storm 3@0.1s --warm-up 0.3",
        "--seed 18446744073709551615 --keys 18446744073709551615",
    ] {
        let mut run = Description::of(line.split(' ')).expect(line);
        assert_eq!(told(&run), run, "{line}");
        // Also what is filled in from other flags.
        if let Ok(asked) = RequestedLoad::fill(&mut run) {
            assert_eq!(told(&run), run, "{line}");
            assert_eq!(RequestedLoad::fill(&mut told(&run)).expect(line).mix, asked.mix);
        }
    }
}

#[test]
fn a_file_whose_name_is_no_text_is_refused_where_json_has_to_have_it() {
    use std::os::unix::ffi::OsStringExt;
    let socket = PathBuf::from(std::ffi::OsString::from_vec(vec![b'/', 0xff]));
    let run = Description { socket: Some(socket), ..Description::default() };
    let error = run.json().expect_err("no text").to_string();
    assert_eq!(error, "use these arguments: JSON cannot have them: path contains invalid UTF-8 characters");
}
