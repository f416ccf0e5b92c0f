//! The next step for a pod: a pure function of what was seen of it.
//!
//! ```text
//!            no pod, or it ends ─► wait for the one that the StatefulSet makes, which has everything
//!  no record ─┬─ image and flags as wanted, ready ─► done
//!             └─ otherwise ─► wait until the flags' file in the pod is the new one ─► patch: image, record
//!  record ────┬─ container of before ─► wait
//!             ├─ new one fails, or has no items ─► halt
//!             └─ new one is ready, and has items ─► remove the record
//! ```

use crate::image;
use crate::outcome::{PodEnding, UpgradeHalt};
use crate::pod_facts::PodFacts;
use crate::record::UpgradeRecord;
use crate::server_page::{Restored, ServerFacts};
use crate::wanted::WantedServers;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpgradeStep {
    /// Nothing.
    Done(PodEnding),
    /// Nothing yet: what is waited for.
    Wait(String),
    /// Give the container this image, and write the record with it.
    Replace(UpgradeRecord),
    /// Remove the record: it has ended so.
    Settle(PodEnding),
    /// No further pod may be touched.
    Halt(UpgradeHalt),
}

/// The kubelet's word for a container that has ended and is not started again yet.
const CRASHED: &str = "CrashLoopBackOff";

/// Fields of a container that flags may rely on: memory, files, ports.
const NEEDED_BY_FLAGS: [&str; 4] = ["ports", "resources", "volumeMounts", "volumes"];

/// Restarts of one server for its flags: the first one reads the file that was there before it. A second is for a file that was
/// changed at that moment; another would be a fault of ours that restarts servers for ever.
const RESTARTS_MAX: u64 = 2;

/// What was seen of a pod: itself, and what its server says, or why it says nothing.
pub(crate) struct PodView<'s> {
    pub(crate) name: &'s str,
    pub(crate) namespace: &'s str,
    pub(crate) pod: Option<&'s PodFacts>,
    /// Asked only if the container runs.
    pub(crate) server: Result<&'s ServerFacts, &'s str>,
}

pub(crate) fn decide(wanted: &WantedServers, seen: &PodView<'_>) -> UpgradeStep {
    let Some(pod) = seen.pod else {
        return UpgradeStep::Wait("Kubernetes to make the pod".to_owned());
    };
    if pod.is_ending {
        return UpgradeStep::Wait("the pod to end, and another one in its place".to_owned());
    }
    // One of another image is of an upgrade before, which this one replaces.
    let begun = pod.record.as_ref().filter(|record| record.image == pod.image);
    match (begun, image::is_same(&pod.image, &wanted.image)) {
        (Some(record), true) => go_on(wanted, seen, pod, record),
        (None, true) => check(wanted, seen, pod),
        (_, false) => begin(wanted, seen, pod, wanted.image.clone(), 0),
    }
}

/// A pod whose container has been given its image.
fn go_on(wanted: &WantedServers, seen: &PodView<'_>, pod: &PodFacts, record: &UpgradeRecord) -> UpgradeStep {
    let container = &pod.container;
    let is_new = container.id.is_some() && container.id != record.container;
    if let Some(halt) = failed(seen, pod, is_new) {
        // It may have ended with flags of before, such as those that a rollback has taken back.
        let has_other_flags = wanted.flags.is_some() && record.flags != wanted.flags;
        let ends = pod.container.waits.as_ref().is_some_and(|(reason, _)| reason == CRASHED);
        return match ends && has_other_flags {
            true => UpgradeStep::Wait(not_running(
                pod,
                "Kubernetes to start the server again, which has ended and may have had the flags of before",
            )),
            false => UpgradeStep::Halt(halt),
        };
    }
    if !pod.is_observed || !is_new || !container.is_running {
        return UpgradeStep::Wait(not_running(pod, "the container of the new image to start"));
    }
    if !container.is_ready {
        return UpgradeStep::Wait("the new server to be ready".to_owned());
    }
    let server = match seen.server {
        Ok(server) => server,
        Err(why) => return UpgradeStep::Wait(format!("the new server to say how many items it has: {why}")),
    };
    let restored = match (server.restored, record.items) {
        (Restored::Items(0), Some(before)) if before > 0 => {
            return UpgradeStep::Halt(empty(seen, before));
        }
        (Restored::Items(items), _) => Some(items),
        // Nobody knows what there was, or there was nothing to lose.
        (_, None | Some(0)) => None,
        (Restored::Never | Restored::Unknown, Some(_)) => {
            let why =
                "the new server does not say whether it has the items of the one before (restored_items)";
            let way = format!(
                "look at its first lines (`kubectl -n {} logs {}`); {}",
                seen.namespace,
                seen.name,
                forget(seen)
            );
            return UpgradeStep::Halt(UpgradeHalt::new(why, way));
        }
    };
    if let Some(why) = other_flags(wanted, server) {
        if record.restarts >= RESTARTS_MAX {
            let why = format!(
                "the server was restarted {RESTARTS_MAX} times for its flags, and still has others: {why}"
            );
            return UpgradeStep::Halt(UpgradeHalt::new(
                why,
                "see whether something else changes its ConfigMap".to_owned(),
            ));
        }
        return restart(wanted, seen, pod, record.restarts);
    }
    UpgradeStep::Settle(PodEnding::Upgraded { before: record.items, restored })
}

/// A pod in which nothing has begun, with the image that is wanted.
fn check(wanted: &WantedServers, seen: &PodView<'_>, pod: &PodFacts) -> UpgradeStep {
    if let Some(halt) = failed(seen, pod, true) {
        return UpgradeStep::Halt(halt);
    }
    if !pod.container.is_running || !pod.container.is_ready {
        return UpgradeStep::Wait(not_running(pod, "the server to be ready"));
    }
    if wanted.flags.is_none() {
        return UpgradeStep::Done(PodEnding::AsWanted);
    }
    match seen.server {
        Err(why) => UpgradeStep::Wait(format!("the server to say which flags it has: {why}")),
        Ok(server) if server.flags.is_none() => UpgradeStep::Done(PodEnding::FlagsUnknown),
        Ok(server) if other_flags(wanted, server).is_some() => restart(wanted, seen, pod, 0),
        Ok(_) => UpgradeStep::Done(PodEnding::AsWanted),
    }
}

/// Restarts the server in place: its image gets its other name.
fn restart(wanted: &WantedServers, seen: &PodView<'_>, pod: &PodFacts, restarts: u64) -> UpgradeStep {
    let running = pod.container.image_id.as_deref();
    match image::second_name(&pod.image, &wanted.image, running) {
        Some(image) => begin(wanted, seen, pod, image, restarts + 1),
        None => UpgradeStep::Halt(UpgradeHalt::new(
            "the server has other flags than the ConfigMap, and cannot be restarted in place, because Kubernetes knows no digest of its image",
            "use an image of a registry; or delete the pod, and it begins empty with the new flags"
                .to_owned(),
        )),
    }
}

/// Begins: with the items of the server before, if one runs.
fn begin(
    wanted: &WantedServers,
    seen: &PodView<'_>,
    pod: &PodFacts,
    image: String,
    restarts: u64,
) -> UpgradeStep {
    let record =
        |items, flags| UpgradeRecord { image, container: pod.container.id.clone(), items, restarts, flags };
    if !pod.container.is_running {
        // The file has what an earlier server left, which the record of that time knows.
        return UpgradeStep::Replace(record(pod.record.as_ref().and_then(|record| record.items), None));
    }
    let server = match seen.server {
        Ok(server) => server,
        Err(why) => return UpgradeStep::Wait(format!("the server to say how many items it has: {why}")),
    };
    match server.restored {
        Restored::Items(_) => {}
        Restored::Never => {
            return UpgradeStep::Halt(UpgradeHalt::new(
                "the items of the server are not in a file (-e), so they would be lost",
                "its pod was made before warmUpgrade.enabled: delete the pods one by one, each when the one before is ready; they begin empty, this once".to_owned(),
            ));
        }
        Restored::Unknown => {
            return UpgradeStep::Halt(UpgradeHalt::new(
                "the server does not say whether its items outlive it (restored_items)",
                "upgrade its pod by hand, as docs/kubernetes.md says".to_owned(),
            ));
        }
    }
    // With the old file, the new server would have the old flags.
    let arrived = wanted
        .flags
        .as_ref()
        .zip(server.flags.as_ref())
        .is_none_or(|(wanted, sums)| sums.now.as_ref() == Some(wanted));
    if !arrived {
        return UpgradeStep::Wait(
            "the new flags to reach the pod, which takes Kubernetes about a minute".to_owned(),
        );
    }
    let lacks: Vec<&str> =
        pod.outdated.iter().copied().filter(|field| NEEDED_BY_FLAGS.contains(field)).collect();
    let gets_other_flags = match (&wanted.flags, &server.flags) {
        (Some(wanted), Some(sums)) => *wanted != sums.read,
        // Nobody knows: it reads what lies there now.
        (Some(_), None) => true,
        (None, _) => false,
    };
    if gets_other_flags && !lacks.is_empty() {
        return UpgradeStep::Halt(UpgradeHalt::new(
            format!(
                "the new flags may need what this pod does not have: {} of the StatefulSet have changed, too, and only another pod gets them",
                lacks.join(", ")
            ),
            "delete the pods one by one, each when the one before is ready: they begin empty, this once",
        ));
    }
    UpgradeStep::Replace(record(Some(server.items), server.flags.as_ref().and_then(|sums| sums.now.clone())))
}

/// Why the flags of a server are not those of the StatefulSet; `None` if they are, or if one of both does not say.
fn other_flags(wanted: &WantedServers, server: &ServerFacts) -> Option<&'static str> {
    let (wanted, sums) = wanted.flags.as_ref().zip(server.flags.as_ref())?;
    (*wanted != sums.read).then_some("the file that it has read is not that of the StatefulSet")
}

/// A container that the kubelet has given up for now. `is_new`: its failure is that of the image that it is to have.
fn failed(seen: &PodView<'_>, pod: &PodFacts, is_new: bool) -> Option<UpgradeHalt> {
    let (reason, message) = pod.container.waits.as_ref()?;
    let why = match reason.as_str() {
        CRASHED if is_new => "the server ends again and again",
        // The message names the image, which may still be the one before.
        // The kubelet says ErrImagePull after a try, and ImagePullBackOff until the next one.
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName"
            if message.contains(&pod.image) =>
        {
            "the image cannot be had"
        }
        _ => return None,
    };
    let (namespace, name) = (seen.namespace, seen.name);
    let look = match reason.as_str() {
        CRASHED => format!("`kubectl -n {namespace} logs {name} --previous` says why it ends"),
        _ => format!("`kubectl -n {namespace} describe pod {name}` says more"),
    };
    let way = match &pod.record {
        Some(_) => {
            "; `helm rollback` gives it the image and the flags of before, with its items if no new server has served since"
        }
        None => "",
    };
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    Some(UpgradeHalt::new(format!("{why} ({reason}{said})"), format!("{look}{way}")))
}

fn empty(seen: &PodView<'_>, before: u64) -> UpgradeHalt {
    let why = format!("the server came back empty: it had {before} items before");
    let (namespace, name) = (seen.namespace, seen.name);
    let look = format!(
        "its log says why (`kubectl -n {namespace} logs {name}`, a line with `are lost`), unless all of them expired or were flushed meanwhile"
    );
    UpgradeHalt::new(why, format!("{look}; {}", forget(seen)))
}

/// How a person says that this pod may be left as it is.
fn forget(seen: &PodView<'_>) -> String {
    let (namespace, name) = (seen.namespace, seen.name);
    format!(
        "to go on with the others, `kubectl -n {namespace} annotate pod {name} {}-`, and run this again",
        crate::record::ANNOTATION
    )
}

fn not_running(pod: &PodFacts, waited: &str) -> String {
    match &pod.container.waits {
        Some((reason, message)) if message.is_empty() => format!("{waited} ({reason})"),
        Some((reason, message)) => format!("{waited} ({reason}: {message})"),
        None => waited.to_owned(),
    }
}

#[cfg(test)]
mod tests;
