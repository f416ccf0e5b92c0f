//! A Kubernetes job whose pods are agents, as text for `kubectl apply`.
//!
//! A pod waits; the coordinator, wherever it runs, starts an agent in it with `kubectl exec`. So only the API server
//! of the cluster has to be reachable, and every user of `kubectl exec` may start agents.

use super::coordinate::Coordinator;
use crate::types::arguments::Arguments;
use crate::types::error::Error;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::fmt;

/// The manifest of `--kubernetes-job`, and before it, in comments, how to use it. `matches` are what the arguments were
/// read from.
pub fn kubernetes_job(arguments: &Arguments, matches: &ArgMatches) -> Result<String, Error> {
    let refuse = |what: &str| Err(Error::Arguments(String::from(what)));
    let pods = arguments.kubernetes_job.unwrap_or_default();
    if pods == 0 {
        return refuse("--kubernetes-job needs at least 1 pod");
    }
    // All errors that the coordinator or an agent would report are reported here.
    let asked = Arguments { agents: vec![String::from(NAME); pods], ..arguments.clone() };
    let plan = Coordinator::new(&asked)?.plan;
    let image = arguments.image.as_deref().unwrap_or_default();
    let mut words: Vec<String> = words(matches, &NOT_TYPED_AGAIN).iter().map(|word| quoted(word)).collect();
    if image.is_empty() || words.iter().any(|word| word.contains(char::is_control)) {
        return refuse("--image must have a name, and no flag a line break");
    }
    words.push(format!(
        "--agents=\"$(kubectl get pods -l batch.kubernetes.io/job-name={NAME} {PODS_NAMES})\""
    ));
    words.push(String::from("--agent-command='kubectl exec -i {host} -c agent -- evenkeel load --agent'"));
    let run = plan.run.warm_up.0 + plan.duration.unwrap_or_default();
    let runs = if arguments.search.is_some() { SEARCH_RUNS } else { 1 };
    let job = Job {
        pods,
        image,
        cpus: plan.run.threads + 1,
        deadline_s: SPARE_S + runs * run.as_secs(),
        words: &words.join(" \\\n#     "),
    };
    Ok(job.to_string())
}

const NAME: &str = "evenkeel-load";
/// Flags that belong to the manifest, and flags that are written anew.
const NOT_TYPED_AGAIN: [&str; 4] = ["kubernetes_job", "image", "agents", "agent_command"];
/// As `--agents` takes them.
const PODS_NAMES: &str = "-o jsonpath='{.items[*].metadata.name}' | tr ' ' ,";
/// For nodes that have to be started, images, and prefilling.
const SPARE_S: u64 = 3600;
/// More agents than any search needs.
const SEARCH_RUNS: u64 = 100;

/// The parts of the manifest that depend on the arguments.
struct Job<'a> {
    pods: usize,
    image: &'a str,
    cpus: usize,
    deadline_s: u64,
    /// Of the coordinator's command line.
    words: &'a str,
}

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { pods, cpus, deadline_s, words, .. } = self;
        // A JSON string is also a YAML string.
        let image = serde_json::Value::from(self.image);
        let (name, version) = (NAME, env!("CARGO_PKG_VERSION"));
        write!(
            f,
            "\
# {pods} agents of `evenkeel load`, each on a node of its own, which wait for a coordinator. Their image has to have
# evenkeel {version}, the version that has printed this.
#
#   kubectl apply -f load.yaml
#   kubectl wait --for=jsonpath='{{.status.ready}}'={pods} --timeout=10m job/{name}
#   evenkeel load {words}
#   kubectl delete job/{name}
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {pods}
  parallelism: {pods}
  backoffLimit: 0
  # Pods end when the job is deleted; or now, if that is forgotten.
  activeDeadlineSeconds: {deadline_s}
  ttlSecondsAfterFinished: 600
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {name}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      # Agents that share a node disturb each other.
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels:
                  app.kubernetes.io/name: {name}
      containers:
        - name: agent
          image: {image}
          # It keeps the pod alive, and makes no load: its standard input stays open, and nothing comes.
          command: [evenkeel, load, --agent]
          stdin: true
          # Requests that are the limits, and whole CPUs, one more than --threads: a thread that shares them is late.
          resources:
            requests:
              cpu: {cpus}
              memory: 1Gi
            limits:
              cpu: {cpus}
              memory: 1Gi
"
        )
    }
}

/// The arguments as typed, as words of one flag each, without some of the flags.
fn words(matches: &ArgMatches, without: &[&str]) -> Vec<String> {
    let command = <Arguments as clap::Args>::augment_args(clap::Command::new("load"));
    let typed = |flag: &&clap::Arg| {
        matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
            && !without.contains(&flag.get_id().as_str())
    };
    let mut words = Vec::new();
    for flag in command.get_arguments().filter(typed) {
        let long = flag.get_long().unwrap_or_default();
        if !flag.get_action().takes_values() {
            words.push(format!("--{long}"));
            continue;
        }
        let values = matches.get_raw(flag.get_id().as_str()).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        let between = flag.get_value_delimiter().map_or(String::new(), String::from);
        words.push(format!("--{long}={}", values.join(&between)));
    }
    words
}

/// A word quoted for the shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/@%+".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn printed(line: &[&str]) -> Result<String, String> {
        let command =
            <Arguments as clap::Args>::augment_args(clap::Command::new("load").no_binary_name(true));
        let matches = command
            .try_get_matches_from([&["--server", "cache.default:11211"], line].concat())
            .map_err(|error| error.to_string())?;
        let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        kubernetes_job(&arguments, &matches).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_typed_is_what_the_coordinator_gets() {
        let line = ["--kubernetes-job", "3", "--image", "a/b:c", "--search", "p99<1ms", "--threads", "4"];
        let text = printed(&line).expect("a manifest");
        let wanted = "
#   evenkeel load --server=cache.default:11211 \\
#     --threads=4 \\
#     '--search=p99<1ms' \\
#     --agents=\"$(kubectl get pods";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("activeDeadlineSeconds: 4700"), "an hour, and 100 runs of 11 s: {text}");
        assert!(text.contains("              cpu: 5\n"), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let check = |line: &[&str], wanted: &str| {
            let error = printed(line).expect_err(wanted);
            assert!(error.contains(wanted), "{error}");
        };
        check(&["--kubernetes-job", "0", "--image", "x"], "at least 1 pod");
        check(&["--kubernetes-job", "2", "--image", ""], "--image must have a name");
        check(&["--kubernetes-job", "2"], "--image <IMAGE>");
        check(&["--kubernetes-job", "2", "--image", "x", "--json", "a\nb"], "no flag a line break");
        check(&["--kubernetes-job", "9", "--image", "x", "--connections", "8"], "9 threads of all agents");
        check(&["--kubernetes-job", "2", "--image", "x", "--agents", "a"], "cannot be used with");
    }

    #[test]
    fn the_shell_reads_what_was_meant() {
        assert_eq!(quoted("--rate=5"), "--rate=5");
        assert_eq!(quoted("--json=it's"), r"'--json=it'\''s'");
    }
}
