//! Cores: those that are slowed down for their heat, and those that are slower by design.

use super::figures::{cpus, happened};
use super::host::{RuleInput, named};
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::facts::Service;
use crate::observe::reading::Rate;
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "cpu-heat-throttled",
            title: "CPUs are slowed down for their heat or power",
            evidence: "thermal_throttle/core_throttle_count or package_throttle_count grows (x86).",
            meaning: "The processor lowers its clock below what it was sold for, so that figures before and after cannot \
                      be compared, and requests take longer at the same load.",
            remedy: "Cooling, dust, fans, the power limit of the firmware, or less load on this machine.",
        },
        remedy: Remedy::ReportOnly,
        find: heat,
    },
    Rule {
        explanation: Explanation {
            rule: "cores-differ",
            title: "a service may run on cores that are slower than others",
            evidence: "The processor has efficiency cores (/sys/devices/cpu_atom) or cores of less capacity \
                       (cpu_capacity), and threads of a service may run on both kinds.",
            meaning: "The same request takes longer on a slow core, by half or more, and which one it meets is chance: \
                      the tail of the latency is that of the slow cores.",
            remedy: "Keep the service to the fast cores (AllowedCPUs=), and leave the slow ones to everything else.",
        },
        remedy: Remedy::ByHand,
        find: differ,
    },
];

fn heat(host: &RuleInput) -> Vec<Finding> {
    let grown = |cpu: u32| host.series.rate(|reading| reading.heat_throttles.get(&cpu).copied());
    let throttled = host.online.iter().filter_map(|cpu| Some((cpu, grown(cpu)?.count)));
    let throttled: Vec<(u32, u64)> = throttled.filter(|(_, count)| *count > 0).collect();
    let Some(most) = throttled.iter().map(|(_, count)| *count).max() else { return Vec::new() };
    let on: CpuSet = throttled.iter().map(|(cpu, _)| *cpu).collect();
    let most = Rate { count: most, window_s: host.series.window_s() };
    vec![
        Finding::about(Severity::Warning, cpus(&on))
            .cause("the processor is too hot, or takes too much power, and lowers its clock")
            .effect("requests take the time that they take on a cool machine")
            .saw(host.measured("throttled, most on one CPU", happened(most)).threshold("0"))
            .not_here("no setting cools a machine: look at fans, dust and the power limit of its firmware"),
    ]
}

fn differ(host: &RuleInput) -> Vec<Finding> {
    let slower = host.facts.slower.and(&host.online);
    let faster = host.online.without(&slower);
    if slower.is_empty() || faster.is_empty() {
        return Vec::new();
    }
    let on_both = |service: &&Service| {
        let reach = service.threads.iter().fold(CpuSet::new(), |all, thread| all.or(&thread.affinity));
        !reach.and(&slower).is_empty() && !reach.and(&faster).is_empty()
    };
    let finding = |service: &Service| {
        Finding::about(Severity::Note, named(service))
            .cause(format!("{} runs on fast cores and on slow ones, by chance", service.name))
            .effect("every request meets a fast core")
            .saw(Evidence::setting("slower cores", slower.to_string()))
            .saw(Evidence::setting("others", faster.to_string()))
    };
    host.facts.services.iter().filter(on_both).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn cpus_that_were_slowed_down_meanwhile() {
        check("cpus 4\n heat 0-1 throttled=9", "cpu-heat-throttled warning not-here CPUs 0-1: 9 (0.3 /s)");
        check("cpus 4\n heat 0-3 throttled=0", "no cpu-heat-throttled");
        check("cpus 4", "no cpu-heat-throttled");
    }

    #[test]
    fn a_service_on_both_kinds_of_cores() {
        let host = "cpus 8\n slower 4-7\n service memcached pid=812 cpus=";
        check(&format!("{host}0-7"), "cores-differ note fixable memcached (PID 812): 4-7, 0-3");
        check(&format!("{host}0-3"), "no cores-differ");
        check(&format!("{host}4-7"), "no cores-differ");
        check("cpus 8\n service memcached pid=812 cpus=0-7", "no cores-differ");
    }
}
