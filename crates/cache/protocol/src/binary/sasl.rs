//! Credentials of SASL's mechanism PLAIN (RFC 4616).

/// The one mechanism that there is.
pub const PLAIN: &str = "PLAIN";

/// The longest name of a mechanism that memcached looks at.
pub const MECHANISM_LEN_MAX: usize = 32;

/// User and password of `[identity] NUL user NUL password`. `None` if it is not of this form, or if the user asks to
/// act for another.
pub fn plain(credentials: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = credentials.splitn(3, |&byte| byte == 0);
    let (identity, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let acts_for_itself = identity.is_empty() || identity == user;
    (acts_for_itself && !user.is_empty() && !password.contains(&0)).then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_an_identity_a_user_and_a_password() {
        assert_eq!(plain(b"\0me\0secret"), Some((&b"me"[..], &b"secret"[..])));
        assert_eq!(plain(b"me\0me\0"), Some((&b"me"[..], &b""[..])));
        for bad in [&b""[..], b"me", b"\0me", b"other\0me\0secret", b"\0\0secret", b"\0me\0a\0b"] {
            assert_eq!(plain(bad), None, "{}", bad.escape_ascii());
        }
    }
}
