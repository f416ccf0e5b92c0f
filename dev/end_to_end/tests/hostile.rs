//! All hostile clients at once, for seconds, beside a well-behaved client. Its latency is measured on a quiet machine:
//! `evenkeel lab run experiments/hostile.toml`.

use std::time::Duration;

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::honest::Honest;
use end_to_end::hostile::{ATTACKS, Attackers, FLAGS};
use end_to_end::process::raise_open_files;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

const FILES: u64 = 8_192;

/// Long enough for each attack to begin, on a busy machine, too.
const LENGTH: Duration = Duration::from_secs(4);

#[track_caller]
fn survives(driver: SocketDriver) {
    raise_open_files(FILES).expect("files");
    let mut server = Server::start(&ServerUnderTest::evenkeel(driver), &FLAGS).expect("a server");
    let honest = Honest::start(server.address()).expect("an honest client");
    let attackers = Attackers::start(server.address(), &ATTACKS);
    clock::pass(LENGTH);
    let experience = honest.stop().expect("an honest client that is served");
    let rounds = attackers.stop();
    assert_eq!(experience.errors, 0, "{driver:?}: {:?}", experience.first_error);
    assert!(experience.gets > 0 && experience.sets > 0, "{driver:?}: nothing was asked");
    assert!(server.is_alive(), "{driver:?}: the server is gone");
    for (attack, rounds) in &rounds {
        assert_eq!(rounds.wrong, 0, "{driver:?}: {attack}: an answer that no server should give");
        // An attack that was cut off was made, too.
        assert!(rounds.done + rounds.cut_off > 0, "{driver:?}: {attack} was not made");
    }
    let whole = rounds.iter().filter(|(_, rounds)| rounds.done > 0).count();
    // On a busy machine an answer may take longer than an attacker waits for it.
    assert!(whole * 2 > rounds.len(), "{driver:?}: only {whole} attacks were completed: {rounds:?}");
    let mut after = Client::new(server.connect().expect("a connection"));
    assert_eq!(after.ask(b"mn\r\n").expect("an answer"), "MN");
    println!("{driver:?}: {} gets, {} misses, {rounds:?}", experience.gets, experience.misses);
}

#[test]
fn all_attacks_at_once_do_no_harm_to_an_honest_client_with_either_driver() {
    SocketDriver::ALL.into_iter().for_each(survives);
}
