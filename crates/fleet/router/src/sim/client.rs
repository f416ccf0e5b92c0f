//! Any bytes of a client: replies do not depend on where they are cut, and servers get its requests only.

use std::collections::HashMap;

use protocol::limits::LINE_LEN_MAX;
use protocol::request::Store;
use protocol::{MetaFlags, MetaKey, Parsed, Request, parse};

use super::cut;
use super::hosts::{Answerer, Scene};
use crate::config::json;
use crate::message::key::RoutedKey;

/// Pools of the configurations.
const POOLS: &str = r#""pools": {"A": {"servers": ["a:1", "b:2"]}, "B": {"servers": ["b:2", "c:3"]}}"#;

/// Routes. The first leaves keys and bodies as they are.
const ROUTES: [&str; 8] = [
    r#""PoolRoute|A""#,
    r#"{"type": "ModifyKeyRoute", "ensure_key_prefix": "v:", "set_key_suffix": "~", "target": {"type": "BigValueRoute",
        "target": "PoolRoute|A", "split_threshold": 3, "batch_size": 2}}"#,
    r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B", "enable_metaget": true}"#,
    r#"{"type": "L1L2CacheRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "upgradingL1Exptime": 9, "ncacheExptime": 9,
        "ncacheUpdatePeriod": 3}"#,
    r#"{"type": "StagingRoute", "warm": "PoolRoute|A", "staging": {"type": "ModifyExptimeRoute", "target": "PoolRoute|B",
        "exptime": 7}}"#,
    r#"{"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "threshold": 2}"#,
    r#"{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 3, "all_sync": true, "first_hit": false}"#,
    r#"{"type": "AllSyncRoute", "children": ["PoolRoute|A", {"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|B",
        "failover": "PoolRoute|A"}]}"#,
];

/// Length of the values of long keys: it is received and held in another way than short ones.
const LARGE_LEN: usize = 20_000;

/// Checks that the replies to a client do not depend on where its bytes are cut, and that its servers get whole requests
/// only, each of which it has sent, unless the route makes others of them; panics if they do not.
///
/// The first byte of `input` says how many cuts there are, and which route; two bytes for each cut follow, and then the
/// conversation.
///
/// # Panics
/// If the property does not hold.
pub fn check_client(input: &[u8]) {
    let Some((conversation, pieces)) = cut(input) else { return };
    let route = usize::from(input[0] >> 4) % ROUTES.len();
    let whole = heard(route, conversation, &[conversation]);
    let cut = heard(route, conversation, &pieces);
    if depends_on_cuts(conversation) {
        return;
    }
    assert_eq!(whole.1, cut.1, "whether the connection is closed");
    let (whole, cut) = (comparable(&whole.0), comparable(&cut.0));
    assert!(whole == cut, "cut:\n  {}\nwhole:\n  {}", cut.escape_ascii(), whole.escape_ascii());
}

/// What a client receives that sends these pieces, and whether it is closed.
fn heard(route: usize, conversation: &[u8], pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let config = format!("{{{POOLS}, \"route\": {}}}", ROUTES[route]);
    let config = json::parse(0, config.as_bytes()).expect("JSON");
    let mut scene = Scene::new(&config, Answerer::default()).expect("a plan");
    scene.send(pieces);
    (0..3).for_each(|_| scene.wait(20_000));
    let heard = scene.heard_by_client();
    let server = scene.server::<Answerer>();
    assert_eq!(server.unread, 0, "bytes of half a request at a server");
    if route == 0 {
        check_sent(conversation, &server.heard);
    }
    heard
}

/// Each request at the servers is one of the client's.
fn check_sent(conversation: &[u8], heard: &[String]) {
    let mut sent: HashMap<String, usize> = HashMap::new();
    for request in requests(conversation) {
        *sent.entry(request).or_default() += 1;
    }
    for request in heard {
        let left = sent.get_mut(request).filter(|left| **left > 0);
        let left = left.unwrap_or_else(|| panic!("no client has sent {request:?}"));
        *left -= 1;
    }
}

/// The client's requests, as servers are to get them.
fn requests(mut rest: &[u8]) -> Vec<String> {
    let mut requests = Vec::new();
    while let Parsed::Head { request, consumed } = parse(rest) {
        let after = &rest[consumed..];
        let dropped = match request {
            Request::Refused(refused) => refused.swallow,
            _ => match body_len(&request) {
                None => {
                    described(&request, b"", without_prefix, &mut requests);
                    0
                }
                Some(len) => {
                    if let Some(body) = after.get(..len + 2) {
                        described(&request, body, without_prefix, &mut requests);
                    }
                    len + 2
                }
            },
        };
        rest = after.get(dropped..).unwrap_or_default();
    }
    requests
}

/// Length of the body that follows a request's line, without its line end.
pub(super) fn body_len(request: &Request<'_>) -> Option<usize> {
    match request {
        Request::Store(Store { len, .. }) | Request::MetaSet { len, .. } => Some(*len),
        _ => None,
    }
}

/// A key as servers get it.
type KeyAtServer = for<'k> fn(&'k [u8]) -> &'k [u8];

/// Without its routing prefix.
fn without_prefix(key: &[u8]) -> &[u8] {
    RoutedKey::new(key).bare()
}

/// Writes a request, or one for each of its keys: without what the router adds, removes or writes in another way.
pub(super) fn described(
    request: &Request<'_>,
    body: &[u8],
    key_at_server: KeyAtServer,
    out: &mut Vec<String>,
) {
    let bare = |key: &[u8]| key_at_server(key).escape_ascii().to_string();
    // A key in base64 has no prefix.
    let bare_meta = |key: &MetaKey<'_>| match key.is_binary() {
        true => key.as_written().escape_ascii().to_string(),
        false => bare(key.as_written()),
    };
    let meta = |command: &str, key: &MetaKey<'_>, flags: &MetaFlags<'_>| {
        let words: Vec<String> = flags
            .words()
            // The opaque may be the router's, which also needs a reply.
            .filter(|word| !matches!(word[0], b'O' | b'q'))
            .map(|word| word.escape_ascii().to_string())
            .collect();
        format!("{command} {} {}", bare_meta(key), words.join(" "))
    };
    let text = match request {
        Request::Get(get) => {
            for key in get.keys.into_iter().flatten() {
                let key = bare(key.as_bytes());
                out.push(format!("get {key} {:?} {}", get.exptime, get.with_cas));
            }
            return;
        }
        Request::Store(store) => {
            let (verb, flags, exptime) = (store.verb, store.flags, store.exptime);
            format!("{verb:?} {} {flags} {exptime} {}", bare(store.key.as_bytes()), body.escape_ascii())
        }
        Request::MetaGet { key, flags } => meta("mg", key, flags),
        Request::MetaSet { key, flags, .. } => format!("{} {}", meta("ms", key, flags), body.escape_ascii()),
        Request::MetaDelete { key, flags } => meta("md", key, flags),
        Request::MetaArithmetic { key, flags, .. } => meta("ma", key, flags),
        Request::MetaDebug { key } => format!("me {}", bare_meta(key)),
        Request::Delete { key, .. } => format!("delete {}", bare(key.as_bytes())),
        Request::Arithmetic { mode, key, delta, .. } => format!("{mode:?} {} {delta}", bare(key.as_bytes())),
        Request::Touch { key, exptime, .. } => format!("touch {} {exptime}", bare(key.as_bytes())),
        other => format!("{other:?}"),
    };
    out.push(text);
}

/// The reply to a request: the same each time.
pub(super) fn answer(request: &Request<'_>) -> Vec<u8> {
    let is_hit = |key: &[u8]| key.last().is_some_and(|last| last % 2 == 1);
    let value = |key: &[u8]| match key.len() {
        0..20 => key.to_vec(),
        _ => key.iter().copied().cycle().take(LARGE_LEN).collect(),
    };
    let line: &[u8] = match request {
        Request::Get(get) => {
            let mut out = Vec::new();
            for key in get.keys.into_iter().flatten().filter(|key| is_hit(key.as_bytes())) {
                let (value, cas) = (value(key.as_bytes()), if get.with_cas { " 7" } else { "" });
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(format!(" 0 {}{cas}\r\n", value.len()).as_bytes());
                out.extend_from_slice(&value);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"END\r\n");
            return out;
        }
        Request::MetaGet { key, flags } if is_hit(key.as_written()) && flags.value() => {
            let value = value(key.as_written());
            let mut out = meta_line(&format!("VA {}", value.len()), key, flags);
            out.extend_from_slice(&value);
            out.extend_from_slice(b"\r\n");
            return out;
        }
        Request::MetaGet { key, .. } if !is_hit(key.as_written()) => b"EN\r\n",
        Request::MetaArithmetic { key, flags, .. } if flags.value() => {
            return [meta_line("VA 1", key, flags), b"5\r\n".to_vec()].concat();
        }
        Request::MetaGet { key, flags }
        | Request::MetaSet { key, flags, .. }
        | Request::MetaDelete { key, flags }
        | Request::MetaArithmetic { key, flags, .. } => return meta_line("HD", key, flags),
        Request::MetaDebug { key } => return [b"ME ", key.as_written(), b" exp=-1\r\n"].concat(),
        Request::Store(store) if is_hit(store.key.as_bytes()) => b"STORED\r\n",
        Request::Store(_) => b"NOT_STORED\r\n",
        Request::Delete { .. } => b"DELETED\r\n",
        Request::Arithmetic { .. } => b"5\r\n",
        Request::Touch { .. } => b"TOUCHED\r\n",
        Request::Version => b"VERSION 1\r\n",
        other => panic!("no router sends {other:?}"),
    };
    line.to_vec()
}

fn meta_line(code: &str, key: &MetaKey<'_>, flags: &MetaFlags<'_>) -> Vec<u8> {
    let mut out = code.as_bytes().to_vec();
    for word in flags.words() {
        match word[0] {
            b'k' => out.extend_from_slice(&[b" k", key.as_written()].concat()),
            b'b' | b'O' => out.extend_from_slice(&[b" ", word].concat()),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// A line beyond the limit is refused before its end arrives; and what the router says about itself changes.
fn depends_on_cuts(conversation: &[u8]) -> bool {
    let service = b"__mcrouter__";
    conversation.split(|&byte| byte == b'\n').any(|line| line.len() >= LINE_LEN_MAX)
        || conversation.windows(service.len()).any(|window| window == service)
}

/// Output without statistics.
fn comparable(output: &[u8]) -> Vec<u8> {
    let lines = output.split_inclusive(|&byte| byte == b'\n');
    lines.filter(|line| !line.starts_with(b"STAT ")).flatten().copied().collect()
}
