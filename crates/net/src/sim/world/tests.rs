//! Conversations between simulated hosts.

use super::*;
use crate::caller::{ACCEPTED, Caller, Errand, Seen};
use crate::handler::CloseReason;
use crate::parrot::Parrot;

const PORT: u16 = 11211;

fn options() -> Options {
    Options { workers: 1, ..Options::default() }
}

/// Two callers, each of which listens.
fn two(seed: u64) -> (World, [HostId; 2]) {
    let mut world = World::new(seed);
    let hosts = [0, 1].map(|_| world.add(Caller::default(), &[PORT], &options()));
    (world, hosts)
}

fn caller(world: &mut World, host: HostId) -> &mut Caller {
    world.handler(host)
}

fn dial(world: &mut World, from: HostId, to: HostId, timeout_ms: u32, tag: u64) {
    let place = world.place(to, PORT);
    caller(world, from).dial(&place, timeout_ms, tag);
    world.nudge(from);
}

fn say(world: &mut World, from: HostId, tag: u64, bytes: impl Into<Vec<u8>>) {
    caller(world, from).say(tag, bytes);
    world.nudge(from);
}

fn order(world: &mut World, host: HostId, errand: Errand) {
    caller(world, host).orders.push(errand);
    world.nudge(host);
}

/// A connection that `hosts[0]` has dialled with tag 1.
fn connected(seed: u64) -> (World, [HostId; 2]) {
    let (mut world, hosts) = two(seed);
    dial(&mut world, hosts[0], hosts[1], 100, 1);
    world.run_for(1000);
    assert_eq!(caller(&mut world, hosts[0]).news(), [Seen::Opened(1)]);
    assert_eq!(caller(&mut world, hosts[1]).news(), [Seen::Opened(ACCEPTED)]);
    (world, hosts)
}

#[test]
fn two_hosts_that_dial_each_other_talk_over_two_connections() {
    let (mut world, [one, other]) = two(1);
    dial(&mut world, one, other, 100, 1);
    dial(&mut world, other, one, 100, 2);
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).links.keys().copied().collect::<Vec<_>>(), [1, ACCEPTED]);
    assert_eq!(caller(&mut world, other).links.keys().copied().collect::<Vec<_>>(), [2, ACCEPTED]);
    say(&mut world, one, 1, "to the other");
    say(&mut world, one, ACCEPTED, "back to the other");
    say(&mut world, other, 2, "to the one");
    world.run_for(1000);
    assert_eq!(caller(&mut world, other).heard(ACCEPTED), "to the other");
    assert_eq!(caller(&mut world, other).heard(2), "back to the other");
    assert_eq!(caller(&mut world, one).heard(ACCEPTED), "to the one");
    let counts = world.view(one).counts();
    assert_eq!((counts.connections, counts.dialled), (1, 1));
    assert_eq!(world.wires(one, other).len(), 2);
    order(&mut world, one, Errand::Close(1));
    world.run_for(1000);
    assert_eq!(caller(&mut world, other).news()[2..], [Seen::Closed(ACCEPTED, CloseReason::Normal)]);
    assert_eq!(world.wires(other, one).len(), 1);
}

#[test]
fn nobody_listens_nobody_is_there_and_somebody_is_full() {
    let (mut world, [one, other]) = two(1);
    let silent = world.add(Caller::default(), &[], &options());
    dial(&mut world, one, silent, 1000, 1);
    caller(&mut world, one).dial(&Place::Tcp(address_of(77, PORT)), 30, 2);
    world.run_for(29_000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Unreachable(1, Unreachable::Refused)]);
    world.run_for(3_000);
    let timed_out = caller(&mut world, one).seen.pop().expect("the other one");
    assert_eq!(timed_out.1, Seen::Unreachable(2, Unreachable::TimedOut));
    assert!((30_000..31_000).contains(&timed_out.0.us), "{timed_out:?}");

    // At the limit the first one waits in the queue, of which the second finds no room.
    let small = Options { connections_max: 1, backlog: 1, ..options() };
    let full = world.add(Caller::default(), &[PORT], &small);
    for tag in 3..6 {
        dial(&mut world, one, full, 500, tag);
        world.run_for(1000);
    }
    world.run_for(500_000);
    let seen = [Seen::Opened(3), Seen::Opened(4), Seen::Unreachable(5, Unreachable::TimedOut)];
    assert_eq!(caller(&mut world, one).news(), seen);
    assert_eq!(caller(&mut world, full).news(), [Seen::Opened(ACCEPTED)]);
    order(&mut world, one, Errand::Abort(3));
    world.run_for(1000);
    let closed = Seen::Closed(ACCEPTED, CloseReason::Normal);
    assert_eq!(caller(&mut world, full).news(), [closed, Seen::Opened(ACCEPTED + 1)]);

    let refusing = Options { connections_max: 0, at_limit: AtLimit::Refuse(b"full\n"), ..options() };
    let refusing = world.add(Caller::default(), &[PORT], &refusing);
    dial(&mut world, other, refusing, 500, 6);
    world.run_for(1000);
    assert_eq!(caller(&mut world, other).heard(6), "full\n");
    assert_eq!(caller(&mut world, other).news(), [Seen::Opened(6), Seen::Closed(6, CloseReason::Normal)]);
    assert_eq!(world.view(refusing).counts().rejected, 1);
}

#[test]
fn behind_a_partition_a_dial_times_out_and_a_connection_goes_on_once_it_is_healed() {
    let (mut world, [one, other]) = connected(1);
    world.part(one, other);
    dial(&mut world, one, other, 300, 2);
    say(&mut world, one, 1, "late");
    world.run_for(299_000);
    assert_eq!(caller(&mut world, one).news(), []);
    world.run_for(2_000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Unreachable(2, Unreachable::TimedOut)]);
    assert_eq!(caller(&mut world, other).heard(ACCEPTED), "");
    world.heal(other, one);
    say(&mut world, one, 1, ", but in order");
    world.run_for(201_000);
    assert_eq!(caller(&mut world, other).heard(ACCEPTED), "late, but in order");
    dial(&mut world, one, other, 300, 3);
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Opened(3)]);
}

#[test]
fn a_dial_whose_first_packet_is_lost_connects_when_it_is_repeated() {
    let (mut world, [one, other]) = two(1);
    world.part(one, other);
    dial(&mut world, one, other, 2000, 1);
    world.run_for(500_000);
    world.heal(one, other);
    world.run_for(400_000);
    assert_eq!(caller(&mut world, one).news(), []);
    world.run_for(200_000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Opened(1)]);
}

#[test]
fn what_is_cut_closes_at_both_ends_and_nothing_else_does() {
    let (mut world, [one, other]) = connected(1);
    let third = world.add(Caller::default(), &[PORT], &options());
    dial(&mut world, one, third, 100, 2);
    dial(&mut world, one, other, 100, 3);
    world.run_for(1000);
    caller(&mut world, one).news();
    caller(&mut world, other).news();
    world.reset(world.wires(one, other)[0]);
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Closed(1, CloseReason::Error)]);
    assert_eq!(caller(&mut world, other).news(), [Seen::Closed(ACCEPTED, CloseReason::Error)]);
    world.cut(other, one);
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Closed(3, CloseReason::Error)]);
    say(&mut world, one, 2, "still there");
    world.run_for(1000);
    assert_eq!(caller(&mut world, third).heard(ACCEPTED), "still there");
}

#[test]
fn who_speaks_to_a_host_that_forgot_the_connection_is_told() {
    let (mut world, [one, other]) = connected(1);
    // Its end is lost in the partition, because it is a reset: something lies unread.
    caller(&mut world, other).hears_max = Some(0);
    say(&mut world, one, 1, vec![b'x'; 100_000]);
    world.run_for(1000);
    world.part(one, other);
    order(&mut world, other, Errand::Abort(ACCEPTED));
    world.run_for(1000);
    world.heal(one, other);
    world.run_for(1_000_000);
    assert_eq!(caller(&mut world, one).news(), []);
    say(&mut world, one, 1, "still there?");
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).news(), [Seen::Closed(1, CloseReason::Error)]);
}

#[test]
fn a_host_that_stops_ends_its_connections_and_is_refused() {
    let (mut world, [one, other]) = connected(1);
    let mut stopped: Caller = world.stop(other);
    assert_eq!(stopped.news(), [Seen::Closed(ACCEPTED, CloseReason::Shutdown)]);
    dial(&mut world, one, other, 100, 2);
    world.run_for(1000);
    let seen = [Seen::Closed(1, CloseReason::Normal), Seen::Unreachable(2, Unreachable::Refused)];
    let mut news = caller(&mut world, one).news();
    news.sort_by_key(|seen| matches!(seen, Seen::Unreachable(..)));
    assert_eq!(news, seen);
}

/// Bytes that cannot lie between the two ends of a connection.
const MUCH: usize = 16 * super::super::wire::WINDOW;

#[test]
fn two_ends_of_which_both_send_more_than_fits_do_not_wait_for_each_other() {
    let (mut world, [one, other]) = connected(1);
    // The other end is an accepted connection: it reads nothing while its output is blocked.
    say(&mut world, other, ACCEPTED, vec![b'o'; MUCH]);
    say(&mut world, one, 1, vec![b'x'; MUCH]);
    let done = world.run_until(10_000_000, |world| {
        caller(world, one).heard.get(&1).is_some_and(|heard| heard.len() == MUCH)
            && caller(world, other).heard.get(&ACCEPTED).is_some_and(|heard| heard.len() == MUCH)
    });
    assert!(done, "they wait for each other");
}

#[test]
fn datagrams_are_lost_and_overtaken_but_never_torn() {
    let mut world = World::new(1);
    let hosts = [0, 1].map(|_| world.add_with_datagrams(Caller::default(), &[PORT], &[PORT], &options()));
    let [one, other] = hosts;
    let to = world.peer(1, other, PORT);
    let send = |world: &mut World, text: &str| order(world, one, Errand::Send(to, text.into()));
    let heard = |world: &mut World, host| -> Vec<String> {
        let datagrams = std::mem::take(&mut caller(world, host).datagrams);
        datagrams.into_iter().map(|(_, bytes)| String::from_utf8(bytes).expect("text")).collect()
    };
    world.set_line(one, other, Line { jitter_us: 0, ..Line::default() });
    send(&mut world, "3");
    world.run_for(1000);
    assert_eq!(heard(&mut world, other), ["3"]);
    assert_eq!(heard(&mut world, one), ["reply 0", "reply 1", "reply 2"]);
    world.part(one, other);
    send(&mut world, "1");
    world.run_for(1000);
    world.heal(one, other);
    world.run_for(1_000_000);
    assert!(heard(&mut world, other).is_empty());
    world.set_line(one, other, Line { jitter_us: 5000, loss_ppm: 200_000, ..Line::default() });
    (0..1000).for_each(|number| send(&mut world, &format!("number {number}")));
    world.run_for(10_000);
    let mut heard = heard(&mut world, other);
    assert!((700..900).contains(&heard.len()), "{} of 1000", heard.len());
    assert!(!heard.is_sorted_by_key(|text| text[7..].parse::<u32>().expect("a number")));
    heard.sort();
    heard.dedup();
    assert!(heard.len() > 700, "none comes twice");
}

#[test]
fn a_dialled_place_for_datagrams_answers_and_others_are_not_heard() {
    let mut world = World::new(1);
    let hosts = [0, 1, 2].map(|_| world.add_with_datagrams(Caller::default(), &[PORT], &[PORT], &options()));
    let [one, other, third] = hosts;
    let place = world.datagram_place(other, PORT);
    caller(&mut world, one).dial(&place, 1000, 1);
    world.nudge(one);
    assert!(world.run_until(10_000, |world| caller(world, one).sockets.contains_key(&1)));
    order(&mut world, one, Errand::SendDialled(1, b"2".to_vec()));
    world.run_for(1000);
    let from = caller(&mut world, other).datagrams[0].0;
    assert_eq!(caller(&mut world, one).datagrams.len(), 2);
    // The same address, from another host.
    let DatagramPeer::Client { address, .. } = from else { panic!("{from:?}") };
    order(&mut world, third, Errand::Send(DatagramPeer::Client { listener: 1, address }, b"x".to_vec()));
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).datagrams.len(), 2);
    order(&mut world, other, Errand::Send(from, b"y".to_vec()));
    world.run_for(1000);
    assert_eq!(caller(&mut world, one).datagrams.len(), 3);
    assert_eq!(world.view(one).counts().dialled, 1);
}

/// What happens to a few hosts in a minute full of trouble: a fingerprint, and what each has seen.
fn troubles(seed: u64) -> (u64, Vec<String>) {
    let mut world = World::new(seed);
    let mut prng = stdx::prng::Prng::new(seed);
    world.set_default_line(Line { delay_us: 200, jitter_us: 300, loss_ppm: 20_000, piece_max: 700 });
    let hosts: Vec<HostId> = (0..5)
        .map(|number| match number {
            0 => world.add(Parrot::alone(), &[PORT], &options()),
            4 => world.add(Caller::default(), &[], &options()),
            _ => world.add(
                Caller::default(),
                &[PORT],
                &Options { connections_max: 3, backlog: 2, dialled_max: 5, idle_timeout_s: 5, ..options() },
            ),
        })
        .collect();
    let mut pick = |count: usize| prng.below(count as u64) as usize;
    for tag in 0..1500 {
        let (from, to) = (hosts[1 + pick(3)], hosts[pick(5)]);
        match pick(12) {
            0..4 => dial(&mut world, from, to, [3, 50, 2000][pick(3)], tag),
            4..8 => {
                let tags: Vec<u64> = caller(&mut world, from).links.keys().copied().collect();
                if let Some(tag) = tags.get(pick(tags.len().max(1))) {
                    let text = ["x".repeat(pick(400_000)), "copy 70000\nhold 9\n".to_owned()];
                    say(&mut world, from, *tag, format!("{}\n", text[pick(2)]));
                    match pick(10) {
                        0 => order(&mut world, from, Errand::Close(*tag)),
                        1 => order(&mut world, from, Errand::Abort(*tag)),
                        _ => {}
                    }
                }
            }
            8 => world.cut(from, to),
            9 => world.part(from, to),
            _ => world.heal(from, to),
        }
        world.run_for(pick(80_000) as u64);
    }
    for one in &hosts {
        hosts.iter().for_each(|other| world.heal(*one, *other));
    }
    world.run_for(20_000_000);
    let seen = hosts[1..4].iter().map(|host| format!("{:?}", caller(&mut world, *host).seen)).collect();
    // Each order that was taken has had its outcome, and nothing is counted twice.
    for host in &hosts[1..4] {
        let counts = world.view(*host).counts();
        let seen = &caller(&mut world, *host).seen;
        let count = |is: fn(&Seen) -> bool| seen.iter().filter(|(_, seen)| is(seen)).count() as u64;
        let unreachable = count(|seen| matches!(seen, Seen::Unreachable(..)));
        assert_eq!(counts.unreachable, unreachable, "seed {seed}");
        let open =
            count(|seen| matches!(seen, Seen::Opened(_))) - count(|seen| matches!(seen, Seen::Closed(..)));
        assert_eq!(counts.connections + counts.dialled, open, "seed {seed}");
        assert!(counts.dialled <= 5 && counts.connections <= 3, "seed {seed}");
    }
    (world.fingerprint(), seen)
}

#[test]
fn in_any_trouble_each_dial_has_one_outcome() {
    (3..30).for_each(|seed| _ = troubles(seed));
}

#[test]
fn the_same_seed_makes_the_same_history_and_another_one_another() {
    let first = troubles(1);
    assert!(first == troubles(1), "the same seed");
    let other = troubles(2);
    assert!(other.0 != first.0 && other.1 != first.1, "another seed");
    // Enough has happened for this to mean something.
    for what in ["Opened", "Refused", "TimedOut", "LimitReached", "Normal", "Error", "IdleTimeout"] {
        assert!(first.1.concat().contains(what), "nothing was {what}");
    }
}
