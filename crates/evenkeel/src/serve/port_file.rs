//! The file of ports that `MEMCACHED_PORT_FILENAME` names: test suites of clients ask the kernel for any port, and read there which it is.

use std::net::SocketAddr;
use std::path::PathBuf;

use net::Address;
use os::DirectoryEntry;

use crate::failure::Failure;

const VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// A file to which ports are written.
pub(crate) struct PortFile {
    path: PathBuf,
}

/// The file that the environment names, if it does.
pub(crate) fn of_environment() -> Option<PortFile> {
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
    Some(PortFile { path: path.into() })
}

impl PortFile {
    /// Writes it under another name first, as memcached does: a suite that waits for the file never finds it in parts.
    pub(crate) fn write(&self, addresses: &[Address]) -> Result<(), Failure> {
        let entry = DirectoryEntry::of(&self.path);
        let written = entry.and_then(|entry| entry.replace_with(lines(addresses).as_bytes(), 0o644));
        written.map_err(|error| Failure::system(format!("write {} ({VARIABLE})", self.path.display()), error))
    }
}

/// A line for each internet address, in memcached's form.
fn lines(addresses: &[Address]) -> String {
    let family = |address: &SocketAddr| if address.is_ipv6() { "INET6" } else { "INET" };
    let line = |address: &Address| match address {
        Address::Tcp(at) => format!("TCP {}: {}\n", family(at), at.port()),
        Address::Udp(at) => format!("UDP {}: {}\n", family(at), at.port()),
        _ => String::new(),
    };
    addresses.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_internet_address_has_a_line_and_the_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("evenkeel-port-file-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the directory for temporary files can be written to");
        let path = folder.join("ports");
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let addresses =
            [Address::Tcp(at("127.0.0.1:5")), Address::Tcp(at("[::1]:6")), Address::Udp(at("127.0.0.1:7"))];
        // What another process has put in its place is not written to.
        let foreign = folder.join("foreign");
        fs::write(&foreign, "as it was").expect("a file");
        std::os::unix::fs::symlink(&foreign, &path).expect("a link");
        for _ in 0..2 {
            PortFile { path: path.clone() }.write(&addresses).expect("written");
            assert_eq!(
                fs::read_to_string(&path).expect("it is there"),
                "TCP INET: 5\nTCP INET6: 6\nUDP INET: 7\n"
            );
        }
        assert_eq!(fs::read_to_string(&foreign).expect("it is there"), "as it was");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
