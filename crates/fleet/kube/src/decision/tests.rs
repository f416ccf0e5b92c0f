//! Steps for pods that are described in words.

use super::*;
use crate::pod_facts::ContainerFacts;
use crate::server_page::FlagSums;

const SUM: &str = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What is seen: words such as `image=a:2`, in any order. A pod is that of `a:1`, whose container c1 is ready, with 7 items in a file
/// and the flags f1, unless they say otherwise.
fn step(words: &str) -> UpgradeStep {
    let word = |key: &str| {
        words.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    };
    let has = |key: &str| words.split(' ').any(|word| word == key);
    let number =
        |key: &str, otherwise: u64| word(key).map_or(otherwise, |text| text.parse().expect("a number"));
    let flags = word("wants-flags").unwrap_or("f1".to_owned());
    let wanted = WantedServers {
        pods: vec!["p".to_owned()],
        container: "evenkeel".to_owned(),
        image: word("wants").unwrap_or("a:1".to_owned()),
        flags: (!has("wants-no-flags")).then_some(flags),
        is_on_delete: true,
        template: serde_json::Value::Null,
        volumes: Vec::new(),
        init_containers: Vec::new(),
    };
    let record = word("record").map(|image| UpgradeRecord {
        image,
        container: word("before"),
        items: word("had").map(|items| items.parse().expect("a number")),
        restarts: number("restarts", 0),
        flags: word("record-flags").or(Some("f1".to_owned())).filter(|flags| flags != "unknown"),
    });
    let waits = word("waits").map(|reason| (reason, word("because").unwrap_or_default()));
    let is_running = waits.is_none() && !has("stopped");
    let pod = PodFacts {
        resource_version: "1".to_owned(),
        is_ending: has("ending"),
        record,
        image: word("image").unwrap_or("a:1".to_owned()),
        is_observed: !has("unobserved"),
        address: None,
        metrics_port: None,
        container: ContainerFacts {
            id: word("container").or(Some("c1".to_owned())),
            is_running,
            is_ready: is_running && !has("unready"),
            waits,
            image_id: (!has("no-digest")).then(|| format!("docker.io/library/a@{SUM}")),
        },
        outdated: ["resources", "volumes", "securityContext"]
            .into_iter()
            .filter(|field| has(field))
            .collect(),
    };
    let restored = match word("restored").as_deref() {
        None => Restored::Items(0),
        Some("never") => Restored::Never,
        Some("unknown") => Restored::Unknown,
        Some(items) => Restored::Items(items.parse().expect("a number")),
    };
    let sums = FlagSums {
        read: word("flags").unwrap_or("f1".to_owned()),
        now: word("now").or(Some("f1".to_owned())),
    };
    let server =
        ServerFacts { items: number("items", 7), restored, flags: Some(sums).filter(|_| !has("no-sums")) };
    let server = if has("silent") { Err("silent") } else { Ok(&server) };
    decide(&wanted, &PodView { name: "p", namespace: "n", pod: (!has("gone")).then_some(&pod), server })
}

/// Checks the step, in the notation of [`shown`].
#[track_caller]
fn check(words: &str, expected: &str) {
    let found = match step(words) {
        UpgradeStep::Done(ending) => format!("done: {}", ending.text()),
        UpgradeStep::Wait(what) => format!("wait: {what}"),
        UpgradeStep::Replace(UpgradeRecord { image, container, items, restarts, .. }) => {
            let container = container.unwrap_or_else(|| "nothing".to_owned());
            let items = items.map_or_else(|| "unknown".to_owned(), |items| items.to_string());
            format!("replace {container} by {image}, items {items}, restarts {restarts}")
        }
        UpgradeStep::Settle(ending) => format!("settle: {}", ending.text()),
        UpgradeStep::Halt(halt) => format!("halt: {}", halt.why),
    };
    assert_eq!(found, expected, "{words}");
}

#[test]
fn a_pod_with_its_image_and_flags_is_done() {
    check("", "done: has the image and the flags already");
    check("wants-no-flags silent", "done: has the image and the flags already");
    // A server that does not say which flags it has is not restarted for them.
    check(
        "no-sums wants-flags=f2",
        "done: has the image already; which flags it has read is not known (flag_files)",
    );
    check("unready", "wait: the server to be ready");
    check("silent", "wait: the server to say which flags it has: silent");
    check("gone", "wait: Kubernetes to make the pod");
    check("ending wants=a:2", "wait: the pod to end, and another one in its place");
    check("waits=CrashLoopBackOff", "halt: the server ends again and again (CrashLoopBackOff)");
    check("waits=ContainerCreating", "wait: the server to be ready (ContainerCreating)");
}

#[test]
fn another_image_is_given_when_the_items_are_known_to_be_kept() {
    check("wants=a:2", "replace c1 by a:2, items 7, restarts 0");
    check("wants=a:2 unready", "replace c1 by a:2, items 7, restarts 0");
    check(
        "wants=a:2 restored=never",
        "halt: the items of the server are not in a file (-e), so they would be lost",
    );
    check(
        "wants=a:2 restored=unknown",
        "halt: the server does not say whether its items outlive it (restored_items)",
    );
    check("wants=a:2 silent", "wait: the server to say how many items it has: silent");
    check(
        "wants=a:2 wants-flags=f2",
        "wait: the new flags to reach the pod, which takes Kubernetes about a minute",
    );
    check("wants=a:2 wants-flags=f2 now=f2", "replace c1 by a:2, items 7, restarts 0");
    // A server that does not run has nothing to lose, and another image may be what makes it run.
    check("wants=a:2 waits=CrashLoopBackOff silent", "replace c1 by a:2, items unknown, restarts 0");
    // What was begun before knows how many items there are in the file.
    check(
        "wants=a:1 image=a:2 record=a:2 before=c1 had=7 waits=ImagePullBackOff",
        "replace c1 by a:1, items 7, restarts 0",
    );
}

#[test]
fn what_has_begun_is_waited_for() {
    let begun = |words: &str| format!("wants=a:2 image=a:2 record=a:2 before=c1 had=7 {words}");
    check(&begun(""), "wait: the container of the new image to start");
    check(&begun("container=c2 unobserved"), "wait: the container of the new image to start");
    check(&begun("stopped"), "wait: the container of the new image to start");
    check(&begun("container=c2 unready"), "wait: the new server to be ready");
    check(&begun("container=c2 silent"), "wait: the new server to say how many items it has: silent");
    check(&begun("container=c2 restored=7"), "settle: restarted with 7 of 7 items");
    // One that crashed before is not the new one.
    check(
        &begun("waits=CrashLoopBackOff"),
        "wait: the container of the new image to start (CrashLoopBackOff)",
    );
    check(
        &begun("container=c2 waits=CrashLoopBackOff"),
        "halt: the server ends again and again (CrashLoopBackOff)",
    );
    // Nor is an image that could not be had before.
    check(
        &begun("waits=ImagePullBackOff because=pulling:a:1"),
        "wait: the container of the new image to start (ImagePullBackOff: pulling:a:1)",
    );
    check(
        &begun("waits=ErrImagePull because=resolve:docker.io/library/a:2"),
        "halt: the image cannot be had (ErrImagePull: resolve:docker.io/library/a:2)",
    );
    check(
        &begun("waits=ImagePullBackOff because=pulling:a:2"),
        "halt: the image cannot be had (ImagePullBackOff: pulling:a:2)",
    );
}

#[test]
fn a_server_without_its_items_halts() {
    let back = |words: &str| format!("wants=a:2 image=a:2 record=a:2 before=c1 container=c2 {words}");
    check(&back("had=7 restored=0"), "halt: the server came back empty: it had 7 items before");
    check(&back("had=0 restored=0"), "settle: restarted with 0 of 0 items");
    check(
        &back("restored=0"),
        "settle: restarted with 0 items; how many there were before is not known, as no server ran",
    );
    let unknown =
        "halt: the new server does not say whether it has the items of the one before (restored_items)";
    check(&back("had=7 restored=unknown"), unknown);
    check(&back("had=7 restored=never"), unknown);
    check(&back("had=0 restored=unknown"), "settle: restarted; how many items it has kept is not known");
}

#[test]
fn other_flags_are_a_restart_by_the_other_name() {
    let other = format!("a:1@{SUM}");
    check("wants-flags=f2 now=f2", &format!("replace c1 by {other}, items 7, restarts 1"));
    check("wants-flags=f2", "wait: the new flags to reach the pod, which takes Kubernetes about a minute");
    check(&format!("image={other} wants-flags=f2 now=f2"), "replace c1 by a:1, items 7, restarts 1");
    check(&format!("image={other}"), "done: has the image and the flags already");
    check(
        "no-digest wants-flags=f2 now=f2",
        "halt: the server has other flags than the ConfigMap, and cannot be restarted in place, because Kubernetes knows no digest of its image",
    );
    // An upgrade whose server has read the old file after all.
    let begun =
        "wants=a:2 image=a:2 record=a:2 before=c1 container=c2 had=7 restored=7 wants-flags=f2 now=f2";
    check(begun, &format!("replace c2 by a:2@{SUM}, items 7, restarts 1"));
    check(
        &format!("{begun} restarts=2"),
        "halt: the server was restarted 2 times for its flags, and still has others: the file that it has read is not that of the StatefulSet",
    );
}

#[test]
fn an_upgrade_before_that_was_not_ended_gives_way() {
    // a:2 has begun, and a:3 is wanted by now.
    check(
        "wants=a:3 image=a:2 record=a:2 before=c1 container=c2 restored=7",
        "replace c2 by a:3, items 7, restarts 0",
    );
    // Somebody has changed the image by hand: the record is of another one.
    check(
        "wants=a:2 image=a:2 record=a:1 before=c1 container=c2",
        "done: has the image and the flags already",
    );
}

#[test]
fn flags_that_may_need_another_pod_halt_before_the_server_is_touched() {
    let halt = |fields: &str| {
        format!(
            "halt: the new flags may need what this pod does not have: {fields} of the StatefulSet have changed, too, and only another pod gets them"
        )
    };
    check("wants-flags=f2 now=f2 resources volumes", &halt("resources, volumes"));
    check("wants=a:2 wants-flags=f2 now=f2 volumes", &halt("volumes"));
    check("wants=a:2 no-sums resources", &halt("resources"));
    // Flags that stay need nothing else, and a security context is nothing that flags need.
    check("wants=a:2 resources", "replace c1 by a:2, items 7, restarts 0");
    check("wants=a:2 wants-flags=f2 now=f2 securityContext", "replace c1 by a:2, items 7, restarts 0");
}

#[test]
fn a_server_that_ended_with_flags_that_were_taken_back_is_waited_for() {
    let begun = |words: &str| format!("wants=a:2 image=a:2 record=a:2 before=c1 container=c2 had=7 {words}");
    let wait = "wait: Kubernetes to start the server again, which has ended and may have had the flags of before (CrashLoopBackOff)";
    // It was given its image for f2, and f1 is wanted again.
    check(&begun("waits=CrashLoopBackOff record-flags=f2"), wait);
    // Nobody knows which flags lay there.
    check(&begun("waits=CrashLoopBackOff record-flags=unknown"), wait);
    check(&begun("record-flags=f2 restored=7"), "settle: restarted with 7 of 7 items");
    let halt = "halt: the server ends again and again (CrashLoopBackOff)";
    check(&begun("waits=CrashLoopBackOff"), halt);
    check(&begun("waits=CrashLoopBackOff record-flags=f2 wants-no-flags"), halt);
}
