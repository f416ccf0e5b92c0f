//! Memory: huge pages, swap, dirty pages, allocators.

use super::figures::{bytes, count, happened, per_second, percent};
use super::host::{RuleInput, named};
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::facts::{Service, ServiceKind};
use crate::settings::profile::Profile;
use crate::settings::{memory, sysctls};
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "huge-pages-always",
            title: "transparent huge pages are forced on a service that suffers from them",
            evidence: "transparent_hugepage/enabled is `always` and Redis or MySQL runs here; beside \
                       memcached and Evenkeel a note, and a warning if the kernel also stops them to compact memory \
                       (`defrag` is `always`, too, and compact_stall grows).",
            meaning: "Redis copies 2 MiB instead of 4 KiB for every page touched during a save; MySQL's allocators \
                      waste memory; direct compaction stops the thread that touches a page. A cache that fills slowly takes \
                      more memory than its limit, as every first touch of a page takes 2 MiB.",
            remedy: "madvise for all, so that only programs that ask for huge pages get them; defrag not `always`.",
        },
        remedy: Remedy::settings(&[memory::huge_pages_on_request, memory::compaction_on_request]),
        find: huge_pages,
    },
    Rule {
        explanation: Explanation {
            rule: "swapping",
            title: "memory is being swapped",
            evidence: "vmstat pswpin grows by a page per second or more (critical) or pswpout does (warning), in most \
                       parts of the window; or a service has memory in swap.",
            meaning: "A page that comes back from a disk takes a thousand times as long as one in memory, and the \
                      thread waits for it.",
            remedy: "Give services less memory than there is; vm.swappiness = 1 on hosts that hold data in memory.",
        },
        remedy: Remedy::ByHand,
        find: swapping,
    },
    Rule {
        explanation: Explanation {
            rule: "swappiness-high",
            title: "the kernel prefers to swap services out",
            evidence: "vm.swappiness above 10 while a data server runs, and there is swap (SwapTotal).",
            meaning: "Under pressure the kernel weighs pages of programs against its cache of files; a data server's \
                      own pages are worth more.",
            remedy: "vm.swappiness = 1.",
        },
        remedy: Remedy::settings(&[sysctls::swappiness]),
        find: swappiness,
    },
    Rule {
        explanation: Explanation {
            rule: "overcommit-guessed",
            title: "the kernel may refuse the memory of a background save (Redis)",
            evidence: "vm.overcommit_memory is 0 and Redis or Valkey runs here.",
            meaning: "A save forks the server. With 0 the kernel guesses whether there is memory for a second copy of all \
                      of it, and refuses the fork of a large server although it copies little.",
            remedy: "vm.overcommit_memory = 1. The host then may run out of memory where it refused some before.",
        },
        remedy: Remedy::of_profile(Profile::Redis, &[sysctls::overcommit]),
        find: overcommit,
    },
    Rule {
        explanation: Explanation {
            rule: "memory-pressure",
            title: "tasks stand still for lack of memory",
            evidence: "pressure/memory: some task was stalled for 1 % of the window or more, and of most of its parts; \
                       critical from 10 % on.",
            meaning: "The kernel has to reclaim memory before it can give any.",
            remedy: "Smaller services, or more memory.",
        },
        remedy: Remedy::ByHand,
        find: pressure,
    },
    Rule {
        explanation: Explanation {
            rule: "dirty-pages-many",
            title: "very much written data may wait in memory",
            evidence: "A database runs here and vm.dirty_ratio of the memory is 8 GiB or more (and vm.dirty_bytes is \
                       not set).",
            meaning: "When that limit is reached, writers stand still until much of it is on disk: long pauses \
                      instead of steady writing.",
            remedy: "vm.dirty_background_bytes of some 100 MiB and vm.dirty_bytes of 1 GiB or so, or lower ratios.",
        },
        remedy: Remedy::settings(&[sysctls::dirty_pages]),
        find: dirty,
    },
    Rule {
        explanation: Explanation {
            rule: "allocator-libc",
            title: "a database uses the C library's allocator",
            evidence: "MySQL or MariaDB runs without jemalloc, tcmalloc or mimalloc.",
            meaning: "With many threads the C library's allocator contends and fragments (Pinterest 2015 moved MySQL \
                      to jemalloc together with a newer kernel and settings: 5,000 to 26,000 queries per second).",
            remedy: "LD_PRELOAD of jemalloc in the unit, or malloc-lib of mysqld_safe. Measure: it depends on the load.",
        },
        remedy: Remedy::ByHand,
        find: allocator,
    },
];

const SWAPPED_IN_PER_S: f64 = 1.0;
/// Red Hat and Percona recommend 1 for databases; a little more is no finding.
const SWAPPINESS_MAX: u64 = 10;
const PRESSURE_WARNING_PERCENT: f64 = 1.0;
const PRESSURE_CRITICAL_PERCENT: f64 = 10.0;
/// At 400 MB/s, twenty seconds of writing (proposal).
const DIRTY_BYTES_MAX: u64 = 8 << 30;

/// Services that hold data.
const DATA: [ServiceKind; 4] =
    [ServiceKind::Memcached, ServiceKind::Evenkeel, ServiceKind::Mysql, ServiceKind::Redis];

fn huge_pages(host: &RuleInput) -> Vec<Finding> {
    if host.facts.huge_pages.enabled.as_deref() != Some("always") {
        return Vec::new();
    }
    let stalls = host.series.rate(|reading| reading.vmstat.get("compact_stall").copied());
    let stalling = stalls.filter(|rate| rate.count > 0);
    // With another word there, only programs that ask for huge pages wait for them; the stalls have another cause.
    let defrag = host.facts.huge_pages.defrag.as_deref();
    let compacts = defrag.is_none_or(|defrag| defrag == "always");
    let finding = |service: &Service| {
        let (severity, why) = match service.kind {
            ServiceKind::Redis => {
                (Severity::Warning, "a save copies 2 MiB for every page that is touched meanwhile")
            }
            ServiceKind::Mysql => (Severity::Warning, "its allocator wastes memory on huge pages"),
            _ if stalling.is_some() && compacts => {
                (Severity::Warning, "threads wait while the kernel compacts memory for huge pages")
            }
            _ => {
                (Severity::Note, "each page that it touches first may take 2 MiB, and the time to clear them")
            }
        };
        let finding = Finding::about(severity, named(service))
            .cause(format!("huge pages are forced on {}: {why}", service.name))
            .effect("fewer pauses, and less memory")
            .saw(Evidence::setting("transparent_hugepage/enabled", "always"))
            .saw(Evidence::setting("transparent_hugepage/defrag", defrag.unwrap_or("unknown")))
            .saw(Evidence::setting("memory in huge pages", bytes(service.huge_bytes)));
        match stalling {
            Some(rate) => finding.saw(host.measured("compact_stall", happened(rate)).threshold("0")),
            None => finding,
        }
    };
    host.services(&DATA).into_iter().map(finding).collect()
}

fn swapping(host: &RuleInput) -> Vec<Finding> {
    let rate = |counter: &str| host.series.rate(|reading| reading.vmstat.get(counter).copied());
    let mut findings = Vec::new();
    if let (Some(into), Some(out)) = (rate("pswpin"), rate("pswpout"))
        && into.per_s().max(out.per_s()) >= SWAPPED_IN_PER_S
        && host.mostly(is_swapping)
    {
        let critical = into.per_s() >= SWAPPED_IN_PER_S;
        let finding = Finding::about(if critical { Severity::Critical } else { Severity::Warning }, "memory")
            .cause("memory is short, and the kernel moves pages to the disk and back")
            .effect("no thread waits for a page from a disk")
            .saw(host.measured("pswpin", per_second(into.per_s())).threshold(per_second(SWAPPED_IN_PER_S)))
            .saw(host.measured("pswpout", per_second(out.per_s())).threshold(per_second(SWAPPED_IN_PER_S)));
        findings.push(finding);
    }
    let swapped = host.facts.services.iter().filter(|service| service.swapped_bytes > 0);
    findings.extend(swapped.map(|service| {
        Finding::about(Severity::Warning, named(service))
            .cause(format!("a part of {} is in swap", service.name))
            .effect("no thread waits for a page from a disk")
            .saw(Evidence::setting("swapped out", bytes(service.swapped_bytes)).threshold("0"))
            .saw(Evidence::setting("resident", bytes(service.resident_bytes)))
    }));
    findings
}

fn is_swapping(host: &RuleInput) -> bool {
    let rate = |counter: &str| host.series.rate(|reading| reading.vmstat.get(counter).copied());
    ["pswpin", "pswpout"].into_iter().filter_map(rate).any(|rate| rate.per_s() >= SWAPPED_IN_PER_S)
}

fn swappiness(host: &RuleInput) -> Vec<Finding> {
    let high = host.facts.sysctl("vm.swappiness").filter(|swappiness| *swappiness > SWAPPINESS_MAX);
    let (Some(swappiness), Some(service)) = (high, host.services(&DATA).first().copied()) else {
        return Vec::new();
    };
    let Some(swap) = host.facts.swap_bytes.filter(|swap| *swap > 0) else { return Vec::new() };
    vec![
        Finding::about(Severity::Note, "vm.swappiness")
            .cause(format!(
                "under pressure the kernel would rather swap out {} than drop cached files",
                service.name
            ))
            .effect("a data server's pages stay in memory")
            .saw(
                Evidence::setting("vm.swappiness", swappiness.to_string())
                    .threshold(SWAPPINESS_MAX.to_string()),
            )
            .saw(Evidence::setting("swap", bytes(swap))),
    ]
}

fn overcommit(host: &RuleInput) -> Vec<Finding> {
    let guesses = host.facts.sysctl("vm.overcommit_memory") == Some(0);
    let services = host.services(&[ServiceKind::Redis]);
    let Some(service) = services.first().filter(|_| guesses) else { return Vec::new() };
    vec![
        Finding::about(Severity::Warning, "vm.overcommit_memory")
            .cause(format!("a background save of {} may fail although there is memory for it", service.name))
            .effect("saves and full synchronisations of replicas begin")
            .saw(Evidence::setting("vm.overcommit_memory", "0").threshold("1"))
            .saw(Evidence::setting(format!("resident, {}", named(service)), bytes(service.resident_bytes))),
    ]
}

fn pressure(host: &RuleInput) -> Vec<Finding> {
    let stalls = |part: &RuleInput| stalled_percent(part).filter(|share| *share >= PRESSURE_WARNING_PERCENT);
    let Some(share) = stalls(host).filter(|_| host.mostly(|part| stalls(part).is_some())) else {
        return Vec::new();
    };
    let critical = share >= PRESSURE_CRITICAL_PERCENT;
    vec![
        Finding::about(if critical { Severity::Critical } else { Severity::Warning }, "memory")
            .cause("tasks stand still until the kernel has reclaimed memory")
            .effect("memory is there when it is asked for")
            .saw(
                host.measured("pressure/memory some", percent(share))
                    .threshold(percent(PRESSURE_WARNING_PERCENT)),
            )
            .saw(Evidence::setting("memory", bytes(host.facts.memory_bytes))),
    ]
}

/// Part of the time in which some task waited for memory; `None`: the kernel does not report it (no PSI).
fn stalled_percent(host: &RuleInput) -> Option<f64> {
    let stalled = host.series.rate(|reading| reading.stalled_us.get("memory").copied());
    stalled.map(|stalled| stalled.per_s() / 1e4)
}

fn dirty(host: &RuleInput) -> Vec<Finding> {
    let databases = host.services(&[ServiceKind::Mysql]);
    let in_bytes = host.facts.sysctl("vm.dirty_bytes").is_some_and(|bytes| bytes > 0);
    let Some(ratio) = host.facts.sysctl("vm.dirty_ratio").filter(|_| !in_bytes && !databases.is_empty())
    else {
        return Vec::new();
    };
    let most = host.facts.memory_bytes / 100 * ratio;
    if most < DIRTY_BYTES_MAX {
        return Vec::new();
    }
    vec![
        Finding::about(Severity::Note, "vm.dirty_ratio")
            .cause(format!(
                "{} may be written before anything forces it to disk; then writers stand still",
                bytes(most)
            ))
            .effect("steady writing instead of long pauses")
            .saw(Evidence::setting("vm.dirty_ratio", format!("{} %", count(ratio))))
            .saw(Evidence::setting("of the memory", bytes(most)).threshold(bytes(DIRTY_BYTES_MAX))),
    ]
}

fn allocator(host: &RuleInput) -> Vec<Finding> {
    let plain =
        host.services(&[ServiceKind::Mysql]).into_iter().filter(|service| service.allocator == "libc");
    let finding = |service: &Service| {
        Finding::about(Severity::Note, named(service))
            .cause(format!("{} uses the C library's allocator", service.name))
            .effect("less contention between threads, and less fragmentation")
            .saw(Evidence::setting("allocator", &service.allocator))
            .saw(Evidence::setting("resident", bytes(service.resident_bytes)))
    };
    plain.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn huge_pages_by_service() {
        check("thp always\n service redis pid=7", "huge-pages-always redis (PID 7): always");
        check("thp always\n service mysqld pid=7", "huge-pages-always mysqld (PID 7): always");
        check("thp madvise\n service redis pid=7", "no huge-pages-always");
        check(
            "thp always\n service memcached pid=7\n count vmstat compact_stall=0",
            "huge-pages-always note fixable memcached (PID 7): always",
        );
        check(
            "thp always\n service memcached pid=7\n count vmstat compact_stall=9",
            "huge-pages-always warning memcached (PID 7): always, unknown, 0 B, 9 (0.3 /s)",
        );
        check(
            "thp always always\n service memcached pid=7\n count vmstat compact_stall=9",
            "huge-pages-always memcached (PID 7): always, always",
        );
        check(
            "thp always madvise\n service memcached pid=7\n count vmstat compact_stall=9",
            "huge-pages-always note memcached (PID 7): always, madvise",
        );
        check("thp madvise\n service memcached pid=7", "no huge-pages-always");
    }

    #[test]
    fn redis_forks_where_the_kernel_guesses() {
        let host =
            |kind: &str, value: u32| format!("service {kind} pid=7\n sysctl vm.overcommit_memory={value}");
        check(&host("redis", 0), "overcommit-guessed warning fixable vm.overcommit_memory: 0");
        check(&host("redis", 1), "no overcommit-guessed");
        check(&host("memcached", 0), "no overcommit-guessed");
    }

    #[test]
    fn swapping_in_is_worse_than_swapping_out() {
        check("count vmstat pswpin=300 pswpout=0", "swapping critical memory: 10 /s");
        check("count vmstat pswpin=0 pswpout=300", "swapping warning memory: 0.0 /s, 10 /s");
        check("count vmstat pswpin=29 pswpout=0", "no swapping");
        check("service mysqld pid=7 swapped=4096", "swapping warning mysqld (PID 7): 4 KiB");
    }

    #[test]
    fn swappiness_matters_to_data_servers() {
        check("swap 8\n sysctl vm.swappiness=10\n service mysqld pid=7", "no swappiness-high");
        check("swap 8\n sysctl vm.swappiness=60\n service nginx pid=7", "no swappiness-high");
        check("sysctl vm.swappiness=60\n service mysqld pid=7", "no swappiness-high");
        check(
            "swap 8\n sysctl vm.swappiness=60\n service mysqld pid=7",
            "swappiness-high vm.swappiness: 60, 8 GiB",
        );
        check("swap 0\n sysctl vm.swappiness=60\n service mysqld pid=7", "no swappiness-high");
    }

    #[test]
    fn tasks_that_stand_still_for_memory() {
        check("pressure memory=12", "memory-pressure critical memory: 12 %");
        check("pressure memory=1", "memory-pressure warning memory: 1.0 %");
        check("pressure memory=0", "no memory-pressure");
    }

    #[test]
    fn a_large_share_of_a_large_memory() {
        let host = "memory 64\n service mysqld pid=7\n sysctl vm.dirty_ratio=20";
        check(host, "dirty-pages-many vm.dirty_ratio: 20 %, 13 GiB");
        check(&host.replace("=20", "=10"), "no dirty-pages-many");
        check(&host.replace("mysqld", "memcached"), "no dirty-pages-many");
        check(&format!("{host} vm.dirty_bytes=1000000000"), "no dirty-pages-many");
    }

    #[test]
    fn databases_and_their_allocator() {
        check("service mysqld pid=7 allocator=libc", "allocator-libc note mysqld (PID 7): libc");
        check("service mysqld pid=7 allocator=jemalloc", "no allocator-libc");
        check("service memcached pid=7 allocator=libc", "no allocator-libc");
    }
}
