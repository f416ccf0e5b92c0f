//! Desired state of servers, from their StatefulSet: names, image, flags.

use serde_json::Value;

use crate::fields::{Field, WrongField, named};

/// The annotation of the template with the checksum of the flags' file.
const FLAGS: &str = "/spec/template/metadata/annotations/checksum~1flags";

/// A StatefulSet, as far as an upgrade in place is about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WantedServers {
    /// Names of its pods, in their order.
    pub(crate) pods: Vec<String>,
    /// The container of the server: the first one.
    pub(crate) container: String,
    /// Its image.
    pub(crate) image: String,
    /// SHA-256 of the file of its flags; `None` if the StatefulSet does not say.
    pub(crate) flags: Option<String>,
    /// Whether nothing but a deletion makes Kubernetes replace a pod.
    pub(crate) is_on_delete: bool,
    /// The container as it is in a new pod.
    pub(crate) template: Value,
    /// The volumes of a new pod.
    pub(crate) volumes: Vec<Value>,
    /// Containers that begin before the server, and may run beside it.
    pub(crate) init_containers: Vec<Value>,
}

impl WantedServers {
    pub(crate) fn read(set: &Value, name: &str) -> Result<WantedServers, WrongField> {
        let of = format!("StatefulSet {name}");
        let at = |path| Field::at(set, &of, path);
        let replicas = at("/spec/replicas").number()?.unwrap_or(1);
        let first = at("/spec/ordinals/start").number()?.unwrap_or(0);
        // What the API admits is a number of 31 bits; a list of names is bounded by what a cluster can have.
        let pods =
            (0..replicas.min(PODS_MAX)).map(|at| format!("{name}-{}", first.saturating_add(at))).collect();
        let containers = at("/spec/template/spec/containers").list()?;
        let container = at("/spec/template/spec/containers/0/name").required_text()?.to_owned();
        let image = at("/spec/template/spec/containers/0/image").required_text()?.to_owned();
        let template = named(containers, &container).cloned().unwrap_or_default();
        Ok(WantedServers {
            pods,
            container,
            image,
            flags: at(FLAGS).text()?.map(str::to_owned),
            is_on_delete: at("/spec/updateStrategy/type").text()? == Some("OnDelete"),
            template,
            volumes: at("/spec/template/spec/volumes").list()?.to_vec(),
            init_containers: at("/spec/template/spec/initContainers").list()?.to_vec(),
        })
    }
}

/// Pods of one StatefulSet: no cluster has more in all.
const PODS_MAX: u64 = 150_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_have_the_names_that_kubernetes_gives_them() {
        let set = |spec: Value| {
            let mut set = json!({"spec": {"template": {"spec": {"containers": [{"name": "evenkeel", "image": "a:1"}]}}}});
            for (key, value) in spec.as_object().expect("an object") {
                set["spec"][key] = value.clone();
            }
            WantedServers::read(&set, "cache").map(|wanted| wanted.pods).map_err(|error| error.to_string())
        };
        assert_eq!(set(json!({})), Ok(vec!["cache-0".to_owned()]));
        assert_eq!(set(json!({"replicas": 0})), Ok(vec![]));
        assert_eq!(
            set(json!({"replicas": 2, "ordinals": {"start": 5}})),
            Ok(vec!["cache-5".to_owned(), "cache-6".to_owned()])
        );
        assert_eq!(
            set(json!({"replicas": "3"})),
            Err("StatefulSet cache: expected a number that is not negative at spec.replicas, found a text"
                .into())
        );
        assert_eq!(set(json!({"replicas": u64::MAX})).map(|pods| pods.len()), Ok(150_000));
    }
}
