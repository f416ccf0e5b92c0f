//! Counters of devices that come and go while they are read.

use crate::namespace::in_namespace;
use std::process::{Command, Stdio};
use stdx::exposition::{Exposition, read};
use tuner::observe::read::devices;
use tuner::{Root, report};

#[test]
fn an_interface_that_vanishes_while_it_is_read_is_left_out() {
    let test = "devices::an_interface_that_vanishes_while_it_is_read_is_left_out";
    if !in_namespace(test, "ip link add stays type veth peer name other") {
        return;
    }
    let flaps = "for i in $(seq 300); do ip link add gone type veth peer name gone2; ip link del gone; done";
    let mut flapping = Command::new("sh").args(["-c", flaps]).stdout(Stdio::null()).spawn().expect("a shell");
    let (mut seen, mut readings) = (0, 0);
    while flapping.try_wait().expect("a child").is_none() {
        let reading = devices(&Root::new("/"), 0).expect("a host");
        let mut text = Exposition::default();
        report::counters(&reading, &mut text);
        let text = text.finish();
        let families = read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        let packets = families.iter().find(|family| family.name == "evenkeel_host_nic_packets_total");
        let of = |nic: &str| {
            let samples = packets.into_iter().flat_map(|family| &family.samples);
            samples.filter(|sample| sample.label("nic") == Some(nic)).count()
        };
        assert_eq!(of("stays"), 2, "{text}");
        seen += usize::from(of("gone") > 0);
        readings += 1;
    }
    assert!(readings > 0);
    eprintln!("it was there in {seen} of {readings} readings");
}
