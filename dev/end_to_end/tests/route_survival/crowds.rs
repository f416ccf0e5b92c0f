//! Many clients.

use super::*;

/// Memory of the router for an idle client: more than twice what was measured, because pages are shared by chance.
const IDLE_BYTES_MAX: u64 = 2_048;

#[test]
fn five_thousand_idle_clients_cost_little_memory_each() {
    const COUNT: u64 = 5_000;
    process::raise_open_files(2 * COUNT).expect("files");
    let server = evenkeel();
    let router = router(&pool([&server]), &["--num-proxies=2"]);
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"get none\r\n").expect("send");
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"END\r\n");
    };
    // Memory that is taken once, for the first clients, does not count as that of an idle one.
    let mut warm: Vec<TcpStream> = (0..100).map(|_| router.connect().expect("a connection")).collect();
    warm.iter_mut().for_each(ask);
    let before = router.resident().expect("memory");
    let mut streams: Vec<TcpStream> = (0..COUNT).map(|_| router.connect().expect("a connection")).collect();
    streams.iter_mut().for_each(ask);
    let each = router.resident().expect("memory").saturating_sub(before) / COUNT;
    println!("{each} bytes for each of {COUNT} idle clients");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes for each of {COUNT} idle clients");
    // All of them are served.
    streams.iter_mut().rev().for_each(ask);
}
