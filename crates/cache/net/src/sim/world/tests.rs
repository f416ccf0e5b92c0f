//! Conversations between simulated hosts.

use super::*;
use crate::handler::CloseReason;
use crate::testing::echo::EchoHandler;
use crate::testing::scripted::{ACCEPTED, ScriptedHandler, Seen, TestOrder};

const PORT: u16 = 11211;

fn options() -> Options {
    Options { workers: 1, ..Options::default() }
}

/// Two hosts that listen.
fn two(seed: u64) -> (World, [HostId; 2]) {
    let mut world = World::new(seed);
    let hosts = [0, 1].map(|_| world.add(ScriptedHandler::default(), &[PORT], &options()));
    (world, hosts)
}

fn handler(world: &mut World, host: HostId) -> &mut ScriptedHandler {
    world.handler(host)
}

fn dial(world: &mut World, from: HostId, to: HostId, timeout_ms: u32, tag: u64) {
    let place = world.place(to, PORT);
    handler(world, from).dial(&place, timeout_ms, tag);
    world.nudge(from);
}

fn write(world: &mut World, from: HostId, tag: u64, bytes: impl Into<Vec<u8>>) {
    handler(world, from).write(tag, bytes);
    world.nudge(from);
}

fn order(world: &mut World, host: HostId, order: TestOrder) {
    handler(world, host).orders.push(order);
    world.nudge(host);
}

/// A connection that `hosts[0]` has dialled with tag 1.
fn connected(seed: u64) -> (World, [HostId; 2]) {
    let (mut world, hosts) = two(seed);
    dial(&mut world, hosts[0], hosts[1], 100, 1);
    world.run_for(1000);
    assert_eq!(handler(&mut world, hosts[0]).take_seen(), [Seen::Opened(1)]);
    assert_eq!(handler(&mut world, hosts[1]).take_seen(), [Seen::Opened(ACCEPTED)]);
    (world, hosts)
}

#[test]
fn two_hosts_that_dial_each_other_have_two_connections() {
    let (mut world, [one, other]) = two(1);
    dial(&mut world, one, other, 100, 1);
    dial(&mut world, other, one, 100, 2);
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).links.keys().copied().collect::<Vec<_>>(), [1, ACCEPTED]);
    assert_eq!(handler(&mut world, other).links.keys().copied().collect::<Vec<_>>(), [2, ACCEPTED]);
    write(&mut world, one, 1, "to the other");
    write(&mut world, one, ACCEPTED, "back to the other");
    write(&mut world, other, 2, "to the one");
    world.run_for(1000);
    assert_eq!(handler(&mut world, other).received(ACCEPTED), "to the other");
    assert_eq!(handler(&mut world, other).received(2), "back to the other");
    assert_eq!(handler(&mut world, one).received(ACCEPTED), "to the one");
    let counts = world.view(one).counts();
    assert_eq!((counts.connections, counts.dialled), (1, 1));
    assert_eq!(world.connections(one, other).len(), 2);
    order(&mut world, one, TestOrder::Close(1));
    world.run_for(1000);
    assert_eq!(handler(&mut world, other).take_seen()[2..], [Seen::Closed(ACCEPTED, CloseReason::Normal)]);
    assert_eq!(world.connections(other, one).len(), 1);
}

#[test]
fn dials_fail_without_listener_without_host_and_with_a_full_queue() {
    let (mut world, [one, other]) = two(1);
    let silent = world.add(ScriptedHandler::default(), &[], &options());
    dial(&mut world, one, silent, 1000, 1);
    handler(&mut world, one).dial(&Place::Tcp(address_of(77, PORT)), 30, 2);
    world.run_for(29_000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Unreachable(1, Unreachable::Refused)]);
    world.run_for(3_000);
    let timed_out = handler(&mut world, one).seen.pop().expect("the other one");
    assert_eq!(timed_out.1, Seen::Unreachable(2, Unreachable::TimedOut));
    assert!((30_000..31_000).contains(&timed_out.0.us), "{timed_out:?}");

    // At the limit the first one waits in the queue, and the second finds no room there.
    let small = Options { connections_max: 1, backlog: Some(1), ..options() };
    let full = world.add(ScriptedHandler::default(), &[PORT], &small);
    for tag in 3..6 {
        dial(&mut world, one, full, 500, tag);
        world.run_for(1000);
    }
    world.run_for(500_000);
    let seen = [Seen::Opened(3), Seen::Opened(4), Seen::Unreachable(5, Unreachable::TimedOut)];
    assert_eq!(handler(&mut world, one).take_seen(), seen);
    assert_eq!(handler(&mut world, full).take_seen(), [Seen::Opened(ACCEPTED)]);
    order(&mut world, one, TestOrder::Abort(3));
    world.run_for(1000);
    let closed = Seen::Closed(ACCEPTED, CloseReason::Normal);
    assert_eq!(handler(&mut world, full).take_seen(), [closed, Seen::Opened(ACCEPTED + 1)]);

    let refusing = Options { connections_max: 0, at_limit: AtLimit::Refuse(b"full\n"), ..options() };
    let refusing = world.add(ScriptedHandler::default(), &[PORT], &refusing);
    dial(&mut world, other, refusing, 500, 6);
    world.run_for(1000);
    assert_eq!(handler(&mut world, other).received(6), "full\n");
    assert_eq!(
        handler(&mut world, other).take_seen(),
        [Seen::Opened(6), Seen::Closed(6, CloseReason::Normal)]
    );
    assert_eq!(world.view(refusing).counts().rejected, 1);
}

#[test]
fn in_a_partition_dials_time_out_and_connections_continue_after_it() {
    let (mut world, [one, other]) = connected(1);
    world.partition(one, other);
    dial(&mut world, one, other, 300, 2);
    write(&mut world, one, 1, "late");
    world.run_for(299_000);
    assert_eq!(handler(&mut world, one).take_seen(), []);
    world.run_for(2_000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Unreachable(2, Unreachable::TimedOut)]);
    assert_eq!(handler(&mut world, other).received(ACCEPTED), "");
    world.heal(other, one);
    write(&mut world, one, 1, ", but in order");
    world.run_for(201_000);
    assert_eq!(handler(&mut world, other).received(ACCEPTED), "late, but in order");
    dial(&mut world, one, other, 300, 3);
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Opened(3)]);
}

#[test]
fn a_dial_whose_first_packet_is_lost_connects_when_it_is_repeated() {
    let (mut world, [one, other]) = two(1);
    world.partition(one, other);
    dial(&mut world, one, other, 2000, 1);
    world.run_for(500_000);
    world.heal(one, other);
    world.run_for(400_000);
    assert_eq!(handler(&mut world, one).take_seen(), []);
    world.run_for(200_000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Opened(1)]);
}

#[test]
fn reset_and_cut_close_the_named_connections_only() {
    let (mut world, [one, other]) = connected(1);
    let third = world.add(ScriptedHandler::default(), &[PORT], &options());
    dial(&mut world, one, third, 100, 2);
    dial(&mut world, one, other, 100, 3);
    world.run_for(1000);
    handler(&mut world, one).take_seen();
    handler(&mut world, other).take_seen();
    world.reset(world.connections(one, other)[0]);
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Closed(1, CloseReason::Error)]);
    assert_eq!(handler(&mut world, other).take_seen(), [Seen::Closed(ACCEPTED, CloseReason::Error)]);
    world.cut(other, one);
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Closed(3, CloseReason::Error)]);
    write(&mut world, one, 2, "still there");
    world.run_for(1000);
    assert_eq!(handler(&mut world, third).received(ACCEPTED), "still there");
}

#[test]
fn output_to_a_host_that_lost_the_connection_is_answered_with_a_reset() {
    let (mut world, [one, other]) = connected(1);
    // Its end is lost in the partition, because it is a reset: some input is unread.
    handler(&mut world, other).accepts_max = Some(0);
    write(&mut world, one, 1, vec![b'x'; 100_000]);
    world.run_for(1000);
    world.partition(one, other);
    order(&mut world, other, TestOrder::Abort(ACCEPTED));
    world.run_for(1000);
    world.heal(one, other);
    world.run_for(1_000_000);
    assert_eq!(handler(&mut world, one).take_seen(), []);
    write(&mut world, one, 1, "still there?");
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).take_seen(), [Seen::Closed(1, CloseReason::Error)]);
}

#[test]
fn a_host_that_stops_ends_its_connections_and_is_refused() {
    let (mut world, [one, other]) = connected(1);
    let mut stopped: ScriptedHandler = world.stop(other);
    assert_eq!(stopped.take_seen(), [Seen::Closed(ACCEPTED, CloseReason::Shutdown)]);
    dial(&mut world, one, other, 100, 2);
    world.run_for(1000);
    let expected = [Seen::Closed(1, CloseReason::Normal), Seen::Unreachable(2, Unreachable::Refused)];
    let mut seen = handler(&mut world, one).take_seen();
    seen.sort_by_key(|seen| matches!(seen, Seen::Unreachable(..)));
    assert_eq!(seen, expected);
}

/// More bytes than fit between the two ends of a connection.
const MUCH: usize = 16 * super::super::network::WINDOW;

#[test]
fn two_ends_that_both_send_more_than_fits_do_not_deadlock() {
    let (mut world, [one, other]) = connected(1);
    // The other end is an accepted connection: it reads nothing while its output is blocked.
    write(&mut world, other, ACCEPTED, vec![b'o'; MUCH]);
    write(&mut world, one, 1, vec![b'x'; MUCH]);
    let done = world.run_until(10_000_000, |world| {
        handler(world, one).received.get(&1).is_some_and(|received| received.len() == MUCH)
            && handler(world, other).received.get(&ACCEPTED).is_some_and(|received| received.len() == MUCH)
    });
    assert!(done, "they wait for each other");
}

#[test]
fn datagrams_are_lost_and_reordered_but_never_split() {
    let mut world = World::new(1);
    let hosts =
        [0, 1].map(|_| world.add_with_datagrams(ScriptedHandler::default(), &[PORT], &[PORT], &options()));
    let [one, other] = hosts;
    let to = world.peer(1, other, PORT);
    let send = |world: &mut World, text: &str| order(world, one, TestOrder::Send(to, text.into()));
    let received = |world: &mut World, host| -> Vec<String> {
        let datagrams = std::mem::take(&mut handler(world, host).datagrams);
        datagrams.into_iter().map(|(_, bytes)| String::from_utf8(bytes).expect("text")).collect()
    };
    world.set_path(one, other, PathConditions { jitter_us: 0, ..PathConditions::default() });
    send(&mut world, "3");
    world.run_for(1000);
    assert_eq!(received(&mut world, other), ["3"]);
    assert_eq!(received(&mut world, one), ["reply 0", "reply 1", "reply 2"]);
    world.partition(one, other);
    send(&mut world, "1");
    world.run_for(1000);
    world.heal(one, other);
    world.run_for(1_000_000);
    assert!(received(&mut world, other).is_empty());
    world.set_path(
        one,
        other,
        PathConditions { jitter_us: 5000, loss_ppm: 200_000, ..PathConditions::default() },
    );
    (0..1000).for_each(|number| send(&mut world, &format!("number {number}")));
    world.run_for(10_000);
    let mut received = received(&mut world, other);
    assert!((700..900).contains(&received.len()), "{} of 1000", received.len());
    assert!(!received.is_sorted_by_key(|text| text[7..].parse::<u32>().expect("a number")));
    received.sort();
    received.dedup();
    assert!(received.len() > 700, "none comes twice");
}

#[test]
fn a_dialled_datagram_socket_takes_datagrams_of_its_peer_only() {
    let mut world = World::new(1);
    let hosts =
        [0, 1, 2].map(|_| world.add_with_datagrams(ScriptedHandler::default(), &[PORT], &[PORT], &options()));
    let [one, other, third] = hosts;
    let place = world.datagram_place(other, PORT);
    handler(&mut world, one).dial(&place, 1000, 1);
    world.nudge(one);
    assert!(world.run_until(10_000, |world| handler(world, one).sockets.contains_key(&1)));
    order(&mut world, one, TestOrder::SendDialled(1, b"2".to_vec()));
    world.run_for(1000);
    let from = handler(&mut world, other).datagrams[0].0;
    assert_eq!(handler(&mut world, one).datagrams.len(), 2);
    // The same address, from another host.
    let DatagramPeer::Client { address, .. } = from else { panic!("{from:?}") };
    order(&mut world, third, TestOrder::Send(DatagramPeer::Client { listener: 1, address }, b"x".to_vec()));
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).datagrams.len(), 2);
    order(&mut world, other, TestOrder::Send(from, b"y".to_vec()));
    world.run_for(1000);
    assert_eq!(handler(&mut world, one).datagrams.len(), 3);
    assert_eq!(world.view(one).counts().dialled, 1);
}

/// The history of a few hosts in a minute of faults: a fingerprint, and what each has seen.
fn random_faults(seed: u64) -> (u64, Vec<String>) {
    let mut world = World::new(seed);
    let mut prng = stdx::prng::Prng::new(seed);
    world.set_default_path(PathConditions {
        delay_us: 200,
        jitter_us: 300,
        loss_ppm: 20_000,
        piece_max: 700,
    });
    let hosts: Vec<HostId> = (0..5)
        .map(|number| match number {
            0 => world.add(EchoHandler::alone(), &[PORT], &options()),
            4 => world.add(ScriptedHandler::default(), &[], &options()),
            _ => world.add(
                ScriptedHandler::default(),
                &[PORT],
                &Options {
                    connections_max: 3,
                    backlog: Some(2),
                    dialled_max: 5,
                    idle_timeout_s: 5,
                    ..options()
                },
            ),
        })
        .collect();
    let mut pick = |count: usize| prng.below(count as u64) as usize;
    for tag in 0..1500 {
        let (from, to) = (hosts[1 + pick(3)], hosts[pick(5)]);
        match pick(12) {
            0..4 => dial(&mut world, from, to, [3, 50, 2000][pick(3)], tag),
            4..8 => {
                let tags: Vec<u64> = handler(&mut world, from).links.keys().copied().collect();
                if let Some(tag) = tags.get(pick(tags.len().max(1))) {
                    let text = ["x".repeat(pick(400_000)), "copy 70000\nhold 9\n".to_owned()];
                    write(&mut world, from, *tag, format!("{}\n", text[pick(2)]));
                    match pick(10) {
                        0 => order(&mut world, from, TestOrder::Close(*tag)),
                        1 => order(&mut world, from, TestOrder::Abort(*tag)),
                        _ => {}
                    }
                }
            }
            8 => world.cut(from, to),
            9 => world.partition(from, to),
            _ => world.heal(from, to),
        }
        world.run_for(pick(80_000) as u64);
    }
    for one in &hosts {
        hosts.iter().for_each(|other| world.heal(*one, *other));
    }
    world.run_for(20_000_000);
    let seen = hosts[1..4].iter().map(|host| format!("{:?}", handler(&mut world, *host).seen)).collect();
    // Each accepted order has had its outcome, and none is counted twice.
    for host in &hosts[1..4] {
        let counts = world.view(*host).counts();
        let seen = &handler(&mut world, *host).seen;
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
fn with_random_faults_each_dial_has_one_outcome() {
    (3..30).for_each(|seed| _ = random_faults(seed));
}

#[test]
fn equal_seeds_give_equal_histories_and_different_ones_different_histories() {
    let first = random_faults(1);
    assert!(first == random_faults(1), "the same seed");
    let other = random_faults(2);
    assert!(other.0 != first.0 && other.1 != first.1, "another seed");
    // Enough has happened for the comparison to mean something.
    for what in ["Opened", "Refused", "TimedOut", "LimitReached", "Normal", "Error", "IdleTimeout"] {
        assert!(first.1.concat().contains(what), "nothing was {what}");
    }
}

#[test]
fn a_host_that_is_started_again_has_its_address_and_none_of_its_connections() {
    let (mut world, [one, other]) = connected(1);
    let _stopped: ScriptedHandler = world.stop(other);
    world.run_for(1000);
    world.start_again(other, ScriptedHandler::default(), &[PORT], &Options::default());
    write(&mut world, one, 1, "to nobody");
    dial(&mut world, one, other, 100, 2);
    world.run_for(1000);
    let seen = handler(&mut world, one).take_seen();
    assert!(seen.contains(&Seen::Closed(1, CloseReason::Normal)), "{seen:?}");
    assert!(!seen.iter().any(|seen| matches!(seen, Seen::Unreachable(..))), "{seen:?}");
    assert_eq!(handler(&mut world, other).received.len(), 0);
}
