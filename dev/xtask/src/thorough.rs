//! Tests that take too long for every change, and run before a release: `cargo xtask test --all`.

/// Tests that take a minute or more.
pub(crate) struct LongTests {
    /// Their binary.
    pub(crate) binary: &'static str,
    /// How their names begin.
    pub(crate) prefix: &'static str,
    /// What they are about.
    pub(crate) what: &'static str,
}

/// Left out of a run that is not thorough.
pub(crate) const LONG_TESTS: [LongTests; 5] = [
    LongTests { binary: "end_to_end/main", prefix: "partitions::", what: "a fleet whose network is cut" },
    LongTests {
        binary: "end_to_end/main",
        prefix: "resize::",
        what: "a cluster that grows and shrinks back",
    },
    LongTests {
        binary: "end_to_end/main",
        prefix: "fleet::changing::",
        what: "changes of hosts by two operators, and of hosts that have changed meanwhile",
    },
    LongTests {
        binary: "end_to_end/main",
        prefix: "waves::",
        what: "changes of hosts that harm and help, by canaries and waves",
    },
    LongTests {
        binary: "simulator",
        prefix: "scenario::tests::a_hunt_",
        what: "random scenarios until each planted bug is found",
    },
];

/// Random tests that run again with more seeds.
pub(crate) struct MoreSeeds {
    /// Their binary.
    pub(crate) binary: &'static str,
    /// How their names begin.
    pub(crate) prefix: &'static str,
    /// For `EVENKEEL_TEST_SEEDS`; a run that is not thorough has the first few.
    pub(crate) seeds: &'static str,
}

/// Ten times as many as in a run that is not thorough, or more.
pub(crate) const MORE_SEEDS: [MoreSeeds; 6] = [
    MoreSeeds { binary: "server/main", prefix: "random::", seeds: "0..3000" },
    MoreSeeds { binary: "store/main", prefix: "manifest::no_manifest", seeds: "0..10000" },
    MoreSeeds { binary: "router", prefix: "worker::tests::random::", seeds: "0..100" },
    MoreSeeds { binary: "router/random", prefix: "", seeds: "0..20000" },
    MoreSeeds { binary: "control/main", prefix: "register::script::", seeds: "0..20" },
    MoreSeeds { binary: "end_to_end/main", prefix: "differential::", seeds: "0..400" },
];

/// What a run that is not thorough leaves out, a line each.
pub(crate) fn left_out() -> Vec<String> {
    let tests =
        LONG_TESTS.iter().map(|LongTests { binary, prefix, what }| format!("{binary} {prefix}: {what}"));
    let seeds = MORE_SEEDS.iter().map(|MoreSeeds { binary, prefix, seeds }| {
        format!("{binary} {prefix}: seeds {seeds}").replace(" :", ":")
    });
    let others = [
        "the release build, and all tests that start a program with it",
        "virtual machines of the lab: two kernels, two with disks, two with interrupts",
        "packages in Debian 12 and 13 with systemd, the image under runc and in Docker, another architecture, every expression of dashboards and rules with a Prometheus",
        "a real Kubernetes: every object of the chart, and upgrades of servers under load (EVENKEEL_TEST_KUBERNETES=1)",
        "rendered pods of the chart with a control plane as processes: two fleets in which a spare takes over",
        "the site as HTML and the console, in a browser, three tabs of it for an hour, and keys and signatures by the commands of the pages",
        "what lintian, rpmlint, helm, kubeconform and promtool say of packages, chart and rules, unless they are installed",
    ];
    let lines = tests.chain(seeds).chain(others.map(str::to_owned));
    lines.map(|line| format!("only with --all: {line}")).collect()
}
