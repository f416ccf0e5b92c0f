//! Renewals beside a server: whose certificate is renewed, what is left alone, and what is said.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use control::authority::{Authority, keep_certificate};
use serde_json::Value;

use super::*;
use crate::peers::renewal::tests::answer_once;

const DAY_S: u64 = 24 * 60 * 60;
const NOW_S: u64 = 1_800_000_000;
const OWNER: &str = "evenkeel://prod/server/m1";

/// The certificate of a server that was signed some days ago, a controller's socket, and what was said.
struct Bench {
    folder: PathBuf,
    authority: Authority,
    renewal: BesideRenewal,
    said: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new(name: &str, days: u64) -> Bench {
        let folder = std::env::temp_dir().join(format!("evenkeel-beside-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let begin_s = NOW_S - days * DAY_S;
        let [fleet, operator] = ["prod", "ann"];
        let (fleet, operator) = (fleet.parse().expect("a name"), operator.parse().expect("a name"));
        let authority =
            Authority::create(&folder.join("ca"), fleet, operator, begin_s).expect("an authority");
        put(&authority, &folder.join("m1.pem"), OWNER, begin_s);
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let renewal = BesideRenewal {
            certificate: BesideCertificate {
                identity: OWNER.parse().expect("an identity"),
                path: folder.join("m1.pem"),
                // Nothing is to be seen there.
                place: PeerPlace { address: "unix:/nobody".to_owned(), tls: None },
                hosts: Vec::new(),
            },
            signers: Arc::new(BesideSigners {
                controllers: vec![ControlPlace::Unix(folder.join("c.sock"))],
                authorities: folder.join("ca/authority.pem"),
                host: "h1".parse().expect("a name"),
                own: Arc::new(ClientTls::load(ClientSettings::default()).expect("settings").0),
            }),
            say: Arc::new(move |_, line: &str| heard.lock().expect("a lock").push(line.to_owned())),
            schedule: Schedule::new(Prng::new(1)),
            trouble: None,
            end_s: Arc::default(),
        };
        Bench { folder, authority, renewal, said }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().expect("a lock").clone()
    }

    fn file(&self) -> String {
        fs::read_to_string(&self.renewal.certificate.path).expect("a file")
    }

    /// A pass while a controller signs for somebody.
    fn pass_with(&mut self, identity: &str) -> Duration {
        let (authority, renewal) = (&self.authority, &mut self.renewal);
        answer_once(
            &self.folder.join("c.sock"),
            || renewal.pass(NOW_S),
            |request| {
                let identity: FleetIdentity = identity.parse().expect("an identity");
                let hosts = if identity.role.serves() { vec!["10.0.0.1".to_owned()] } else { Vec::new() };
                let signed = authority.sign(request, &identity, &hosts, NOW_S).expect("a certificate");
                (200, json!({"certificate": signed.pem}))
            },
        )
    }

    #[track_caller]
    fn check_left_alone(&mut self, words: &str) {
        let before = fs::read(&self.renewal.certificate.path).ok();
        assert!(self.renewal.pass(NOW_S) >= Duration::from_secs(60));
        let said = self.said();
        assert!(said.last().is_some_and(|line| line.contains(words)), "{words}: {said:?}");
        assert_eq!(fs::read(&self.renewal.certificate.path).ok(), before);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn put(authority: &Authority, path: &Path, identity: &str, begin_s: u64) {
    let identity: FleetIdentity = identity.parse().expect("an identity");
    let hosts = if identity.role.serves() { vec!["10.0.0.1".to_owned()] } else { Vec::new() };
    let key = CertificateKey::new().expect("a key");
    let signed = authority.sign(&key.request().expect("a request"), &identity, &hosts, begin_s);
    keep_certificate(path, &key, &signed.expect("a certificate").pem, &identity, begin_s).expect("kept");
}

#[test]
fn a_servers_certificate_is_replaced_when_it_is_due_and_keeps_its_mode() {
    let mut bench = Bench::new("due", 19);
    let before = bench.file();
    assert_eq!((bench.renewal.pass(NOW_S).as_secs(), bench.file()), (3600, before));
    let mut bench = Bench::new("due", 22);
    let before = bench.file();
    fs::set_permissions(&bench.renewal.certificate.path, fs::Permissions::from_mode(0o640)).expect("a mode");
    assert_eq!(bench.pass_with(OWNER).as_secs(), 3600, "{:?}", bench.said());
    let key = |text: &str| text[text.find("PRIVATE KEY").expect("a key")..].to_owned();
    assert_ne!(key(&before), key(&bench.file()));
    let mode = fs::metadata(&bench.renewal.certificate.path).expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o640);
    let end_s = bench.renewal.end_s.load(Ordering::Relaxed);
    assert_eq!(end_s, NOW_S + 30 * DAY_S);
    assert!(
        bench.said()[0].contains("server/m1 is renewed: it is valid for another 30 days"),
        "{:?}",
        bench.said()
    );
}

#[test]
fn a_server_without_a_certificate_gets_its_first_one() {
    let mut bench = Bench::new("first", 0);
    let path = bench.renewal.certificate.path.clone();
    fs::remove_file(&path).expect("removed");
    assert_eq!(bench.pass_with(OWNER).as_secs(), 3600, "{:?}", bench.said());
    let words =
        format!("the first certificate of {OWNER} is in {}: it is valid for another 30", path.display());
    assert!(bench.said()[0].starts_with(&words), "{:?}", bench.said());
    let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o7777;
    assert_eq!((mode, bench.renewal.end_s.load(Ordering::Relaxed)), (0o600, NOW_S + 30 * DAY_S));
    let first = bench.file();
    assert!(first.contains("PRIVATE KEY"));
    assert_eq!(
        (bench.renewal.pass(NOW_S).as_secs(), bench.file()),
        (3600, first),
        "no other one is asked for"
    );
}

#[test]
fn a_first_certificate_of_somebody_else_is_put_nowhere_and_what_is_there_stays() {
    let mut bench = Bench::new("first-else", 0);
    let path = bench.renewal.certificate.path.clone();
    fs::remove_file(&path).expect("removed");
    assert!(bench.pass_with("evenkeel://prod/server/m2").as_secs() <= 120);
    assert!(bench.said()[0].contains("it is for evenkeel://prod/server/m2"), "{:?}", bench.said());
    assert!(!path.exists());
    // A person was faster than the answer.
    let (authority, renewal) = (&bench.authority, &mut bench.renewal);
    answer_once(
        &bench.folder.join("c.sock"),
        || renewal.pass(NOW_S),
        |request| {
            put(authority, &path, OWNER, NOW_S);
            let identity: FleetIdentity = OWNER.parse().expect("an identity");
            let signed = authority.sign(request, &identity, &["10.0.0.1".to_owned()], NOW_S);
            (200, json!({"certificate": signed.expect("a certificate").pem}))
        },
    );
    let last = bench.said().last().cloned().unwrap_or_default();
    assert!(last.contains("File exists"), "{last}");
    assert_eq!(bench.renewal.pass(NOW_S).as_secs(), 3600, "theirs counts");
}

#[test]
fn one_that_has_run_out_is_asked_for_anew_and_keeps_its_mode() {
    let mut bench = Bench::new("ended-anew", 31);
    let path = bench.renewal.certificate.path.clone();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
    assert_eq!(bench.pass_with(OWNER).as_secs(), 3600, "{:?}", bench.said());
    let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o7777;
    assert_eq!((mode, bench.renewal.end_s.load(Ordering::Relaxed)), (0o640, NOW_S + 30 * DAY_S));
}

#[test]
fn what_is_signed_for_somebody_else_is_not_put_there() {
    // Whoever may write to the folder could have put another one's certificate there after the look at it.
    for other in ["evenkeel://prod/agent/h1", "evenkeel://prod/server/m2", "evenkeel://prod/router/m1"] {
        let mut bench = Bench::new("else", 22);
        let before = bench.file();
        assert!(bench.pass_with(other).as_secs() <= 120);
        assert_eq!(bench.file(), before);
        assert!(
            bench.said()[0].contains(&format!("it is for {other}, expected {OWNER}")),
            "{:?}",
            bench.said()
        );
    }
}

#[test]
fn anybody_elses_certificate_is_not_renewed() {
    let mut bench = Bench::new("anybody", 22);
    let path = bench.renewal.certificate.path.clone();
    put(&bench.authority, &path, "evenkeel://prod/agent/h1", NOW_S - 22 * DAY_S);
    bench.check_left_alone("the one URI evenkeel://prod/server/m1, found evenkeel://prod/agent/h1");
    // A link to a file that is the agent's to read.
    let own = bench.folder.join("h1.pem");
    fs::rename(&path, &own).expect("renamed");
    std::os::unix::fs::symlink(&own, &path).expect("a link");
    bench.check_left_alone("symbolic link");
    fs::remove_file(&path).expect("removed");
    bench.check_left_alone("there is none yet: ask the controller at unix:");
    fs::write(&path, "nothing").expect("a file");
    bench.check_left_alone("expected a certificate in PEM, found none");
    assert_eq!(bench.said().len(), 4, "each is said once");
    bench.check_left_alone("found none");
    assert_eq!(bench.said().len(), 4, "each is said once");
}

#[test]
fn while_no_controller_signs_the_old_one_stays_and_the_next_minute_tries_again() {
    let mut bench = Bench::new("away", 22);
    bench.check_left_alone("it is valid for another 8 days: ask the controller at unix:");
    let before = bench.file();
    assert_eq!(bench.pass_with(OWNER).as_secs(), 3600);
    assert_ne!(bench.file(), before);
    let mut bench = Bench::new("ended", 31);
    bench.check_left_alone("it has run out; `control certificate` makes another one");
}

#[test]
fn no_request_answers_with_nothing() {
    let mut bench = Bench::new("nothing", 22);
    let before = bench.file();
    let renewal = &mut bench.renewal;
    let wait = answer_once(&bench.folder.join("c.sock"), || renewal.pass(NOW_S), |_| (200, Value::Null));
    assert!(wait.as_secs() <= 120 && bench.file() == before, "{:?}", bench.said());
}
