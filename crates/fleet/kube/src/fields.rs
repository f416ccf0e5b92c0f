//! Fields of JSON objects that others wrote, with errors that name them.

use serde_json::Value;

/// A value and where it stands: `spec.replicas` of `statefulset cache`.
#[derive(Clone, Copy)]
pub(crate) struct Field<'v> {
    value: Option<&'v Value>,
    of: &'v str,
    path: &'v str,
}

/// A field that is not what the API says it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of}: expected {expected} at {path}, found {found}")]
pub(crate) struct WrongField {
    of: String,
    path: String,
    expected: String,
    found: &'static str,
}

impl WrongField {
    /// A list without the element of this name.
    pub(crate) fn missing_element(of: &str, path: &str, name: &str) -> WrongField {
        let expected = format!("an element with the name {name}");
        WrongField { of: of.to_owned(), path: path.to_owned(), expected, found: "others, or none" }
    }
}

impl<'v> Field<'v> {
    /// The field at a path such as `/spec/replicas`.
    pub(crate) fn at(object: &'v Value, of: &'v str, path: &'v str) -> Field<'v> {
        // The API leaves out what is empty; `null` is the same.
        Field { value: object.pointer(path).filter(|value| !value.is_null()), of, path }
    }

    /// A text that may be missing.
    pub(crate) fn text(self) -> Result<Option<&'v str>, WrongField> {
        self.as_kind("a text", Value::as_str)
    }

    /// A text.
    pub(crate) fn required_text(self) -> Result<&'v str, WrongField> {
        self.text()?.filter(|text| !text.is_empty()).ok_or_else(|| self.wrong("a text"))
    }

    /// A number that may be missing.
    pub(crate) fn number(self) -> Result<Option<u64>, WrongField> {
        self.as_kind("a number that is not negative", Value::as_u64)
    }

    /// `true` or `false`; missing is `false`.
    pub(crate) fn flag(self) -> Result<bool, WrongField> {
        Ok(self.as_kind("true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// The elements of a list; missing is empty.
    pub(crate) fn list(self) -> Result<&'v [Value], WrongField> {
        let list = self.as_kind("a list", |value| value.as_array().map(Vec::as_slice))?;
        Ok(list.unwrap_or(&[]))
    }

    fn as_kind<T>(
        self,
        expected: &'static str,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Result<Option<T>, WrongField> {
        let Some(value) = self.value else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(expected))
    }

    fn wrong(self, expected: &'static str) -> WrongField {
        let found = match self.value {
            None => "nothing",
            Some(Value::Null) => "null",
            Some(Value::Bool(_)) => "true or false",
            Some(Value::Number(_)) => "another number",
            Some(Value::String(_)) => "a text",
            Some(Value::Array(_)) => "a list",
            Some(Value::Object(_)) => "an object",
        };
        let path = self.path.trim_start_matches('/').replace("~1", "/").replace('/', ".");
        WrongField { of: self.of.to_owned(), path, expected: expected.to_owned(), found }
    }
}

/// The element of a list of objects with this name.
pub(crate) fn named<'v>(list: &'v [Value], name: &str) -> Option<&'v Value> {
    list.iter().find(|element| element.get("name").and_then(Value::as_str) == Some(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_another_type_is_named() {
        let object = json!({"spec": {"replicas": -1, "name": 7, "list": {}, "none": null}});
        let at = |path| Field::at(&object, "statefulset cache", path);
        let shown = |error: WrongField| error.to_string();
        assert_eq!(
            at("/spec/replicas").number().map_err(shown),
            Err("statefulset cache: expected a number that is not negative at spec.replicas, found another number".into())
        );
        assert_eq!(
            at("/spec/name").text().map_err(shown),
            Err("statefulset cache: expected a text at spec.name, found another number".into())
        );
        assert_eq!(
            at("/spec/missing").required_text().map_err(shown),
            Err("statefulset cache: expected a text at spec.missing, found nothing".into())
        );
        assert_eq!(
            at("/spec/list").list().map_err(shown),
            Err("statefulset cache: expected a list at spec.list, found an object".into())
        );
        assert_eq!(at("/spec/none").number(), Ok(None));
        assert_eq!(at("/spec/none").flag(), Ok(false));
    }
}
