//! The file of ports that `MEMCACHED_PORT_FILENAME` names: test suites of clients ask the kernel for any port, and read there which it is.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use net::Address;

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
    /// Writes it under another name first, as memcached does: whoever waits for the file never finds it in parts. Nothing that is
    /// there under that name is written to, and no link is followed.
    pub(crate) fn write(&self, addresses: &[Address]) -> Result<(), Failure> {
        let failed = |error| Failure::system(format!("write {} ({VARIABLE})", self.path.display()), error);
        let mut unfinished = OsString::from(&self.path);
        unfinished.push(".lck");
        let _ = fs::remove_file(&unfinished);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&unfinished);
        let written = file.and_then(|mut file| file.write_all(lines(addresses).as_bytes()));
        written.and_then(|()| fs::rename(&unfinished, &self.path)).map_err(failed)
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
    use super::*;

    #[test]
    fn each_internet_address_has_a_line_and_the_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("evenkeel-port-file-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the directory for temporary files can be written to");
        let path = folder.join("ports");
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let addresses =
            [Address::Tcp(at("127.0.0.1:5")), Address::Tcp(at("[::1]:6")), Address::Udp(at("127.0.0.1:7"))];
        // What another process has put in the way is not written to.
        let foreign = folder.join("foreign");
        fs::write(&foreign, "as it was").expect("a file");
        std::os::unix::fs::symlink(&foreign, folder.join("ports.lck")).expect("a link");
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
