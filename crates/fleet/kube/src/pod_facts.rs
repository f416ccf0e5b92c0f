//! Facts about a pod: its container, its image, what has begun in it.

use serde_json::Value;

use crate::fields::{Field, WrongField, named};
use crate::record::{ANNOTATION, UpgradeRecord};
use crate::wanted::WantedServers;

/// A pod, as far as an upgrade in place is about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodFacts {
    /// Changes with every change of the pod, so that a patch finds the pod that was looked at, or nothing.
    pub(crate) resource_version: String,
    /// Whether it is about to end.
    pub(crate) is_ending: bool,
    /// What has begun in it. A text that is no record is none: somebody else wrote it, and the next patch replaces it.
    pub(crate) record: Option<UpgradeRecord>,
    /// The image that its container is to have.
    pub(crate) image: String,
    /// Whether the kubelet has seen the pod as it is now. Versions of Kubernetes before 1.33 do not say: then it is assumed.
    pub(crate) is_observed: bool,
    /// Its address.
    pub(crate) address: Option<String>,
    /// The port of its metrics, by its name.
    pub(crate) metrics_port: Option<u16>,
    /// Its container.
    pub(crate) container: ContainerFacts,
    /// Fields of the template that this pod does not have, and that only another pod gets.
    pub(crate) outdated: Vec<&'static str>,
}

/// The container of a server, by what the kubelet says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerFacts {
    /// Its name at the container runtime; that of the last one while there is none.
    pub(crate) id: Option<String>,
    pub(crate) is_running: bool,
    pub(crate) is_ready: bool,
    /// Why it does not run: a word, and a sentence.
    pub(crate) waits: Option<(String, String)>,
    /// The image that runs, with its digest.
    pub(crate) image_id: Option<String>,
}

/// What a pod keeps from its creation to its end.
const FIXED: [&str; 12] = [
    "args",
    "command",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "startupProbe",
    "volumeMounts",
];

impl PodFacts {
    pub(crate) fn read(pod: &Value, name: &str, wanted: &WantedServers) -> Result<PodFacts, WrongField> {
        let of = format!("pod {name}");
        let at = |path| Field::at(pod, &of, path);
        let containers = at("/spec/containers").list()?;
        let none = Value::Null;
        let other = || WrongField::missing_element(&of, "spec.containers", &wanted.container);
        let spec = named(containers, &wanted.container).ok_or_else(other)?;
        let of_container = format!("container {} of pod {name}", wanted.container);
        let image = Field::at(spec, &of_container, "/image").required_text()?.to_owned();
        let statuses = at("/status/containerStatuses").list()?;
        let container = match named(statuses, &wanted.container) {
            Some(status) => ContainerFacts::read(status, &of_container)?,
            None => ContainerFacts::default(),
        };
        let generations = (at("/metadata/generation").number()?, at("/status/observedGeneration").number()?);
        let ports = Field::at(spec, &of_container, "/ports").list()?;
        let metrics = named(ports, "metrics").unwrap_or(&none);
        let metrics_port = Field::at(metrics, &of_container, "/containerPort").number()?;
        let annotation = pod.pointer("/metadata/annotations").and_then(|all| all.get(ANNOTATION));
        Ok(PodFacts {
            resource_version: at("/metadata/resourceVersion").required_text()?.to_owned(),
            is_ending: at("/metadata/deletionTimestamp").text()?.is_some(),
            record: annotation.and_then(Value::as_str).and_then(UpgradeRecord::parse),
            image,
            is_observed: match generations {
                (Some(now), Some(observed)) => observed >= now,
                _ => true,
            },
            address: at("/status/podIP").text()?.filter(|address| !address.is_empty()).map(str::to_owned),
            metrics_port: metrics_port.and_then(|port| u16::try_from(port).ok()),
            container,
            outdated: outdated(
                spec,
                pod.pointer("/spec/volumes"),
                pod.pointer("/spec/initContainers"),
                wanted,
            ),
        })
    }
}

impl ContainerFacts {
    fn read(status: &Value, of: &str) -> Result<ContainerFacts, WrongField> {
        let at = |path| Field::at(status, of, path);
        let full = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let waits = at("/state/waiting/reason").text()?;
        let message = at("/state/waiting/message").text()?.unwrap_or_default();
        // A container that has ended is started again; until then its end is why it does not run.
        let ended = at("/state/terminated/reason").text()?;
        let exit = at("/state/terminated/exitCode").number()?;
        let ended = ended.map(|reason| {
            let exit = exit.map_or(String::new(), |status| format!("it ended with status {status}"));
            (in_one_line(reason), exit)
        });
        Ok(ContainerFacts {
            id: full(at("/containerID").text()?),
            is_running: status.pointer("/state/running").is_some_and(Value::is_object),
            is_ready: at("/ready").flag()?,
            waits: waits.map(|reason| (in_one_line(reason), in_one_line(message))).or(ended),
            image_id: full(at("/imageID").text()?),
        })
    }
}

/// A text that becomes a part of ours.
fn in_one_line(text: &str) -> String {
    stdx::escape::line(text).into_owned()
}

/// Fields in which a pod is not what the template says. What others have added to the pod counts for nothing.
fn outdated(
    container: &Value,
    volumes: Option<&Value>,
    init_containers: Option<&Value>,
    wanted: &WantedServers,
) -> Vec<&'static str> {
    let lacks = |has: Option<&Value>, wanted: Option<&Value>| match wanted {
        None => false,
        Some(wanted) => !has.is_some_and(|has| includes(has, wanted)),
    };
    let mut outdated: Vec<&'static str> =
        FIXED.into_iter().filter(|key| lacks(container.get(key), wanted.template.get(key))).collect();
    let list = |all: &[Value]| (!all.is_empty()).then(|| Value::from(all));
    if lacks(volumes, list(&wanted.volumes).as_ref()) {
        outdated.push("volumes");
    }
    // Containers beside the server, such as an agent: their image is changed by nobody.
    if lacks(init_containers, list(&wanted.init_containers).as_ref()) {
        outdated.push("initContainers");
    }
    outdated
}

/// Whether all of `wanted` is in `has`: each field of an object, each object of a list, and everything else as it is.
fn includes(has: &Value, wanted: &Value) -> bool {
    match (has, wanted) {
        (Value::Object(has), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| has.get(key).is_some_and(|has| includes(has, wanted)))
        }
        (Value::Array(has), Value::Array(wanted)) if wanted.iter().all(Value::is_object) => {
            wanted.iter().all(|wanted| has.iter().any(|has| includes(has, wanted)))
        }
        (has, wanted) => has == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_have_added_to_a_pod_is_no_difference() {
        let check = |has: Value, wanted: Value, expected: bool| {
            assert_eq!(includes(&has, &wanted), expected, "{has} {wanted}");
        };
        let context = json!({"allowPrivilegeEscalation": false});
        check(json!({"allowPrivilegeEscalation": false, "runAsUser": 1_000_650_000}), context.clone(), true);
        check(json!({"runAsUser": 1}), context, false);
        let mounts = json!([{"name": "items", "mountPath": "/items"}]);
        let with_token = json!([{"name": "token", "mountPath": "/t"}, {"name": "items", "mountPath": "/items", "readOnly": false}]);
        check(with_token, mounts.clone(), true);
        check(json!([]), mounts, false);
        check(json!(["serve", "-v"]), json!(["serve"]), false);
        check(json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"memory": "2Gi"}}), false);
    }
}
