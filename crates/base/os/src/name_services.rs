//! Where the C library looks up names of users and hosts.

#![expect(unsafe_code, reason = "a call of the C library that has no safe wrapper")]

use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    /// Of glibc, nss.h: uses these services for a database, whatever /etc/nsswitch.conf says, now and later.
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// The databases that a lookup of a user, a host or a port asks, and the services that are part of the C library.
const BUILT_IN: [(&CStr, &CStr); 7] = [
    (c"passwd", c"files"),
    (c"group", c"files"),
    (c"initgroups", c"files"),
    (c"hosts", c"files dns"),
    (c"networks", c"files dns"),
    (c"services", c"files"),
    (c"protocols", c"files"),
];

/// Looks names up in files of /etc and by DNS alone, for a program that is linked statically: the host's services for other
/// sources (mDNS, LDAP, systemd) are libraries for the C library of that host, and a program with another one crashes in them.
///
/// To be called before the first lookup and before a second thread.
pub fn use_built_in_ones() {
    for (database, services) in BUILT_IN {
        // SAFETY: both are texts that end with a zero and live as long as the program; no other thread looks up a name.
        let refused = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        // It knows all of these databases and services, and otherwise only fails without memory.
        debug_assert_eq!(refused, 0, "{database:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::ToSocketAddrs;

    #[test]
    fn every_database_and_service_is_known_and_localhost_is_found() {
        use_built_in_ones();
        assert!(("localhost", 1).to_socket_addrs().expect("an address").next().is_some());
    }
}
