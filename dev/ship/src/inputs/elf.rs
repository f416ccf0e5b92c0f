//! The head of a program's file: for which machines it is, and whether it needs libraries.

use crate::commands::said;
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// An architecture that is shipped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Architecture {
    /// This machine's.
    ///
    /// # Errors
    /// If nothing is shipped for it.
    pub fn here() -> Result<Architecture> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Architecture::Amd64),
            "aarch64" => Ok(Architecture::Arm64),
            other => bail!("this machine is {other}: nothing is shipped for it"),
        }
    }

    /// That of a program.
    ///
    /// # Errors
    /// If it cannot be read, is no program, or one for other machines.
    pub fn of(program: &Path) -> Result<Architecture> {
        let shown = program.display();
        let mut head = [0; 20];
        let mut file = File::open(program).with_context(|| format!("open {shown}"))?;
        file.read_exact(&mut head).with_context(|| format!("read the first bytes of {shown}"))?;
        // System V ABI, ELF header: the magic number, 64 bits, little-endian; e_machine is at byte 18.
        ensure!(head.starts_with(b"\x7fELF\x02\x01"), "{shown} is no 64-bit program for Linux (ELF)");
        match u16::from_le_bytes([head[18], head[19]]) {
            62 => Ok(Architecture::Amd64),
            183 => Ok(Architecture::Arm64),
            other => bail!(
                "{shown} is for machines of ELF's number {other}; shipped are 62 (x86-64) and 183 (arm64)"
            ),
        }
    }

    /// The name in packages and images.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The compiler's name of it, with glibc.
    pub fn target(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-unknown-linux-gnu",
            Architecture::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// A program of binutils that can change programs of this architecture. Debian has those for others in packages such as
    /// binutils-aarch64-linux-gnu.
    ///
    /// # Errors
    /// If nothing is shipped for this machine.
    pub fn binutil(self, name: &str) -> Result<String> {
        Ok(match self {
            _ if self == Architecture::here()? => name.to_owned(),
            Architecture::Amd64 => format!("x86_64-linux-gnu-{name}"),
            Architecture::Arm64 => format!("aarch64-linux-gnu-{name}"),
        })
    }
}

/// Whether a program needs no library, and no loader for them.
///
/// # Errors
/// If it cannot be read.
pub fn is_static(program: &Path) -> Result<bool> {
    let headers = said(Command::new("readelf").args(["--wide", "--program-headers"]).arg(program))?;
    Ok(!headers.contains(" INTERP "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_says_for_which_machines_it_is() {
        let folder = checkout::target_directory().join("ship-tests/elf");
        fs::create_dir_all(&folder).expect("a folder");
        let check = |name: &str, head: &[u8], expected: Result<Architecture, &str>| {
            let path = folder.join(name);
            fs::write(&path, head).expect("a file");
            match (Architecture::of(&path), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => {
                    assert!(format!("{found:#}").contains(expected), "{found:#}");
                }
                (found, expected) => panic!("{name}: expected {expected:?}, found {found:?}"),
            }
        };
        let elf = |machine: u8| {
            let mut head = b"\x7fELF\x02\x01\x01".to_vec();
            head.resize(18, 0);
            head.extend([machine, 0]);
            head
        };
        check("amd64", &elf(62), Ok(Architecture::Amd64));
        check("arm64", &elf(183), Ok(Architecture::Arm64));
        check("riscv", &elf(243), Err("number 243"));
        check("script", b"#!/bin/sh\nexec true\n# long enough", Err("is no 64-bit program"));
        check("short", b"\x7fELF", Err("read the first bytes"));
        assert_eq!(
            Architecture::of(&std::env::current_exe().expect("a path")).ok(),
            Architecture::here().ok()
        );
        assert!(!is_static(&std::env::current_exe().expect("a path")).expect("a program"));
    }
}
