//! The program at the interface: it sends UDP datagrams for one address and port to the ring of their queue, and all else to the kernel.
//!
//! Written as instructions of eBPF (RFC 9669), since there are few of them and building it needs no compiler. What it does not know it passes: frames with two VLAN tags,
//! IP options and extension headers, fragments, frames that are longer than the memory for one, and queues without a ring.

use std::net::{IpAddr, SocketAddr};

use crate::frames::FRAME_LEN;

/// The number of `bpf_redirect_map` among the kernel's helpers.
const REDIRECT_MAP: i32 = 51;
/// The verdict that a frame goes on to the kernel.
pub(crate) const PASS: i32 = 2;

// Classes and modes of instructions.
const LOAD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const LOAD_WIDE: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
/// The low halves of registers are compared: numbers of 32 bits are not extended by a sign.
const JUMP_UNLESS_EQUAL: u8 = 0x56;
const JUMP_IF_REGISTER_GREATER: u8 = 0x2d;
const JUMP_IF_REGISTER_NOT_GREATER: u8 = 0xbd;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Of `LOAD_WIDE`: the number is a descriptor of a map.
const MAP: u8 = 1;

/// Where things are in the kernel's `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// The longest frame that has room in memory for one, behind what the kernel leaves free for the driver (XDP_PACKET_HEADROOM).
const LONGEST: usize = FRAME_LEN - 256;

/// Targets of jumps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Untagged,
    Pass,
}

/// Instructions whose jumps have no distances yet.
#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn add(&mut self, operation: u8, target: u8, source: u8, offset: i16, number: i32) {
        let registers = u64::from(source << 4 | target);
        let offset = u64::from(offset as u16);
        self.code.push(u64::from(operation) | registers << 8 | offset << 16 | u64::from(number as u32) << 32);
    }

    fn load(&mut self, operation: u8, target: u8, source: u8, offset: i16) {
        self.add(operation, target, source, offset, 0);
    }

    fn jump(&mut self, operation: u8, target: u8, source: u8, number: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.add(operation, target, source, 0, number);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    /// Jumps to `Pass` if the frame ends before `len` bytes behind the register `from`. Uses register 4.
    fn pass_if_short(&mut self, from: u8, len: i32) {
        self.add(MOVE, 4, from, 0, 0);
        self.add(ADD_NUMBER, 4, 0, 0, len);
        self.jump(JUMP_IF_REGISTER_GREATER, 4, 3, 0, Label::Pass);
    }

    /// Jumps to `Pass` if the frame has more than `len` bytes behind the register `from`. Uses register 4.
    fn pass_if_longer(&mut self, from: u8, len: i32) {
        self.add(MOVE, 4, from, 0, 0);
        self.add(ADD_NUMBER, 4, 0, 0, len + 1);
        self.jump(JUMP_IF_REGISTER_NOT_GREATER, 4, 3, 0, Label::Pass);
    }

    /// Jumps to `Pass` unless this field has this value, as it is in memory. Uses register 5.
    fn pass_unless(&mut self, load: u8, from: u8, offset: i16, value: i32) {
        self.load(load, 5, from, offset);
        self.jump(JUMP_UNLESS_EQUAL, 5, 0, value, Label::Pass);
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let (_, target) =
                self.labels.iter().find(|(known, _)| *known == label).expect("each label is set");
            // A program of fewer than a hundred instructions.
            let distance = (*target - at - 1) as u16;
            self.code[at] |= u64::from(distance) << 16;
        }
        self.code
    }
}

/// A number of the network as memory has it.
fn half(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// The program for datagrams to `address`, whose rings are in the map with this descriptor; and the verdict on those of a queue without a ring.
///
/// Register 6 has the context, 2 the beginning of the frame, 3 its end, 7 the IP header.
pub(crate) fn instructions(address: SocketAddr, map: i32, without_ring: i32) -> Vec<u64> {
    let mut code = Assembler::default();
    code.add(MOVE, 6, 1, 0, 0);
    code.load(LOAD, 2, 1, DATA);
    code.load(LOAD, 3, 1, DATA_END);
    code.pass_if_short(2, 14 + 4);
    code.pass_if_longer(2, LONGEST as i32);
    code.load(LOAD_HALF, 5, 2, 12);
    code.add(MOVE, 7, 2, 0, 0);
    code.add(ADD_NUMBER, 7, 0, 0, 14);
    code.jump(JUMP_UNLESS_EQUAL, 5, 0, half(0x8100), Label::Untagged);
    code.load(LOAD_HALF, 5, 2, 16);
    code.add(ADD_NUMBER, 7, 0, 0, 4);
    code.label(Label::Untagged);
    match address.ip() {
        IpAddr::V4(ip) => {
            code.jump(JUMP_UNLESS_EQUAL, 5, 0, half(0x0800), Label::Pass);
            code.pass_if_short(7, 20 + 8);
            code.pass_unless(LOAD_BYTE, 7, 0, 0x45);
            code.pass_unless(LOAD_BYTE, 7, 9, 17);
            code.load(LOAD_HALF, 5, 7, 6);
            code.add(AND_NUMBER, 5, 0, 0, half(0x3fff));
            code.jump(JUMP_UNLESS_EQUAL, 5, 0, 0, Label::Pass);
            code.pass_unless(LOAD_HALF, 7, 22, half(address.port()));
            code.pass_unless(LOAD, 7, 16, i32::from_ne_bytes(ip.octets()));
        }
        IpAddr::V6(ip) => {
            code.jump(JUMP_UNLESS_EQUAL, 5, 0, half(0x86dd), Label::Pass);
            code.pass_if_short(7, 40 + 8);
            code.pass_unless(LOAD_BYTE, 7, 6, 17);
            code.pass_unless(LOAD_HALF, 7, 42, half(address.port()));
            let octets = ip.octets();
            for (word, at) in octets.as_chunks::<4>().0.iter().zip((24_i16..).step_by(4)) {
                code.pass_unless(LOAD, 7, at, i32::from_ne_bytes(*word));
            }
        }
    }
    code.load(LOAD, 2, 6, QUEUE);
    code.add(LOAD_WIDE, 1, MAP, 0, map);
    code.add(0, 0, 0, 0, 0);
    // What a queue without a ring does.
    code.add(MOVE_NUMBER, 3, 0, 0, without_ring);
    code.add(CALL, 0, 0, 0, REDIRECT_MAP);
    code.add(EXIT, 0, 0, 0, 0);
    code.label(Label::Pass);
    code.add(MOVE_NUMBER, 0, 0, 0, PASS);
    code.add(EXIT, 0, 0, 0, 0);
    code.finish()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::frame::{FrameLink, HEAD_MAX, write};
    use crate::sys;

    /// The verdict that takes the place of a ring, since there is none.
    const DROP: i32 = 1;

    fn frame(tag: Option<u16>, from: &str, to: &str) -> Vec<u8> {
        let [from, to] = [from, to].map(|address| address.parse().expect("an address"));
        let mut frame = vec![0; HEAD_MAX + 9];
        let len = write(&mut frame, &FrameLink { peer: [2; 6], own: [4; 6], tag }, from, to, b"get key\r\n");
        frame.truncate(len.expect("it fits"));
        frame
    }

    /// Runs the program for an address on frames, in the kernel. Returns whether each of them was taken.
    fn taken(address: &str, frames: &[Vec<u8>]) -> Vec<bool> {
        let address = address.parse().expect("an address");
        let map = sys::socket_map(4).expect("a map: this test needs the right to make one (root)");
        let program =
            sys::load(&instructions(address, map.as_raw_fd(), DROP)).expect("the kernel accepts it");
        let verdict = |frame: &Vec<u8>| sys::run(&program, frame).expect("it runs");
        frames.iter().map(|frame| verdict(frame) == DROP as u32).collect()
    }

    #[test]
    fn it_takes_datagrams_for_one_address_and_port() {
        let ipv4 = [
            frame(None, "192.0.2.1:40000", "192.0.2.2:11211"),
            frame(Some(7), "192.0.2.1:40000", "192.0.2.2:11211"),
            frame(None, "192.0.2.1:40000", "192.0.2.2:11212"),
            frame(None, "192.0.2.1:40000", "192.0.2.3:11211"),
            frame(None, "192.0.2.1:11211", "192.0.2.3:40000"),
            frame(None, "[2001:db8::1]:40000", "[2001:db8::2]:11211"),
        ];
        assert_eq!(taken("192.0.2.2:11211", &ipv4), [true, true, false, false, false, false]);
        // The highest bit of a number is no sign.
        let high = frame(None, "192.0.2.1:40000", "192.0.2.254:65535");
        assert_eq!(taken("192.0.2.254:65535", &[high]), [true]);
        let ipv6 = [
            frame(None, "[2001:db8::1]:40000", "[2001:db8::2]:11211"),
            frame(Some(7), "[2001:db8::1]:40000", "[2001:db8::2]:11211"),
            frame(None, "[2001:db8::1]:40000", "[2001:db8::3]:11211"),
            frame(None, "[2001:db8::1]:40000", "[2001:db9::2]:11211"),
            frame(None, "[2001:db8::1]:40000", "[2001:db8::2]:11210"),
            frame(None, "192.0.2.1:40000", "192.0.2.2:11211"),
        ];
        assert_eq!(taken("[2001:db8::2]:11211", &ipv6), [true, true, false, false, false, false]);
    }

    #[test]
    fn it_passes_what_it_does_not_know() {
        let whole = frame(None, "192.0.2.1:40000", "192.0.2.2:11211");
        let changed = |at: usize, byte: u8| {
            let mut frame = whole.clone();
            frame[at] = byte;
            frame
        };
        let frames = [
            // ARP, options, TCP, a first fragment, a later one, two tags.
            changed(13, 0x06),
            changed(14, 0x46),
            changed(23, 6),
            changed(20, 0x20),
            changed(21, 1),
            [&whole[..12], &[0x81, 0, 0, 7, 0x81, 0, 0, 8], &whole[12..]].concat(),
            whole[..41].to_vec(),
        ];
        assert_eq!(taken("192.0.2.2:11211", &frames), [false; 7]);
        // What an interface with large frames receives.
        let with = |len| [&whole[..], &vec![0; len - whole.len()]].concat();
        assert_eq!(taken("192.0.2.2:11211", &[with(LONGEST), with(LONGEST + 1)]), [true, false]);
        // "Don't fragment" is no fragment.
        assert_eq!(taken("192.0.2.2:11211", &[changed(20, 0x40), changed(20, 0)]), [true, true]);
        let extended = {
            let mut frame = frame(None, "[2001:db8::1]:40000", "[2001:db8::2]:11211");
            frame[20] = 44;
            frame
        };
        assert_eq!(taken("[2001:db8::2]:11211", &[extended]), [false]);
    }
}
