//! A renewal whose controllers are away, refuse, or answer with something else, and one by an authority.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Mutex;

use control::authority::Authority;
use tls::{CertificateFiles, ClientSettings, PeerCheck, TlsSettings};

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
    /// That of an agent with a controller.
    fn new(name: &str, days: u64) -> Bench {
        let mut bench = Bench::of(name, "evenkeel://prod/agent/h1", &[], days);
        let socket = bench.folder.join("c.sock");
        bench.renewal.signer = Signer::Controllers(vec![ControlPlace::Unix(socket)]);
        bench
    }

    /// That of an identity with these hosts. Nobody signs the next one.
    fn of(name: &str, identity: &str, hosts: &[String], days: u64) -> Bench {
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
        let identity: FleetIdentity = identity.parse().expect("an identity");
        let path = folder.join("own.pem");
        let key = CertificateKey::new().expect("a key");
        let request = key.request().expect("a request");
        let signed = authority.sign(&request, &identity, hosts, begin_s).expect("a certificate");
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
            signer: Signer::Nobody,
            users: CertificateUsers { clients: vec![Arc::new(tls)], listener: None },
            end_s: Arc::default(),
            say: Arc::new(move |_, line: &str| heard.lock().expect("a lock").push(line.to_owned())),
            schedule: Schedule::new(Prng::new(1)),
            trouble: None,
        };
        Bench { folder, authority, renewal, said }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().expect("a lock").clone()
    }

    fn client_tls(&self) -> Arc<rustls::ClientConfig> {
        self.renewal.users.clients[0].current()
    }

    fn file(&self) -> String {
        fs::read_to_string(&self.renewal.path).expect("a file")
    }

    /// A pass while a controller gives one answer, which it makes of the request.
    fn pass_with(&mut self, answer: impl FnOnce(&Authority, &str) -> (u16, Value)) -> Duration {
        let (authority, renewal) = (&self.authority, &mut self.renewal);
        let socket = self.folder.join("c.sock");
        answer_once(&socket, || renewal.pass(NOW_S), |request| answer(authority, request))
    }
}

/// Does something while a controller at this socket gives one answer, which it makes of the request.
pub(super) fn answer_once(
    socket: &Path,
    pass: impl FnOnce() -> Duration + Send,
    answer: impl FnOnce(&str) -> (u16, Value),
) -> Duration {
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::scope(|scope| {
        let pass = scope.spawn(pass);
        let (mut stream, _) = listener.accept().expect("a client");
        let request = read_request(&mut stream);
        let (status, json) = answer(&request);
        let json = json.to_string();
        let len = json.len();
        write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{json}")
            .expect("an answer");
        pass.join().expect("it does not panic")
    })
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
            let is_asked = |path: &str| text.starts_with(&format!("POST {path} "));
            assert!(is_asked("/v1/renew") || is_asked("/v1/certify"), "{text}");
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
    let (before, tls) = (bench.file(), bench.client_tls());
    let wait = bench.pass_with(|authority, request| sign(authority, request, "evenkeel://prod/agent/h1"));
    assert_eq!(wait.as_secs(), 3600, "{:?}", bench.said());
    let after = bench.file();
    let key = |text: &str| text[text.find("PRIVATE KEY").expect("a key")..].to_owned();
    assert_ne!(key(&before), key(&after));
    assert!(!Arc::ptr_eq(&tls, &bench.client_tls()));
    assert!(bench.said()[0].contains("is renewed: it is valid for another 30 days"), "{:?}", bench.said());
    // There is nothing to do any more.
    let again = bench.renewal.pass(NOW_S);
    assert_eq!((again.as_secs(), bench.file(), bench.said().len()), (3600, after, 1));
}

#[test]
fn what_fails_leaves_the_old_one_and_is_said_once() {
    let mut bench = Bench::new("fails", 22);
    let (before, tls) = (bench.file(), bench.client_tls());
    let check = |wait: Duration, bench: &Bench, lines: usize, words: &str| {
        assert!((60..=3600).contains(&wait.as_secs()), "{wait:?}");
        let said = bench.said();
        assert!(said.len() == lines && said[lines - 1].contains(words), "{words}: {said:?}");
        assert_eq!(bench.file(), before);
        assert!(Arc::ptr_eq(&tls, &bench.client_tls()));
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
    let tls = bench.client_tls();
    let key = CertificateKey::new().expect("a key");
    let (_, answer) = sign(&bench.authority, &key.request().expect("a request"), "evenkeel://prod/agent/h1");
    let text = [answer["certificate"].as_str().expect("a certificate"), &*key.pem()].concat();
    fs::write(&bench.renewal.path, text).expect("a file");
    assert_eq!(bench.renewal.pass(NOW_S).as_secs(), 3600);
    assert!(!Arc::ptr_eq(&tls, &bench.client_tls()));
    assert!(
        bench.said().last().is_some_and(|line| line.contains("another certificate")),
        "{:?}",
        bench.said()
    );
    // A damaged file changes nothing.
    let tls = bench.client_tls();
    fs::write(&bench.renewal.path, "nothing").expect("a file");
    assert!(bench.renewal.pass(NOW_S).as_secs() <= 120);
    assert!(Arc::ptr_eq(&tls, &bench.client_tls()));
}

/// A controller with two names, whose certificate was signed some days ago, and its listener.
fn controller(name: &str, days: u64) -> (Bench, tls::Acceptor) {
    let hosts = ["c1.example".to_owned(), "10.0.0.1".to_owned()];
    let mut bench = Bench::of(name, "evenkeel://prod/controller/c1", &hosts, days);
    let files = CertificateFiles { chain: bench.renewal.path.clone(), key: None };
    let authorities = Some(bench.folder.join("ca/authority.pem"));
    let settings = TlsSettings { authorities, ..TlsSettings::new(vec![files]) };
    let (listener, _) = ListenerTls::load(settings).expect("files");
    let acceptor = listener.acceptor(PeerCheck::Always).expect("an authority");
    bench.renewal.users.listener = Some(listener);
    (bench, acceptor)
}

fn open_authority(bench: &Bench) -> Signer {
    Signer::Authority(Box::new(Authority::open(&bench.folder.join("ca")).expect("an authority")))
}

#[test]
fn a_controller_with_the_authority_renews_its_own_for_the_same_hosts() {
    let (mut bench, acceptor) = controller("controller", 22);
    bench.renewal.signer = open_authority(&bench);
    let (client, listener) = (bench.client_tls(), acceptor.settings());
    let before = certificate_uris(&first_of(&bench.renewal.path).expect("a certificate")).expect("one");
    assert_eq!(bench.renewal.pass(NOW_S).as_secs(), 3600, "{:?}", bench.said());
    let after = certificate_uris(&first_of(&bench.renewal.path).expect("a certificate")).expect("one");
    assert_eq!((&after.uris, &after.hosts), (&before.uris, &before.hosts));
    assert_eq!(after.hosts, ["c1.example", "10.0.0.1"]);
    assert_eq!(after.not_after_s, NOW_S + 30 * DAY_S);
    assert_eq!(bench.renewal.end_s.load(Ordering::Relaxed), after.not_after_s);
    assert!(!Arc::ptr_eq(&client, &bench.client_tls()), "it asks others with it");
    assert!(!Arc::ptr_eq(&listener, &acceptor.settings()), "it shows it to others");
    // There is nothing to do any more.
    let (file, listener) = (bench.file(), acceptor.settings());
    assert_eq!((bench.renewal.pass(NOW_S).as_secs(), bench.file()), (3600, file));
    assert!(Arc::ptr_eq(&listener, &acceptor.settings()));
}

#[test]
fn one_that_is_not_due_and_one_that_has_run_out() {
    let (mut bench, _) = controller("young", 19);
    bench.renewal.signer = open_authority(&bench);
    let before = bench.file();
    assert_eq!((bench.renewal.pass(NOW_S).as_secs(), bench.file()), (3600, before));
    assert_eq!(bench.renewal.end_s.load(Ordering::Relaxed), NOW_S + 11 * DAY_S);
    let (mut bench, _) = controller("old", 31);
    bench.renewal.signer = open_authority(&bench);
    let before = bench.file();
    bench.renewal.pass(NOW_S);
    assert_ne!(bench.file(), before, "whoever has the authority needs nobody's leave: {:?}", bench.said());
}

#[test]
fn a_certificate_of_another_authority_is_not_replaced_by_one_of_this() {
    let (mut bench, _) = controller("other", 22);
    let (another, _) = controller("another", 0);
    bench.renewal.signer = open_authority(&another);
    let before = bench.file();
    assert!(bench.renewal.pass(NOW_S).as_secs() <= 120);
    assert_eq!(bench.file(), before);
    assert!(bench.said()[0].contains("found another one's"), "{:?}", bench.said());
}

#[test]
fn where_nobody_renews_it_there_is_a_line_before_the_end_and_one_after_it() {
    let (mut bench, acceptor) = controller("nobody", 19);
    let (before, listener) = (bench.file(), acceptor.settings());
    bench.renewal.pass(NOW_S);
    assert_eq!(bench.said(), Vec::<String>::new());
    for hour in 0..9 * 24 {
        bench.renewal.pass(NOW_S + DAY_S + hour * 3600);
    }
    let said = bench.said();
    assert!(said.len() == 1 && said[0].contains("it runs out within 11 days: nobody signs"), "{said:?}");
    bench.renewal.pass(NOW_S + 12 * DAY_S);
    let said = bench.said();
    assert!(said.len() == 2 && said[1].contains("has run out; `control certificate`"), "{said:?}");
    assert_eq!(bench.file(), before);
    assert!(Arc::ptr_eq(&listener, &acceptor.settings()));
}
