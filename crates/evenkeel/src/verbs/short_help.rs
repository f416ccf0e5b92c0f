//! Short help (`-h`): examples, and the flags that most command lines need. `--help` has all flags.

use clap::Command;

/// The short help of a command.
struct ShortHelp {
    /// The command below `evenkeel`: `tune check`.
    command: &'static str,
    /// Command lines, without `evenkeel` and the command itself, and what each does.
    examples: &'static [(&'static str, &'static str)],
    /// The flags that it lists; none: all that the command has.
    flags: &'static [&'static str],
}

const SHORT_HELPS: [ShortHelp; 25] = [
    ShortHelp {
        command: "up",
        examples: &[
            ("", "three servers and a router, until Ctrl-C"),
            (
                "--servers 5 --tls --dir ./cluster",
                "five servers with TLS; a later start finds the same ones in ./cluster",
            ),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "serve",
        examples: &[
            ("-m 1024", "1 GB for items, on the port of memcached"),
            ("-l 10.0.0.1 -p 11211 -c 10000 -t 4", "one address, up to 10,000 connections, four threads"),
            ("-m 1024 --metrics-listen 127.0.0.1:9150", "with metrics, for Prometheus and `evenkeel top`"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "route",
        examples: &[
            ("--config file:/etc/evenkeel/route.json -p 5000", "a router with a configuration of mcrouter"),
            ("--config file:/etc/evenkeel/route.json --validate-config", "only check the configuration"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "replay",
        examples: &[("--async-dir /var/spool/mcrouter", "send the deletes that a router has kept there")],
        flags: &[],
    },
    ShortHelp {
        command: "ready",
        examples: &[
            ("10.0.0.1:11211", "whether a server or router answers its clients"),
            ("http://127.0.0.1:9150", "whether it is ready, and why not, by its page"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "load",
        examples: &[
            ("--prefill --duration 30s", "as many requests as the server on this host takes"),
            (
                "--server 10.0.0.1:11211 --rate 50000 --connections 100",
                "50,000 requests per second, whatever the server does",
            ),
            ("--workload etc --search 'p99<1ms'", "the highest rate at which the objective holds"),
        ],
        flags: &[
            "server",
            "rate",
            "connections",
            "threads",
            "gets",
            "keys",
            "value_size",
            "workload",
            "prefill",
            "duration",
            "search",
            "json",
        ],
    },
    ShortHelp {
        command: "top",
        examples: &[
            ("", "the server of this host that was started with --metrics-listen"),
            ("10.0.0.1 10.0.0.2", "two servers in one picture"),
            ("--once --json", "one picture for a program"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "tune",
        examples: &[
            ("check", "what limits this host, with the evidence; it changes nothing"),
            ("apply --before 60", "carry out the remedies of what is found"),
            ("verify", "whether they have helped"),
            ("rollback", "go back"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "tune check",
        examples: &[
            ("", "half a minute of counting under load, then findings"),
            ("--seconds 10 --json", "for programs"),
            ("--save host.json", "keep what was read; --root host.json judges it elsewhere"),
        ],
        flags: &["seconds", "json", "save", "root", "fail_on"],
    },
    ShortHelp {
        command: "tune plan",
        examples: &[
            ("", "the remedies of what is found in half a minute"),
            ("--strategy spread --nic eth0 --diff", "one layout of interrupts, as a diff"),
            ("--profile memcached", "the settings of a kind of service"),
        ],
        flags: &["strategy", "profile", "nic", "live", "seconds", "diff", "json", "script"],
    },
    ShortHelp {
        command: "tune apply",
        examples: &[
            ("", "carry out the remedies of what is found in half a minute"),
            (
                "--profile memcached --confirm-within 5m",
                "undone in five minutes unless `evenkeel tune confirm` is run",
            ),
            ("--strategy spread --before 60", "measure first, so that `evenkeel tune verify` can compare"),
        ],
        flags: &["strategy", "profile", "nic", "live", "seconds", "dry_run", "confirm_within", "before"],
    },
    ShortHelp {
        command: "tune verify",
        examples: &[
            ("", "whether values hold and figures have moved, under the load of now"),
            (
                "--objective ./load.sh --metric /latency/p99_us --at-most 900",
                "and whether this load reaches its objective",
            ),
        ],
        flags: &["seconds", "objective", "metric", "at_most", "at_least", "json"],
    },
    ShortHelp {
        command: "tune rollback",
        examples: &[("", "undo the last plan"), ("--all", "undo all of them")],
        flags: &[],
    },
    ShortHelp {
        command: "tune explain",
        examples: &[("irqs-misplaced", "what a rule finds, and its remedy")],
        flags: &[],
    },
    ShortHelp {
        command: "lab",
        examples: &[
            ("run experiments/serve.toml", "run an experiment"),
            ("report experiments/serve.run", "its results"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "advise",
        examples: &[
            ("--workload workload.toml", "which machines this workload needs, and what they cost"),
            (
                "--server 10.0.0.1:11211 --servers 12 --peak 2",
                "twelve servers like this one, at twice what it has to do now",
            ),
            ("--trace requests.csv --zones 3", "the requests of a trace as the workload"),
            ("--workload workload.toml --family r5,c5 --json", "two families, for programs"),
            (
                "--running --server 10.0.0.1:11211 --shape r5.2xlarge",
                "what is left on the host of this server, which is one of these",
            ),
        ],
        flags: &[
            "workload",
            "server",
            "control",
            "running",
            "prometheus",
            "trace",
            "servers",
            "peak",
            "p99",
            "region",
            "family",
            "catalogue",
            "json",
            "picture",
        ],
    },
    ShortHelp {
        command: "advise import",
        examples: &[(
            "--moto instance_types.json.gz --moto-version 5.2.5 --families r5,c5=large+xlarge",
            "shapes of AWS as a catalogue",
        )],
        flags: &["moto", "moto_version", "karpenter_prices", "gce_prices", "families", "over", "out"],
    },
    ShortHelp {
        command: "advise costs",
        examples: &[("experiments/costs.run", "what requests cost on this host, for --costs")],
        flags: &[],
    },
    ShortHelp {
        command: "advise rate",
        examples: &[(
            "--workload workload.toml --costs costs.toml --cpus 0,1",
            "the rate of one worker on CPU 0, with a load on CPU 1",
        )],
        flags: &[],
    },
    ShortHelp {
        command: "control",
        examples: &[
            ("status", "the fleet as the controllers see it"),
            ("replace server-1", "what replacing a server would do; with --apply --why TEXT it happens"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "kube",
        examples: &[
            (
                "warm-upgrade cache-evenkeel --namespace cache --server http://127.0.0.1:8001 --dry-run",
                "what an upgrade would do, through `kubectl proxy --port=8001`",
            ),
            ("warm-upgrade cache-evenkeel", "do it, in a pod of the cluster"),
        ],
        flags: &[],
    },
    ShortHelp {
        command: "agent",
        examples: &[("/etc/evenkeel/agent.toml", "beside the routers and servers of this host")],
        flags: &[],
    },
    ShortHelp {
        command: "man",
        examples: &[("tune-check", "the page of a job; `| man -l -` shows it")],
        flags: &[],
    },
    ShortHelp {
        command: "completions",
        examples: &[("bash", "source <(evenkeel completions bash) in ~/.bashrc")],
        flags: &[],
    },
    ShortHelp {
        command: "tune tournament",
        examples: &[(
            "--load ./load.sh --metric /latency/p99_us --better lower --strategies none,spread,rps-rfs",
            "which layout is best under this load",
        )],
        flags: &[],
    },
];

/// The whole command line with the short help of its commands.
pub(super) fn with_short_help(command: Command) -> Command {
    SHORT_HELPS.iter().fold(command, |command, help| {
        let mut words = help.command.split(' ');
        let verb = words.next().expect("a verb");
        match words.next() {
            None => command.mut_subcommand(verb, |found| help.added_to(found)),
            Some(job) => {
                command.mut_subcommand(verb, |found| found.mut_subcommand(job, |found| help.added_to(found)))
            }
        }
    })
}

impl ShortHelp {
    fn added_to(&self, command: Command) -> Command {
        let long = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
        let short = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = self.shown();
        let is_listed = |name: &str| self.flags.is_empty() || self.flags.contains(&name);
        let command = command.mut_args(|argument| {
            match is_listed(argument.get_id().as_str()) || argument.is_positional() {
                true => argument,
                false => argument.hide_short_help(true),
            }
        });
        let rest = match self.flags.is_empty() {
            true => String::new(),
            false => format!("\n\n`evenkeel {} --help` has all flags.", self.command),
        };
        command
            .after_long_help(joined(&examples, long.as_deref().unwrap_or_default()))
            .after_help(joined(&examples, &short) + &rest)
    }

    fn shown(&self) -> String {
        let line = |(words, what): &(&str, &str)| {
            let typed = format!("evenkeel {} {words}", self.command);
            format!("  {}\n          {what}", typed.trim_end())
        };
        let lines: Vec<String> = self.examples.iter().map(line).collect();
        format!("Examples:\n{}", lines.join("\n"))
    }
}

fn joined(examples: &str, rest: &str) -> String {
    format!("{examples}\n\n{rest}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let mut command = crate::verbs::command(100);
        command.build();
        command
    }

    fn found<'c>(command: &'c Command, help: &ShortHelp) -> &'c Command {
        let words = help.command.split(' ');
        words.fold(command, |command, word| command.find_subcommand(word).expect(help.command))
    }

    #[test]
    fn every_example_is_accepted() {
        for help in &SHORT_HELPS {
            for (words, _) in help.examples {
                let typed = format!("evenkeel {} {words}", help.command).replace('\'', "");
                let typed: Vec<std::ffi::OsString> = typed.split_whitespace().map(Into::into).collect();
                let typed = if help.command == "route" { crate::route::words(&typed).0 } else { typed };
                if let Err(error) = crate::verbs::command(100).try_get_matches_from(&typed) {
                    panic!("{typed:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_verb_has_examples_and_every_listed_flag_exists() {
        let command = command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = verb.get_name();
            assert!(SHORT_HELPS.iter().any(|help| help.command == name), "{name} has no examples");
        }
        for help in &SHORT_HELPS {
            for flag in help.flags {
                let has = found(&command, help).get_arguments().any(|argument| argument.get_id() == *flag);
                assert!(has, "{} has no flag {flag}", help.command);
            }
        }
    }

    #[test]
    fn the_short_help_is_shorter_and_the_long_one_has_everything() {
        let command = command();
        for help in SHORT_HELPS.iter().filter(|help| !help.flags.is_empty()) {
            let mut found = found(&command, help).clone();
            let (short, long) = (found.render_help().to_string(), found.render_long_help().to_string());
            assert!(short.contains("Examples:") && long.contains("Examples:"), "{}", help.command);
            let is_hidden =
                |argument: &&clap::Arg| argument.is_hide_short_help_set() && !argument.is_hide_set();
            let hidden = found.get_arguments().find(is_hidden).unwrap();
            let flag = format!("--{}", hidden.get_long().unwrap());
            assert!(!short.contains(&flag) && long.contains(&flag), "{}: {flag}", help.command);
        }
    }
}
