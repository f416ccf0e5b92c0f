//! Uploads: too long, too short, too many, or of a client that disappears.

use super::*;
use std::process::{Child, Command, Stdio};

const MEGABYTE: usize = 1 << 20;

#[test]
fn bodies_shorter_or_longer_than_announced_leave_no_trace() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        for number in 0..300 {
            let stream = attacked.connect();
            send(&stream, b"set a 0 0 1000000\r\n");
            send(&stream, &vec![b'x'; 500_000]);
            if number % 2 == 0 { reset(stream) } else { drop(stream) }
        }
        let stream = attacked.connect();
        send(&stream, b"set a 0 0 3\r\n");
        send(&stream, &b"too long\r\n".repeat(10_000));
        assert!(drain(stream).starts_with(b"CLIENT_ERROR bad data chunk\r\n"));
        attacked.all_have_left_but(0);
        // The memory of values that never arrived is free for others.
        let mut client = attacked.client();
        for number in 0..200 {
            let set =
                [format!("set k{number} 0 0 500000\r\n").as_bytes(), &vec![b'v'; 500_000], b"\r\n"].concat();
            assert_eq!(client.ask(&set).expect("service"), "STORED");
        }
        attacked.close("bodies of another length");
    }
}

#[test]
fn values_of_the_maximum_size_fit_at_the_memory_limit() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 128, &["-I", "32m"]);
        let mut client = attacked.client();
        let size = 31 * MEGABYTE;
        let value = vec![b'v'; size];
        let mut stored = 0;
        for number in 0..12 {
            let set = [format!("set k{number} 0 0 {size}\r\n").as_bytes(), &value, b"\r\n"].concat();
            match client.ask(&set).expect("service").as_str() {
                "STORED" => stored += 1,
                refused => assert_eq!(refused, "SERVER_ERROR out of memory storing object"),
            }
            attacked.memory_is_bounded();
        }
        assert!(stored >= 10, "only {stored} of 12 were stored");
        let count = client.statistic("curr_items").expect("stats");
        assert!(count >= 3, "only {count} items of 31 MB are held in 128 MB");
        attacked.close("a dozen values of 31 MB in 128 MB");
    }
}

#[test]
fn many_large_uploads_at_once_stay_within_the_limit() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-I", "16m"]);
        let streams: Vec<TcpStream> = (0..40).map(|_| attacked.connect()).collect();
        std::thread::scope(|scope| {
            for (number, stream) in streams.iter().enumerate() {
                scope.spawn(move || {
                    send(stream, format!("set k{number} 0 0 {}\r\n", 15 * MEGABYTE).as_bytes());
                    (0..14).for_each(|_| send(stream, &vec![b'x'; MEGABYTE]));
                });
            }
        });
        attacked.memory_is_bounded();
        streams.into_iter().for_each(reset);
        attacked.all_have_left_but(0);
        let mut client = attacked.client();
        let set =
            [format!("set k 0 0 {}\r\n", 15 * MEGABYTE).as_bytes(), &vec![b'v'; 15 * MEGABYTE], b"\r\n"]
                .concat();
        assert_eq!(client.ask(&set).expect("service"), "STORED");
        attacked.close("forty uploads of 15 MB in 64 MB");
    }
}

#[test]
fn clients_killed_in_the_middle_of_a_transfer_leave_nothing() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        let mut client = attacked.client();
        let set = [&b"set big 0 0 1000000\r\n"[..], &vec![b'v'; 1_000_000], b"\r\n"].concat();
        assert_eq!(client.ask(&set).expect("service"), "STORED");
        attacked.connections_become(2, &mut client);
        let transferred = |client: &mut Client| {
            ["bytes_read", "bytes_written"].map(|name| client.statistic(name).expect("stats"))
        };
        let [read_before, written_before] = transferred(&mut client);
        let port = attacked.server.address().port();
        let mut children: Vec<Child> = (0..20)
            .map(|number| {
                let deed = match number % 2 {
                    0 => {
                        r"printf 'set mine 0 0 900000\r\n' >&3; while :; do printf xxxxxxxxxxxxxxxx >&3; done"
                    }
                    _ => r"while :; do printf 'get big\r\n' >&3; done",
                };
                let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; {deed}");
                Command::new("bash")
                    .args(["-c", &script])
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("bash")
            })
            .collect();
        attacked.connections_become(2 + children.len() as u64, &mut client);
        let under_way = clock::wait_for(|| {
            let [read, written] = transferred(&mut client);
            (read > read_before + 100_000 && written > written_before + 5_000_000).then_some(())
        });
        assert!(under_way.is_some(), "the clients do not transfer anything");
        attacked.memory_is_bounded();
        for child in &mut children {
            child.kill().expect("kill a client");
            child.wait().expect("bury a client");
        }
        attacked.connections_become(2, &mut client);
        attacked.close("twenty clients killed");
    }
}
