//! Connections dealt by receive queue (`serve -N`), in a namespace whose interface has NAPI.

use crate::support::lab;

use std::process::Command;

/// A line of `stats`, of a server in the lab that has answered so many connections from the interface, and one from the
/// loopback.
const SCRIPT: &str = r#"
napi_of_virtual_interface
evenkeel serve -l 10.77.0.1,127.0.0.1 -p 11212 -u root -t 1 --pin -N 1 --busy-poll 20 &
until grep -q ' 01004D0A:2BCC ' /proc/net/tcp && grep -q ' 0100007F:2BCC ' /proc/net/tcp; do sleep 0.1; done
stats() { printf 'stats\r\nquit\r\n' | "$@" bash -c 'exec 3<>/dev/tcp/'$host'/11212; cat >&3; cat <&3'; }
on_client evenkeel load --server 10.77.0.1:11212 --connections 8 --requests 800 --warm-up 0 > /dev/null
host=10.77.0.1
stats on_client | tr -d '\r' | grep -E 'round_robin_fallback|unexpected_napi_ids|total_connections' | sed 's/^/near: /'
host=127.0.0.1
stats env | tr -d '\r' | grep round_robin_fallback | sed 's/^/loopback: /'
"#;

#[test]
fn connections_of_an_interface_with_napi_are_dealt_by_its_queues() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !lab::can_be_made() || !has("bash") || !(has("ethtool") || has("python3")) {
        return eprintln!("no namespaces, no bash, or neither ethtool nor python3 here");
    }
    let said = lab::says(SCRIPT, 1);
    for expected in [
        "near: STAT unexpected_napi_ids 0\n",
        "near: STAT round_robin_fallback 0\n",
        "loopback: STAT round_robin_fallback 1\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
    // Those of the load, and that of `stats`.
    let total = said.lines().find_map(|line| line.strip_prefix("near: STAT total_connections "));
    assert!(total.is_some_and(|total| total.parse::<u32>().is_ok_and(|total| total >= 9)), "{said}");
}
