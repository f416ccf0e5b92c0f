//! Interfaces from which datagrams are taken below the kernel's sockets (`--udp-xdp`).

use net::FramesFrom;

use super::Listen;
use crate::settings::flags::LowArgs;

/// Interfaces of `--udp-xdp`. The error is a clause.
pub(super) fn meaning(low: &LowArgs, listeners: &[Listen]) -> Result<Option<FramesFrom>, String> {
    let names = low.udp.frames.interfaces.iter().flat_map(|list| list.split(',')).map(str::trim);
    let mut interfaces: Vec<String> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if interfaces.iter().any(|known| known == name) {
            return Err(format!("--udp-xdp {name}: given twice"));
        }
        interfaces.push(name.to_owned());
    }
    if interfaces.is_empty() {
        return Ok(None);
    }
    let given = format!("--udp-xdp {}", interfaces.join(","));
    let hosts: Vec<_> = listeners
        .iter()
        .filter_map(|listen| match listen {
            Listen::Udp { host, .. } => Some(host),
            _ => None,
        })
        .collect();
    match hosts[..] {
        [] => Err(format!("{given}: expected -U as well, the port for datagrams")),
        [Some(_)] if low.options.takeover.is_some() => Err(format!(
            "{given}: expected it without --takeover, because the other server's program stays at the interface until that server has \
             ended; without it, sockets take over what they get"
        )),
        [Some(_)] => Ok(Some(FramesFrom { interfaces, mode: low.udp.frames.mode })),
        [None] => Err(format!("{given}: expected -l as well, with the address of the interface")),
        _ => Err(format!("{given}: expected one address for datagrams in -l, found {}", hosts.len())),
    }
}
