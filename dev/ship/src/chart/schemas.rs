//! Schemas of Kubernetes' objects for kubeconform, made from the description of its API.
//!
//! That description is a file of the Go module k8s.io/kubernetes; it lets every object have any fields. Here an object with
//! fields has no others, so that a misspelt one is an error.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of Kubernetes whose objects are described.
pub const KUBERNETES: &str = "1.34.4";

/// Where kubeconform finds the schemas of a folder.
#[must_use]
pub fn location(folder: &Path) -> String {
    format!("{}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", folder.display())
}

/// Writes the schemas of these kinds into a folder, unless they are there.
///
/// # Errors
/// Reports that Go is missing, what it says, or a description that is not as expected.
pub fn made(folder: &Path, kinds: &[&str]) -> Result<()> {
    // Its name has the version; a folder is complete, because it gets its name last.
    if folder.exists() {
        return Ok(());
    }
    let description = module()?.join("api/openapi-spec/swagger.json");
    let text = fs::read_to_string(&description).with_context(|| format!("read {}", description.display()))?;
    let schemas = convert(&serde_json::from_str(&text).context("read the description of the API")?, kinds)?;
    let unfinished = folder.with_extension(std::process::id().to_string());
    fs::create_dir_all(&unfinished).with_context(|| format!("create {}", unfinished.display()))?;
    for (name, schema) in schemas {
        fs::write(unfinished.join(&name), schema.to_string()).with_context(|| format!("write {name}"))?;
    }
    fs::rename(&unfinished, folder).with_context(|| format!("rename {}", unfinished.display()))
}

/// The folder of Kubernetes' module, downloaded by Go if it is not there.
pub(crate) fn module() -> Result<PathBuf> {
    let module = format!("k8s.io/kubernetes@v{KUBERNETES}");
    let mut go = Command::new("go");
    let output = go.args(["mod", "download", "-json", &module]).output().context("start go")?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match said["Dir"].as_str() {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => bail!("go mod download {module}: {}", said["Error"].as_str().unwrap_or("no answer")),
    }
}

/// The schemas of these kinds with their names, such as `statefulset-apps-v1.json`.
fn convert(description: &Value, kinds: &[&str]) -> Result<Vec<(String, Value)>> {
    let definitions = description["definitions"].as_object().context("there are no definitions")?;
    let mut schemas = Vec::new();
    for (name, definition) in definitions {
        // Several kinds are those of options, which are in no manifest.
        let Some([kind]) = definition["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice) else {
            continue;
        };
        let part = |key: &str| kind[key].as_str().unwrap_or_default().to_owned();
        if !kinds.contains(&part("kind").as_str()) {
            continue;
        }
        let group = part("group").split('.').next().map(str::to_owned).filter(|group| !group.is_empty());
        let group = group.map_or(String::new(), |group| format!("{group}-"));
        let file = format!("{}-{group}{}.json", part("kind").to_lowercase(), part("version"));
        schemas.push((file, resolved(definition, definitions, &mut vec![name.clone()])));
    }
    let found =
        |kind: &&&str| schemas.iter().any(|(file, _)| file.starts_with(&format!("{}-", kind.to_lowercase())));
    let missing: Vec<&str> = kinds.iter().filter(|kind| !found(kind)).copied().collect();
    ensure!(missing.is_empty(), "Kubernetes {KUBERNETES} has no {}", missing.join(", "));
    Ok(schemas)
}

/// A definition with those that it refers to in their places. One within itself (a JSON schema in a JSON schema) may be anything.
fn resolved(value: &Value, definitions: &Map<String, Value>, within: &mut Vec<String>) -> Value {
    let object = match value {
        Value::Array(values) => {
            return values.iter().map(|value| resolved(value, definitions, within)).collect();
        }
        Value::Object(object) => object,
        plain => return plain.clone(),
    };
    if let Some(name) = object.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()) {
        return referred(name, definitions, within);
    }
    let kept = object.iter().filter(|(key, _)| *key != "description");
    let mut schema: Map<String, Value> =
        kept.map(|(key, value)| (key.clone(), resolved(value, definitions, within))).collect();
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
    Value::Object(schema)
}

fn referred(name: &str, definitions: &Map<String, Value>, within: &mut Vec<String>) -> Value {
    if name.ends_with(".IntOrString") {
        return json!({"type": ["string", "integer"]});
    }
    if name.ends_with(".Quantity") {
        return json!({"type": ["string", "number"]});
    }
    if within.iter().any(|outer| outer == name) {
        return json!({});
    }
    within.push(name.to_owned());
    let schema = definitions.get(name).map_or(json!({}), |value| resolved(value, definitions, within));
    within.pop();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Value {
        json!({"definitions": {
            "a.Pod": {
                "description": "words",
                "properties": {
                    "limit": {"$ref": "#/definitions/r.Quantity"},
                    "port": {"$ref": "#/definitions/i.IntOrString"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "inner": {"$ref": "#/definitions/a.Inner"},
                },
                "x-kubernetes-group-version-kind": [{"group": "apps.k8s.io", "kind": "Pod", "version": "v1"}],
            },
            "a.Inner": {"properties": {"again": {"$ref": "#/definitions/a.Inner"}}},
        }})
    }

    #[test]
    fn an_object_with_fields_has_no_others() {
        let schemas = convert(&described(), &["Pod"]).unwrap();
        let expected = json!({
            "properties": {
                "limit": {"type": ["string", "number"]},
                "port": {"type": ["string", "integer"]},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "inner": {"properties": {"again": {}}, "additionalProperties": false},
            },
            "additionalProperties": false,
            "x-kubernetes-group-version-kind": [{"group": "apps.k8s.io", "kind": "Pod", "version": "v1"}],
        });
        assert_eq!(schemas, [("pod-apps-v1.json".to_owned(), expected)]);
    }

    #[test]
    fn a_kind_that_kubernetes_does_not_have_is_named() {
        let error = convert(&described(), &["Pod", "Pot"]).unwrap_err();
        assert_eq!(error.to_string(), "Kubernetes 1.34.4 has no Pot");
    }
}
