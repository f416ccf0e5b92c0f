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
const FIXED: [&str; 11] = [
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
            outdated: outdated(spec, pod.pointer("/spec/volumes"), wanted),
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
fn outdated(container: &Value, volumes: Option<&Value>, wanted: &WantedServers) -> Vec<&'static str> {
    let mut outdated: Vec<&'static str> =
        FIXED.into_iter().filter(|key| container.get(key) != wanted.template.get(key)).collect();
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let lacks = |has: &[Value], wanted: &[Value]| wanted.iter().any(|element| !has.contains(element));
    if lacks(&list(container.get("volumeMounts")), &list(wanted.template.get("volumeMounts"))) {
        outdated.push("volumeMounts");
    }
    if lacks(&list(volumes), &wanted.volumes) {
        outdated.push("volumes");
    }
    outdated
}
