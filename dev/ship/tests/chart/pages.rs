//! Values in three places: values.yaml, its schema, and the page; and copies that have to stay equal.

use super::{chart, read};
use checkout::workspace;
use serde_json::Value;
use ship::chart::{values, yaml};
use std::fs;

const PAGE: &str = "docs/kubernetes.md";
const BEGIN: &str = "<!-- values: EVENKEEL_TEST_WRITE=1 cargo test -p ship --test main chart -->\n";
const END: &str = "\n<!-- end of the values -->";

/// Whether a file has this text, or has it now: `EVENKEEL_TEST_WRITE=1` writes it.
fn check_or_write(name: &str, expected: &str) {
    let path = workspace().join(name);
    if std::env::var_os("EVENKEEL_TEST_WRITE").is_some() {
        fs::write(path, expected).unwrap_or_else(|error| panic!("write {name}: {error}"));
    } else {
        assert!(
            read(&path) == expected,
            "{name} is old: EVENKEEL_TEST_WRITE=1 cargo test -p ship --test main chart"
        );
    }
}

#[test]
fn the_page_has_all_values() {
    let rows = values::rows(&read(&chart().join("values.yaml"))).expect("read values.yaml");
    let page = read(&workspace().join(PAGE));
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the values");
    let (_, after) = rest.split_once(END).expect("the place for the values has an end");
    check_or_write(PAGE, &format!("{before}{BEGIN}{}{END}{after}", values::tables(&rows)));
}

/// Keys of a value that lead to no further ones, where the schema does not describe them.
fn undescribed(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let (Some(keys), Some(described)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for (key, value) in keys {
        let path = format!("{path}.{key}");
        match described.get(key) {
            Some(schema) => undescribed(value, schema, &path, found),
            None => found.push(path),
        }
    }
}

fn schema() -> Value {
    serde_json::from_str(&read(&chart().join("values.schema.json"))).expect("the schema is JSON")
}

fn default_values() -> Value {
    yaml::document(&read(&chart().join("values.yaml"))).expect("read values.yaml")
}

#[test]
fn the_schema_has_all_values() {
    let mut found = Vec::new();
    undescribed(&default_values(), &schema(), "", &mut found);
    // Contents of probes and resources are Kubernetes' own.
    found.retain(|path| !["Probe.", "resources."].iter().any(|own| path.contains(own)));
    assert!(found.is_empty(), "values.schema.json lacks {}", found.join(", "));
}

/// Keys that the schema describes and values.yaml does not have, which nobody would read.
#[test]
fn the_schema_has_no_other_values() {
    fn check(schema: &Value, value: &Value, path: &str) {
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(!value[key].is_null(), "values.yaml has no {path}{key}");
            check(schema, &value[key], &format!("{path}{key}."));
        }
    }
    check(&schema(), &default_values(), "");
}

#[test]
fn helm_is_told_which_keys_are_known() {
    let notes = read(&chart().join("templates/_notes.tpl"));
    let list =
        notes.split_once("$known := list ").expect("the notes list the keys").1.split_once(" }}").unwrap().0;
    let listed: Vec<&str> = list.split(' ').map(|word| word.trim_matches('"')).collect();
    let values = default_values();
    let keys: Vec<&String> = values.as_object().expect("values are keys").keys().collect();
    assert_eq!(listed, keys, "$known of templates/_notes.tpl is the list of the keys of values.yaml");
}

#[test]
fn keys_without_effect_are_not_among_the_values() {
    let foreign = yaml::document(&read(&chart().join("files/foreign.yaml"))).expect("read foreign.yaml");
    let values = default_values();
    for (key, reason) in foreign.as_object().expect("a reason for each key") {
        let value = key.split('.').fold(&values, |value, part| &value[part]);
        assert!(value.is_null(), "{key} is said to have no effect ({reason}), and is in values.yaml");
    }
}

#[test]
fn the_chart_has_the_version_of_the_workspace() {
    let chart = yaml::document(&read(&chart().join("Chart.yaml"))).expect("read Chart.yaml");
    assert_eq!([&chart["version"], &chart["appVersion"]], [env!("CARGO_PKG_VERSION"); 2]);
}

#[test]
fn the_chart_has_the_rules_of_the_monitoring() {
    if let Ok(rules) = fs::read_to_string(workspace().join("deploy/monitoring/rules.yaml")) {
        check_or_write("deploy/helm/evenkeel/files/rules.yaml", &rules);
    }
}
