//! Conditions for keys.

use crate::message::key::RoutedKey;

/// The keys for which a BlackholeRoute answers without the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyPolicies(pub(crate) Option<Box<[KeyPolicy]>>);

/// A condition for keys, with their routing prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyPolicy {
    /// This key.
    Equals(Box<[u8]>),
    /// Any other key.
    NotEquals(Box<[u8]>),
}

impl KeyPolicies {
    /// Whether one of them holds. Without policies for keys, all do: mcrouter's rule.
    pub(crate) fn hold(&self, key: &RoutedKey<'_>) -> bool {
        self.0.as_ref().is_none_or(|policies| {
            policies.iter().any(|policy| match policy {
                KeyPolicy::Equals(other) => key.full == &**other,
                KeyPolicy::NotEquals(other) => key.full != &**other,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_policies_for_keys_all_keys_are_meant_and_with_an_empty_list_none() {
        let hold = |policies: Option<Box<[KeyPolicy]>>| {
            ["a", "b"].map(|key| KeyPolicies(policies.clone()).hold(&RoutedKey::new(key.as_bytes())))
        };
        assert_eq!(hold(None), [true, true]);
        assert_eq!(hold(Some(Box::default())), [false, false]);
        assert_eq!(hold(Some(Box::new([KeyPolicy::Equals((*b"a").into())]))), [true, false]);
        assert_eq!(hold(Some(Box::new([KeyPolicy::NotEquals((*b"a").into())]))), [false, true]);
    }
}
