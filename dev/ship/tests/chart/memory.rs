//! Memory: what a server is given, what its pod may use, and that all keys for it lead to the same.

use super::{Rendered, containers, elements, pod, text, value_of};
use serde_json::Value;

/// The MiB of a quantity.
fn mib(quantity: &Value) -> u64 {
    let quantity = text(quantity);
    match (quantity.strip_suffix("Mi"), quantity.strip_suffix("Gi")) {
        (Some(number), _) => number.parse().expect("a number"),
        (_, Some(number)) => number.parse::<u64>().expect("a number") * 1024,
        _ => panic!("expected Mi or Gi, found {quantity}"),
    }
}

/// The megabytes for items of the servers of this value file, and the server's container and pod.
fn server(rendered: &Rendered) -> (u64, &Value, &Value) {
    let pod = pod(rendered.servers());
    let container =
        containers(pod).find(|container| container["name"] == "evenkeel").expect("it has a container");
    let memory = value_of(&rendered.flags(pod, container), "--memory-limit").expect("flags have the memory");
    (memory.parse().expect("a number"), container, pod)
}

#[test]
fn a_pod_may_use_what_its_server_needs() {
    for rendered in Rendered::all() {
        let (memory, container, _) = server(&rendered);
        // The guide promises 5 % and 48 MB; the rest is for connections and the kernel's part.
        let needs = memory + memory / 20 + 96;
        let [limit, request] =
            ["limits", "requests"].map(|kind| mib(&container["resources"][kind]["memory"]));
        assert!(
            limit == needs || rendered.name == "placed" && limit > needs,
            "{}: {limit} Mi for {memory}",
            rendered.name
        );
        assert_eq!(request, needs, "{}", rendered.name);
    }
}

#[test]
fn items_that_survive_have_room_and_are_not_counted_twice() {
    let all = Rendered::all();
    let rendered = all.iter().find(|rendered| rendered.name == "warm-upgrade").expect("there is one");
    let (memory, container, pod) = server(rendered);
    assert_eq!(value_of(&rendered.flags(pod, container), "--memory-file"), Some("/items/items"));
    let volume = elements(&pod["volumes"])
        .iter()
        .find(|volume| volume["name"] == "items")
        .expect("items have a volume");
    assert_eq!(volume["emptyDir"]["medium"], "Memory");
    let size = mib(&volume["emptyDir"]["sizeLimit"]);
    assert_eq!(size, memory + 64);
    assert!(
        size < mib(&container["resources"]["limits"]["memory"]),
        "the volume is a part of the pod's memory"
    );
    let set = rendered.of_kind("StatefulSet").next().expect("there are servers");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete", "a rollout would delete the items");
}

#[test]
fn every_key_for_memory_has_the_same_effect() {
    // memory, config.memoryLimit, -m in args, MEMCACHED_CACHE_SIZE, memcached.maxItemMemory, nothing.
    let expected = [
        ("single", 512),
        ("placed", 4096),
        ("cloudpirates", 256),
        ("bitnami-args", 4096),
        ("bitnami", 2048),
        ("stable-memcached", 128),
        ("default", 1024),
    ];
    let all = Rendered::all();
    for (name, megabytes) in expected {
        let rendered = all.iter().find(|rendered| rendered.name == name).expect(name);
        assert_eq!(server(rendered).0, megabytes, "{name}");
    }
}

#[test]
fn words_of_other_charts_become_flags() {
    let expected = [
        ("bitnami-args", vec!["-I 2m", "-vv", "-o modern,idle_timeout=60", "--threads=8"]),
        (
            "bitnami",
            vec!["-o idle_timeout=3600", "--max-item-size=2097152", "--threads=4", "--conn-limit=4096"],
        ),
        ("cloudpirates", vec!["-I 4m", "--verbose", "--conn-limit=2048"]),
    ];
    let all = Rendered::all();
    for (name, lines) in expected {
        let rendered = all.iter().find(|rendered| rendered.name == name).expect(name);
        let (_, container, pod) = server(rendered);
        let flags = rendered.flags(pod, container);
        for line in lines {
            assert!(flags.contains(&line), "{name}: expected {line}, found {}", flags.join(", "));
        }
    }
}
