//! A renewal whose controllers are away, refuse, or answer with something else.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Mutex;

use control::authority::Authority;
use tls::ClientSettings;

use super::*;

const DAY_S: u64 = 24 * 60 * 60;
const NOW_S: u64 = 1_800_000_000;

/// A renewal with a certificate that was signed some days ago, and what it has said.
struct Bench {
    folder: PathBuf,
    authority: Authority,
    renewal: Renewal,
    said: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new(name: &str, days: u64) -> Bench {
        let folder = std::env::temp_dir().join(format!("evenkeel-renewal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let begin_s = NOW_S - days * DAY_S;
        let [fleet, operator] = ["prod", "ann"];
        let authority = Authority::create(
            &folder.join("ca"),
            fleet.parse().expect("a name"),
            operator.parse().expect("a name"),
            begin_s,
        );
        let authority = authority.expect("an authority");
        let identity: FleetIdentity = "evenkeel://prod/agent/h1".parse().expect("an identity");
        let path = folder.join("h1.pem");
        let key = CertificateKey::new().expect("a key");
        let request = key.request().expect("a request");
        let signed = authority.sign(&request, &identity, &[], begin_s).expect("a certificate");
        keep_certificate(&path, &key, &signed.pem, &identity, begin_s).expect("kept");
        let settings =
            ClientSettings { own: Some((path.clone(), path.clone())), ..ClientSettings::default() };
        let (tls, _) = ClientTls::load(settings).expect("files");
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let renewal = Renewal {
            identity,
            in_force: first_of(&path).ok(),
            path,
            controllers: vec![ControlPlace::Unix(folder.join("c.sock"))],
            tls: Arc::new(tls),
            say: Arc::new(move |line: &str| heard.lock().expect("a lock").push(line.to_owned())),
            schedule: Schedule::new(Prng::new(1)),
            trouble: None,
        };
        Bench { folder, authority, renewal, said }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().expect("a lock").clone()
    }

    fn file(&self) -> String {
        fs::read_to_string(&self.renewal.path).expect("a file")
    }

    /// A pass while a controller gives one answer, which it makes of the request.
    fn pass_with(&mut self, answer: impl FnOnce(&Authority, &str) -> (u16, Value)) -> Duration {
        let socket = self.folder.join("c.sock");
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (authority, renewal) = (&self.authority, &mut self.renewal);
        std::thread::scope(|scope| {
            let pass = scope.spawn(|| renewal.pass(NOW_S));
            let (mut stream, _) = listener.accept().expect("a client");
            let request = read_request(&mut stream);
            let (status, json) = answer(authority, &request);
            let json = json.to_string();
            let len = json.len();
            write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{json}")
                .expect("an answer");
            pass.join().expect("it does not panic")
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The member `request` of the body.
fn read_request(stream: &mut impl Read) -> String {
    let (mut text, mut part) = (String::new(), [0; 4096]);
    loop {
        let len = stream.read(&mut part).expect("a request");
        assert!(len > 0, "a whole request: {text}");
        text.push_str(std::str::from_utf8(&part[..len]).expect("text"));
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if let Ok(json) = serde_json::from_str::<Value>(body) {
            assert!(text.starts_with("POST /v1/renew "), "{text}");
            return json["request"].as_str().expect("a request").to_owned();
        }
    }
}

fn sign(authority: &Authority, request: &str, identity: &str) -> (u16, Value) {
    let identity = identity.parse().expect("an identity");
    let signed = authority.sign(request, &identity, &[], NOW_S).expect("a certificate");
    (200, json!({"certificate": signed.pem}))
}

#[test]
fn a_certificate_that_is_not_due_is_left_alone() {
    let mut bench = Bench::new("early", 19);
    let before = bench.file();
    assert_eq!(bench.renewal.pass(NOW_S).as_secs(), 3600);
    assert_eq!((bench.file(), bench.said()), (before, Vec::new()));
}

#[test]
fn one_that_is_due_is_replaced_with_its_key_and_shown_from_then_on() {
    let mut bench = Bench::new("due", 22);
    let (before, tls) = (bench.file(), bench.renewal.tls.current());
    let wait = bench.pass_with(|authority, request| sign(authority, request, "evenkeel://prod/agent/h1"));
    assert_eq!(wait.as_secs(), 3600, "{:?}", bench.said());
    let after = bench.file();
    let key = |text: &str| text[text.find("PRIVATE KEY").expect("a key")..].to_owned();
    assert_ne!(key(&before), key(&after));
    assert!(!Arc::ptr_eq(&tls, &bench.renewal.tls.current()));
    assert!(bench.said()[0].contains("is renewed: it is valid for another 30 days"), "{:?}", bench.said());
    // There is nothing to do any more.
    let again = bench.renewal.pass(NOW_S);
    assert_eq!((again.as_secs(), bench.file(), bench.said().len()), (3600, after, 1));
}

#[test]
fn what_fails_leaves_the_old_one_and_is_said_once() {
    let mut bench = Bench::new("fails", 22);
    let (before, tls) = (bench.file(), bench.renewal.tls.current());
    let check = |wait: Duration, bench: &Bench, lines: usize, words: &str| {
        assert!((60..=3600).contains(&wait.as_secs()), "{wait:?}");
        let said = bench.said();
        assert!(said.len() == lines && said[lines - 1].contains(words), "{words}: {said:?}");
        assert_eq!(bench.file(), before);
        assert!(Arc::ptr_eq(&tls, &bench.renewal.tls.current()));
    };
    let away = "is not renewed yet: it is valid for another 8 days: ask the controller at unix:";
    let wait = bench.renewal.pass(NOW_S);
    check(wait, &bench, 1, away);
    let wait = bench.renewal.pass(NOW_S);
    check(wait, &bench, 1, away);
    let wait = bench.pass_with(|_, _| (422, json!({"error": "no authority here"})));
    check(wait, &bench, 2, "no authority here");
    let wait = bench.pass_with(|_, _| (200, json!({"certificate": "no certificate"})));
    check(wait, &bench, 3, "expected a certificate in PEM");
    let wait = bench.pass_with(|_, _| (200, json!({})));
    check(wait, &bench, 3, "expected a certificate in PEM");
    let wait = bench.pass_with(|authority, request| sign(authority, request, "evenkeel://prod/agent/h2"));
    check(wait, &bench, 4, "it is for evenkeel://prod/agent/h2, expected evenkeel://prod/agent/h1");
    let other = CertificateKey::new().and_then(|key| key.request()).expect("a request");
    let wait = bench.pass_with(|authority, _| sign(authority, &other, "evenkeel://prod/agent/h1"));
    check(wait, &bench, 5, "not for the key that was made here");
}

#[test]
fn one_that_another_program_has_put_there_is_taken() {
    let mut bench = Bench::new("foreign", 22);
    let tls = bench.renewal.tls.current();
    let key = CertificateKey::new().expect("a key");
    let (_, answer) = sign(&bench.authority, &key.request().expect("a request"), "evenkeel://prod/agent/h1");
    let text = [answer["certificate"].as_str().expect("a certificate"), &*key.pem()].concat();
    fs::write(&bench.renewal.path, text).expect("a file");
    assert_eq!(bench.renewal.pass(NOW_S).as_secs(), 3600);
    assert!(!Arc::ptr_eq(&tls, &bench.renewal.tls.current()));
    assert!(
        bench.said().last().is_some_and(|line| line.contains("another certificate")),
        "{:?}",
        bench.said()
    );
    // A damaged file changes nothing.
    let tls = bench.renewal.tls.current();
    fs::write(&bench.renewal.path, "nothing").expect("a file");
    assert!(bench.renewal.pass(NOW_S).as_secs() <= 120);
    assert!(Arc::ptr_eq(&tls, &bench.renewal.tls.current()));
}
