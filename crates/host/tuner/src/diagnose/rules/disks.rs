//! Disks, arrays of them, and file systems on them.

use super::figures::{bytes, count, per_second, percent, percent_if_known};
use super::host::RuleInput;
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::facts::{BlockDevice, Mount, Service, ServiceKind};
use crate::settings::disks;
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "io-scheduler",
            title: "requests to a fast disk are reordered",
            evidence: "A disk that does not turn has an I/O scheduler although `none` is to be had. A warning while it \
                       is busy for 30 % of the window or more.",
            meaning: "Solid-state disks gain nothing from sorting requests, and every request pays for it.",
            remedy: "queue/scheduler = none.",
        },
        remedy: Remedy::settings(&[disks::no_scheduler]),
        find: scheduler,
    },
    Rule {
        explanation: Explanation {
            rule: "io-merges",
            title: "the kernel looks for requests to merge in vain",
            evidence: "A disk that does not turn serves 10,000 requests per second or more and queue/nomerges is not 2.",
            meaning: "Random requests have no neighbours; the search costs CPU for each.",
            remedy: "queue/nomerges = 2, unless there is much sequential reading and writing.",
        },
        remedy: Remedy::settings(&[disks::no_merges]),
        find: merges,
    },
    Rule {
        explanation: Explanation {
            rule: "read-ahead-large",
            title: "a database's disk reads ahead",
            evidence: "MySQL or MariaDB runs here, and a disk reads more than 128 KiB ahead.",
            meaning: "Random reads of 16 KiB pages then move many times that amount.",
            remedy: "queue/read_ahead_kb = 16 to 128 for the database's disks and arrays.",
        },
        remedy: Remedy::settings(&[disks::less_read_ahead]),
        find: read_ahead,
    },
    Rule {
        explanation: Explanation {
            rule: "mount-options",
            title: "a file system writes for every read, or discards while it works",
            evidence: "A mount that holds the data of a service (the working directory of MySQL and Redis, ext_path of \
                       memcached and Evenkeel), with strictatime, or with discard; and without noatime where it is a database's. \
                       All mounts count where a database runs whose directory cannot be read.",
            meaning: "Access times turn reads into writes. Online discard makes deletions wait for the disk.",
            remedy: "noatime in /etc/fstab, and fstrim.timer in place of discard.",
        },
        remedy: Remedy::ByHand,
        find: mounts,
    },
    Rule {
        explanation: Explanation {
            rule: "raid-degraded",
            title: "an array of disks has lost a disk",
            evidence: "md's `degraded` is not 0.",
            meaning: "The array works without reserve, and reads may have to be computed from the other disks.",
            remedy: "Replace the disk.",
        },
        remedy: Remedy::ReportOnly,
        find: degraded,
    },
    Rule {
        explanation: Explanation {
            rule: "raid0-chunk-small",
            title: "a RAID 0 splits requests into small pieces",
            evidence: "A RAID 0 with chunks of less than 64 KiB.",
            meaning: "A request that crosses a chunk's end goes to two disks and waits for the slower one.",
            remedy: "Chunks of 256 to 512 KiB; the array has to be made anew.",
        },
        remedy: Remedy::ReportOnly,
        find: chunk,
    },
    Rule {
        explanation: Explanation {
            rule: "disk-saturated",
            title: "a disk is busy all the time, and requests wait",
            evidence: "A disk is busy for 90 % of the window or more, and of most of its parts, and requests take \
                       10 ms or longer on average.",
            meaning: "Requests come faster than the disk serves them. Cloud volumes slow down when an allowance of \
                      requests or bytes is used up.",
            remedy: "A faster disk or volume, or fewer requests: more memory for caches, larger writes.",
        },
        remedy: Remedy::ReportOnly,
        find: saturated,
    },
];

const BUSY_PERCENT: f64 = 30.0;
/// Rate from which the search for neighbours is visible in profiles (proposal).
const MERGES_REQUESTS_PER_S: f64 = 10_000.0;
/// The kernel's default.
const READ_AHEAD_MAX_KB: u32 = 128;
/// A request of four pages of InnoDB should rarely be split (proposal).
const CHUNK_MIN_BYTES: u64 = 64 << 10;
const SATURATED_PERCENT: f64 = 90.0;
const SLOW_MS: f64 = 10.0;

/// A disk's work: busy in percent, requests per second, milliseconds per request.
fn work(host: &RuleInput, disk: &BlockDevice) -> Option<(f64, f64, f64)> {
    let rate = |part: fn(&crate::observe::reading::DiskTimes) -> u64| {
        host.series.rate(|reading| reading.disks.get(&disk.name).map(part))
    };
    let (busy, requests, waited) = (rate(|d| d.busy_ms)?, rate(|d| d.requests)?, rate(|d| d.waited_ms)?);
    Some((busy.per_s() / 10.0, requests.per_s(), waited.count as f64 / requests.count.max(1) as f64))
}

fn fast<'a>(host: &RuleInput<'a>) -> impl Iterator<Item = &'a BlockDevice> {
    host.facts.disks.iter().filter(|disk| !disk.rotational)
}

fn has_database(host: &RuleInput) -> bool {
    !host.services(&[ServiceKind::Mysql]).is_empty()
}

fn scheduler(host: &RuleInput) -> Vec<Finding> {
    let finding = |disk: &BlockDevice| {
        let scheduler = disk.scheduler.as_deref().filter(|scheduler| *scheduler != "none")?;
        let busy = work(host, disk).map(|(busy, ..)| busy);
        let is_busy = busy.is_some_and(|busy| busy >= BUSY_PERCENT);
        let severity = if is_busy { Severity::Warning } else { Severity::Note };
        disk.schedulers.iter().any(|scheduler| scheduler == "none").then(|| {
            Finding::about(severity, &disk.name)
                .cause(format!("every request to {} passes through {scheduler}", disk.name))
                .effect("less CPU per request, and lower latency")
                .saw(Evidence::setting("queue/scheduler", scheduler).threshold("none"))
                .saw(host.measured("busy", percent_if_known(busy)))
        })
    };
    fast(host).filter_map(finding).collect()
}

fn merges(host: &RuleInput) -> Vec<Finding> {
    let finding = |disk: &BlockDevice| {
        let nomerges = disk.nomerges.filter(|nomerges| *nomerges != 2)?;
        let (_, requests, _) = work(host, disk)?;
        (requests >= MERGES_REQUESTS_PER_S).then(|| {
            Finding::about(Severity::Note, &disk.name)
                .cause(format!("for each request to {} the kernel looks for neighbours to merge", disk.name))
                .effect("less CPU per request")
                .saw(
                    host.measured("requests", per_second(requests))
                        .threshold(per_second(MERGES_REQUESTS_PER_S)),
                )
                .saw(Evidence::setting("queue/nomerges", nomerges.to_string()).threshold("2"))
        })
    };
    fast(host).filter_map(finding).collect()
}

fn read_ahead(host: &RuleInput) -> Vec<Finding> {
    let finding = |disk: &BlockDevice| {
        let ahead = disk.read_ahead_kb.filter(|ahead| *ahead > READ_AHEAD_MAX_KB && has_database(host))?;
        Some(
            Finding::about(Severity::Note, &disk.name)
                .cause(format!("a random read from {} may move {} KiB", disk.name, count(ahead.into())))
                .effect("random reads move what was asked for")
                .saw(
                    Evidence::setting("queue/read_ahead_kb", format!("{} KiB", count(ahead.into())))
                        .threshold(format!("{READ_AHEAD_MAX_KB} KiB")),
                ),
        )
    };
    host.facts.disks.iter().filter_map(finding).collect()
}

fn mounts(host: &RuleInput) -> Vec<Finding> {
    let finding = |mount: &Mount| {
        let has = |option: &str| mount.options.iter().any(|found| found == option);
        let (severity, cause) = match () {
            () if has("strictatime") => (Severity::Warning, "every read writes an access time"),
            () if has("discard") => {
                (Severity::Note, "deletions wait until the disk has discarded the blocks")
            }
            () if !has("noatime") && !has("ro") && has_database(host) => {
                (Severity::Note, "reads write an access time now and then")
            }
            () => return None,
        };
        Some(
            Finding::about(severity, &mount.path)
                .cause(format!("on {}, {cause}", mount.path))
                .effect("the disk does only what programs asked for")
                .saw(Evidence::setting(
                    format!("{} on {}", mount.kind, mount.device),
                    mount.options.join(","),
                )),
        )
    };
    host.facts.mounts.iter().filter(|mount| holds_data(host, mount)).filter_map(finding).collect()
}

/// Whether a service keeps its data there. On other file systems options do not affect requests.
fn holds_data(host: &RuleInput, mount: &Mount) -> bool {
    let services = &host.facts.services;
    let unknown = |service: &Service| service.kind == ServiceKind::Mysql && service.data.is_empty();
    let mut paths = services.iter().flat_map(|service| &service.data);
    services.iter().any(unknown)
        || paths.any(|path| host.facts.mount_of(path).is_some_and(|above| above.path == mount.path))
}

fn degraded(host: &RuleInput) -> Vec<Finding> {
    let finding = |disk: &BlockDevice| {
        let raid = disk.raid.as_ref().filter(|raid| raid.degraded > 0)?;
        Some(
            Finding::about(Severity::Critical, &disk.name)
                .cause(format!(
                    "{} ({}) works without {} of its {} disks",
                    disk.name, raid.level, raid.degraded, raid.disks
                ))
                .effect("full speed, and another disk may fail")
                .saw(Evidence::setting("md/degraded", raid.degraded.to_string()).threshold("0"))
                .not_here("a disk has to be replaced"),
        )
    };
    host.facts.disks.iter().filter_map(finding).collect()
}

fn chunk(host: &RuleInput) -> Vec<Finding> {
    let finding = |disk: &BlockDevice| {
        let raid = disk.raid.as_ref()?;
        let small = raid.level == "raid0" && (1..CHUNK_MIN_BYTES).contains(&raid.chunk_bytes);
        small.then(|| {
            Finding::about(Severity::Note, &disk.name)
                .cause(format!("requests of more than {} go to several disks", bytes(raid.chunk_bytes)))
                .effect("a request waits for one disk only")
                .saw(Evidence::setting("md/chunk_size", bytes(raid.chunk_bytes)).threshold(bytes(CHUNK_MIN_BYTES)))
                .not_here("the chunk of an array cannot be changed under its data: make it anew when it is next empty")
        })
    };
    host.facts.disks.iter().filter_map(finding).collect()
}

fn saturated(host: &RuleInput) -> Vec<Finding> {
    let finding = |disk: &BlockDevice| {
        let (busy, requests, wait_ms) = work(host, disk)?;
        let is_full = |part: &RuleInput| work(part, disk).is_some_and(|(busy, ..)| busy >= SATURATED_PERCENT);
        (busy >= SATURATED_PERCENT && wait_ms >= SLOW_MS && host.mostly(is_full)).then(|| {
            Finding::about(Severity::Critical, &disk.name)
                .cause(format!("requests come faster than {} serves them", disk.name))
                .effect("threads wait less for the disk")
                .saw(host.measured("busy", percent(busy)).threshold(percent(SATURATED_PERCENT)))
                .saw(
                    host.measured("time per request", format!("{wait_ms:.0} ms"))
                        .threshold(format!("{SLOW_MS:.0} ms")),
                )
                .saw(host.measured("requests", per_second(requests)))
                .not_here("the disk itself is the limit: a faster disk or volume, or fewer requests")
        })
    };
    host.facts.disks.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn fast_disks_need_no_scheduler() {
        let disk = "disk nvme0n1 scheduler=mq-deadline schedulers=none,mq-deadline";
        check(disk, "io-scheduler note nvme0n1: mq-deadline");
        check(&format!("{disk}\n work nvme0n1 busy=40"), "io-scheduler warning nvme0n1: mq-deadline, 40 %");
        check(&disk.replace("scheduler=mq-deadline", "scheduler=none"), "no io-scheduler");
        check(&disk.replace("none,", ""), "no io-scheduler");
        check(&format!("{disk} rotational=1"), "no io-scheduler");
    }

    #[test]
    fn random_requests_have_no_neighbours() {
        let disk = "disk nvme0n1 nomerges=0\n work nvme0n1 requests=";
        check(&format!("{disk}300000"), "io-merges nvme0n1: 10,000 /s, 0");
        check(&format!("{disk}290000"), "no io-merges");
        check(&format!("{}300000", disk.replace("=0", "=2")), "no io-merges");
    }

    #[test]
    fn databases_read_at_random() {
        check("disk md0 ahead=4096\n service mysqld pid=7", "read-ahead-large md0: 4,096 KiB");
        check("disk md0 ahead=128\n service mysqld pid=7", "no read-ahead-large");
        check("disk md0 ahead=4096", "no read-ahead-large");
    }

    #[test]
    fn mounts_that_write_for_every_read() {
        let redis = "service redis pid=7 data=/data/redis\n mount / rw,strictatime,discard\n mount /data";
        check(
            &format!("{redis} rw,strictatime"),
            "mount-options warning /data: rw,strictatime\n one mount-options",
        );
        check(&format!("{redis} rw,noatime,discard"), "mount-options note /data: rw,noatime,discard");
        check("mount /data rw,relatime\n service mysqld pid=7", "mount-options note /data: rw,relatime");
        check("mount /data rw,relatime\n service mysqld pid=7 data=/", "no mount-options");
        check("mount /data rw,noatime\n service mysqld pid=7", "no mount-options");
    }

    #[test]
    fn without_data_no_mount_matters() {
        let mount = "mount / rw,relatime,discard\n mount /data rw,strictatime";
        check(mount, "no mount-options");
        check(&format!("{mount}\n service memcached pid=7"), "no mount-options");
        check(
            &format!("{mount}\n service memcached pid=7 data=/database/ext"),
            "mount-options note /: rw,relatime,discard\n one mount-options",
        );
    }

    #[test]
    fn arrays() {
        check("disk md0 raid=raid1 degraded=1 chunk=0", "raid-degraded critical not-here md0: 1");
        check("disk md0 raid=raid0 degraded=0 chunk=524288", "no raid-degraded\n no raid0-chunk-small");
        check("disk md0 raid=raid0 degraded=0 chunk=4096", "raid0-chunk-small not-here md0: 4 KiB");
        check("disk md0 raid=raid1 degraded=0 chunk=0", "no raid0-chunk-small");
    }

    #[test]
    fn a_disk_at_its_limit() {
        let disk = "disk nvme1n1\n work nvme1n1 busy=99 requests=3000 waited=WAITED";
        check(&disk.replace("WAITED", "60000"), "disk-saturated not-here nvme1n1: 99 %, 20 ms, 100 /s");
        check(&disk.replace("WAITED", "6000"), "no disk-saturated");
        check(&disk.replace("WAITED", "60000").replace("=99", "=80"), "no disk-saturated");
    }
}
