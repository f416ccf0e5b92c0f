use stdx::prng::Prng;

use super::*;

fn list(file: &str) -> DiscoveryList {
    DiscoveryList::parse(file.as_bytes()).expect("a list")
}

/// The value of the reply to a file.
#[track_caller]
fn check(file: &str, expected: &str) {
    assert_eq!(String::from_utf8_lossy(&list(file).text), expected, "{file:?}");
}

/// A part of the error about a file.
#[track_caller]
fn refuses(file: &str, expected: &str) {
    let error = DiscoveryList::parse(file.as_bytes()).expect_err("an error").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_file_has_a_line_for_each_member_or_is_the_value_of_the_reply() {
    check("7\na|10.0.0.1|11211\nb|10.0.0.2|11211\n", "7\na|10.0.0.1|11211 b|10.0.0.2|11211\n");
    check("7\na|10.0.0.1|11211 b|10.0.0.2|11211\n", "7\na|10.0.0.1|11211 b|10.0.0.2|11211\n");
    check("# by hand\r\n\r\n7\r\n# web\r\n\ta||1 \r\n", "7\na||1\n");
    check("1\nx|::1|65535\n", "1\nx|::1|65535\n");
    check("1\n2001:db8::1|2001:db8::1|1\n", "1\n2001:db8::1|2001:db8::1|1\n");
    check("9223372036854775807\na||1\n", "9223372036854775807\na||1\n");
    check("007\na||00011211\n", "7\na||11211\n");
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    refuses("", "found neither");
    refuses("\n# only this\n", "found neither");
    refuses("1\n", "found no member");
    refuses("1", "line end behind the last line");
    refuses("1\na|10.0.0.1|112", "line end behind the last line");
    for revision in [
        "0",
        "-1",
        "+1",
        "1.0",
        "a|b|1",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        refuses(&format!("{revision}\na||1\n"), "line 1: expected the revision");
    }
    for member in ["a", "a|", "a||", "a|1.2.3.4", "a||1|", "a|b|c|1", "|||"] {
        refuses(&format!("1\n{member}\n"), "line 2: expected host|ip|port");
    }
    for host in ["", "a,b", "a:1", "[::1]", "a%b", "ä", "a\u{0}"] {
        refuses(&format!("1\n{host}|1.2.3.4|1\n"), "the host is neither");
    }
    for ip in ["1.2.3", "1.2.3.4.5", "[::1]", "fe80::1%eth0", "name", "256.1.1.1", "01.2.3.4"] {
        refuses(&format!("1\na|{ip}|1\n"), "the ip is no");
    }
    for port in ["0", "65536", "70000", "-1", "+1", "0x1", "99999999999999999999999", ""] {
        refuses(&format!("1\na||{port}\n"), "the port is no number");
    }
    refuses(&format!("1\n{}||1\n", "a".repeat(254)), "the host is neither");
    refuses(&format!("1\n{}\n", "é".repeat(500)), "…");
}

#[test]
fn a_member_stands_there_once() {
    refuses("1\na||1\nb||1\na||1\n", "line 4: `a||1` is the member of line 2 once more");
    refuses("1\na||1\nA.||1\n", "line 3: ");
    refuses("1\na|10.0.0.1|1\nb|10.0.0.1|1\n", "line 3: ");
    refuses("1\n10.0.0.1||1\nb|10.0.0.1|1\n", "line 3: ");
    refuses("1\na|2001:db8::1|1\nb|2001:DB8:0::1|1\n", "line 3: ");
    // Servers of one host, and a name that is the address.
    check("1\na||1\na||2\n", "1\na||1 a||2\n");
    check("1\n10.0.0.1|10.0.0.1|1\n", "1\n10.0.0.1|10.0.0.1|1\n");
}

#[test]
fn members_and_bytes_are_limited() {
    let members =
        |count: usize| format!("1\n{}", (0..count).map(|n| format!("h{n}||1\n")).collect::<String>());
    assert_eq!(list(&members(DISCOVERY_MEMBERS_MAX)).members(), DISCOVERY_MEMBERS_MAX);
    refuses(&members(DISCOVERY_MEMBERS_MAX + 1), "expected at most 1000 members");
    let comment = |len: usize| format!("#{}\n1\na||1\n", "x".repeat(len - 1 - "\n1\na||1\n".len()));
    check(&comment(DISCOVERY_FILE_LEN_MAX), "1\na||1\n");
    refuses(&comment(DISCOVERY_FILE_LEN_MAX + 1), "expected at most 65536 bytes, found more");
    refuses(&"\0".repeat(100 << 20), "expected at most 65536 bytes");
}

#[test]
fn any_bytes_are_a_list_or_an_error() {
    let mut prng = Prng::new(13);
    let parts: [&[u8]; 12] =
        [b"1", b"20", b"\n", b"\n", b"|", b"|1.2.3.4|", b"a", b"a||1\n", b" ", b"\r\n", b"#", b"\xff"];
    let mut lists = 0;
    for _ in 0..100_000 {
        let mut file = Vec::new();
        for _ in 0..prng.below(10) {
            file.extend_from_slice(parts[prng.below(parts.len() as u64) as usize]);
        }
        let Ok(list) = DiscoveryList::parse(&file) else { continue };
        // What clients read is a list again, and the same one.
        assert_eq!(DiscoveryList::parse(&list.text).as_ref(), Ok(&list), "{}", file.escape_ascii());
        assert!(list.members > 0);
        lists += 1;
    }
    assert!(lists > 100, "{lists}");
}

#[test]
fn a_list_follows_with_a_higher_revision_only() {
    let current = list("5\na||1\n");
    let check = |file: &str, expected: &str| {
        let found =
            list(file).follows(&current).map_or_else(|error| error.to_string(), |()| "yes".to_owned());
        assert!(found.starts_with(expected), "{file:?}: {found}");
    };
    check("6\na||1\n", "yes");
    check("6\nb||1\n", "yes");
    check("9223372036854775807\nb||1\n", "yes");
    check("# again\n5\na||1\n", "yes");
    check("5\nb||1\n", "the members have changed, and the revision is still 5");
    check("4\na||1\n", "revision 4 is older than 5");
}

#[test]
fn replies_are_spelled_as_clients_read_them() {
    let list = list("12\na|10.0.0.1|11211\nb||11212\n");
    let mut out = Vec::new();
    list.config_reply(&mut out);
    assert_eq!(
        out.escape_ascii().to_string(),
        "CONFIG cluster 0 29\\r\\n12\\na|10.0.0.1|11211 b||11212\\n\\r\\nEND\\r\\n"
    );
    let mut out = Vec::new();
    list.value(&mut out);
    assert_eq!(
        out.escape_ascii().to_string(),
        "VALUE AmazonElastiCache:cluster 0 29\\r\\n12\\na|10.0.0.1|11211 b||11212\\n\\r\\n"
    );
    let mut out = Vec::new();
    list.packet(&mut out, binary::ReplyTo { opcode: 0x60, opaque: *b"1234" });
    assert_eq!(out[..2], [0x81, 0x60]);
    assert_eq!(out[2..12], [0, 0, 4, 0, 0, 0, 0, 0, 0, 33]);
    assert_eq!(&out[12..], [b"1234\0\0\0\0\0\0\0\0\0\0\0\0", &*list.text].concat());
}
