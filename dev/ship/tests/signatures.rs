//! Signatures: made with keys of the moment, found good by the programs of those who receive them, and refused for a changed byte.

mod install;

use crate::packages::{pack, small_stage};
use crate::tools::{have, have_built, is_thorough, leave_out, workshop};
use ship::commands::{printed, said};
use ship::programs::NFPM;
use ship::signatures::keys::{KeyKind, SigningKeys};
use ship::signatures::{check_packages, sign_sums};
use ship::{Artefact, checksums};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MINISIGN: (&str, &str) = ("minisign", "Debian: minisign");
const GPG: (&str, &str) = ("gpg", "Debian: gnupg");
const GPGV: (&str, &str) = ("gpgv", "Debian: gpgv");
const OPENSSL: (&str, &str) = ("openssl", "Debian: openssl");

/// The passphrase of all keys of the tests.
const PASSPHRASE: &str = "of the moment";

/// A folder with keys that only this test has.
struct Keys(PathBuf);

impl Keys {
    fn folder(name: &str) -> Keys {
        let folder = std::env::temp_dir().join(format!("evenkeel-keys-{name}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder).expect("a new folder");
        Keys(folder)
    }

    fn write(&self, name: &str, text: &[u8]) {
        let path = self.0.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
    }

    /// minisign's key, without a passphrase: one takes seconds and a gigabyte each time.
    fn minisign(self) -> Keys {
        let words = ["-G", "-W", "-p", "made.pub", "-s", "minisign.key"];
        said(Command::new("minisign").args(words).current_dir(&self.0)).expect("a key");
        fs::remove_file(self.0.join("made.pub")).unwrap();
        self
    }

    /// minisign's key, with a passphrase.
    fn minisign_with_passphrase(self) -> Keys {
        let make = "printf '%s\\n%s\\n' \"$0\" \"$0\" | minisign -G -p made.pub -s minisign.key";
        said(Command::new("sh").args(["-c", make, PASSPHRASE]).current_dir(&self.0)).expect("a key");
        fs::remove_file(self.0.join("made.pub")).unwrap();
        self.write("minisign.pass", format!("{PASSPHRASE}\n").as_bytes());
        self
    }

    /// A key of OpenPGP, with a passphrase. The page recommends RSA, which takes longer to make.
    fn pgp(self) -> Keys {
        let home = self.0.join("home");
        DirBuilder::new().mode(0o700).create(&home).unwrap();
        let gpg = |arguments: &[&str]| {
            let mut gpg = Command::new("gpg");
            gpg.arg("--homedir").arg(&home).args(["--batch", "--quiet", "--pinentry-mode", "loopback"]);
            gpg.args(["--passphrase", PASSPHRASE]).args(arguments).stdin(Stdio::null());
            printed(&mut gpg).expect("gpg")
        };
        gpg(&["--quick-generate-key", "Tests <tests@example.org>", "ed25519", "sign", "never"]);
        self.write("pgp.key", &gpg(&["--armor", "--export-secret-keys"]));
        self.write("pgp.pass", PASSPHRASE.as_bytes());
        said(Command::new("gpgconf").arg("--homedir").arg(&home).args(["--kill", "gpg-agent"])).unwrap();
        fs::remove_dir_all(home).unwrap();
        self
    }

    /// A key for apk, with a passphrase.
    fn apk(self) -> Keys {
        self.write("apk.pass", PASSPHRASE.as_bytes());
        let words = "genrsa -traditional -aes256 -passout file:apk.pass -out apk.key 2048";
        said(Command::new("openssl").args(words.split(' ')).current_dir(&self.0)).expect("a key");
        fs::set_permissions(self.0.join("apk.key"), Permissions::from_mode(0o600)).unwrap();
        self
    }

    fn open(&self, kinds: &[KeyKind]) -> SigningKeys {
        SigningKeys::open(&self.0, kinds).expect("keys")
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Changes one byte of a file.
fn spoil(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn empty(name: &str) -> PathBuf {
    let folder = workshop(Path::new("/bin/true"), name).out;
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_list_of_checksums_is_signed_and_a_changed_byte_is_refused() {
    if !have(&[MINISIGN]) {
        return;
    }
    let out = empty("signed-sums");
    fs::write(out.join("one"), "1").unwrap();
    let keys = Keys::folder("sums").minisign();
    let opened = keys.open(&[KeyKind::Minisign]);
    let public = opened.write_public(KeyKind::Minisign, &out).expect("a public key");
    let artefacts = [Artefact { path: out.join("one") }, Artefact { path: public }];
    checksums::write(&out, &artefacts).unwrap();
    sign_sums(&opened, &out, "a test").expect("a signature");
    let verify = || {
        let mut verify = Command::new("minisign");
        verify.args(["-V", "-p", "evenkeel.minisign.pub", "-m", "SHA256SUMS"]).current_dir(&out);
        said(&mut verify)
    };
    assert!(verify().expect("good").contains("Trusted comment: a test"));
    spoil(&out.join("SHA256SUMS"), 3);
    assert!(verify().expect_err("refused").to_string().contains("verification failed"));
    // A new list ends the signature of the old one.
    checksums::write(&out, &artefacts).unwrap();
    assert!(!out.join("SHA256SUMS.minisig").exists());
}

#[test]
fn a_passphrase_signs_and_another_one_does_not() {
    if !is_thorough() {
        leave_out("minisign's key with a passphrase (EVENKEEL_TEST_ALL=1 has it)");
        return;
    }
    if !have(&[MINISIGN]) {
        return;
    }
    let out = empty("passphrase");
    let keys = Keys::folder("passphrase").minisign_with_passphrase();
    let opened = keys.open(&[KeyKind::Minisign]);
    opened.write_public(KeyKind::Minisign, &out).expect("a public key");
    checksums::write(&out, &[]).unwrap();
    sign_sums(&opened, &out, "a test").expect("a signature");
    checksums::write(&out, &[]).unwrap();
    keys.write("minisign.pass", b"another\n");
    let error = sign_sums(&opened, &out, "a test").expect_err("refused").to_string();
    assert!(error.contains("Wrong password") && error.contains("first line of"), "{error}");
    assert!(error.contains("minisign.pass") && !out.join("SHA256SUMS.minisig").exists(), "{error}");
}

/// Packages of all formats that bear signatures, and without them.
fn packages(name: &str, keys: SigningKeys) -> Vec<(PathBuf, PathBuf)> {
    let plain = small_stage(name);
    let mut signed = plain.clone();
    signed.keys = Some(keys);
    let both =
        |recipe, format| (pack(&signed, recipe, format, "signed"), pack(&plain, recipe, format, "plain"));
    let recipes =
        [("nfpm.yaml", "deb"), ("nfpm-dbg.yaml", "deb"), ("nfpm.yaml", "rpm"), ("nfpm-dbg.yaml", "rpm")];
    recipes.into_iter().chain([("nfpm.yaml", "apk")]).map(|(recipe, format)| both(recipe, format)).collect()
}

#[test]
fn packages_bear_signatures_and_a_changed_byte_is_refused() {
    let rpm = ("rpm", "Debian: rpm");
    if !have_built(NFPM) || !have(&[MINISIGN, GPG, GPGV, OPENSSL, rpm, ("ar", "Debian: binutils")]) {
        return;
    }
    let keys = Keys::folder("packages").pgp().apk();
    let opened = keys.open(&[KeyKind::Pgp, KeyKind::Apk]);
    let out = empty("signed-packages");
    let public = opened.write_public(KeyKind::Pgp, &out).expect("a public key");
    let rsa = opened.write_public(KeyKind::Apk, &out).expect("a public key");
    assert!(!fs::read_to_string(&public).unwrap().contains("PRIVATE"), "only the public half");
    assert!(fs::read_to_string(&rsa).unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
    let check = |path: &Path| check_packages(&[Artefact { path: path.to_owned() }], &public);
    for (signed, plain) in packages("signed-stage", opened) {
        if signed.extension().is_some_and(|end| end == "apk") {
            check_apk(&signed, &plain, &rsa);
            continue;
        }
        check(&signed).unwrap_or_else(|error| panic!("{}: {error:#}", signed.display()));
        check(&plain).expect_err("it has no signature");
        // In the middle there is what is installed.
        spoil(&signed, fs::metadata(&plain).unwrap().len() as usize / 2);
        check(&signed).expect_err("a byte is another one");
    }
    // Of another key.
    let other = Keys::folder("other").pgp();
    let (signed, _) = packages("signed-again", keys.open(&[KeyKind::Pgp])).swap_remove(2);
    let public = other.open(&[KeyKind::Pgp]).write_public(KeyKind::Pgp, &empty("other-key")).unwrap();
    check_packages(&[Artefact { path: signed }], &public).expect_err("it is not this key's");
}

#[test]
fn a_signed_deb_is_the_unsigned_one_with_a_member_more() {
    if !have_built(NFPM) || !have(&[GPG, OPENSSL, ("ar", "Debian: binutils")]) {
        return;
    }
    let keys = Keys::folder("member").pgp().apk();
    let (signed, plain) = packages("signed-member", keys.open(&[KeyKind::Pgp])).swap_remove(0);
    let (signed, plain) = (fs::read(signed).unwrap(), fs::read(plain).unwrap());
    assert!(signed.starts_with(&plain) && signed[plain.len()..].starts_with(b"_gpgorigin"));
}

/// An apk is three archives, of which the first one has a signature of the second, which has a digest of the third.
const SPLIT_APK: &str = "
import sys, zlib, tarfile, io, hashlib
rest, parts, texts = open(sys.argv[1], 'rb').read(), [], []
while rest:
    reader = zlib.decompressobj(wbits=31)
    texts.append(reader.decompress(rest))
    parts.append(rest[:len(rest) - len(reader.unused_data)])
    rest = reader.unused_data
member = tarfile.open(fileobj=io.BytesIO(texts[0] + bytes(1024))).next()
print(member.name)
open(sys.argv[2] + '/signature', 'wb').write(texts[0][512:512 + member.size])
open(sys.argv[2] + '/control', 'wb').write(parts[1])
assert hashlib.sha256(parts[2]).hexdigest() in texts[1].decode('latin-1')
";

#[track_caller]
fn check_apk(signed: &Path, plain: &Path, public: &Path) {
    let folder = empty("apk-parts");
    let split = |package: &Path| {
        said(Command::new("python3").args(["-c", SPLIT_APK]).arg(package).arg(&folder).stdin(Stdio::null()))
    };
    assert_eq!(split(signed).expect("three archives").trim(), ".SIGN.RSA.evenkeel.rsa.pub");
    let verify = || {
        let mut verify = Command::new("openssl");
        verify.args(["dgst", "-sha1", "-verify"]).arg(public).args(["-signature", "signature", "control"]);
        said(verify.current_dir(&folder))
    };
    assert!(verify().expect("good").contains("Verified OK"));
    spoil(&folder.join("control"), 20);
    verify().expect_err("a byte is another one");
    split(plain).expect_err("it has no signature");
}

#[test]
fn keys_that_others_can_read_or_replace_are_refused() {
    let keys = Keys::folder("refused");
    let check = |expected: &str| {
        let error = SigningKeys::open(&keys.0, &[KeyKind::Minisign]).expect_err("refused");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    };
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let key = keys.0.join("minisign.key");
    check("there is no ");
    keys.write("minisign.key", b"secret");
    keys.open(&[KeyKind::Minisign]);
    for wrong in [0o640, 0o604, 0o620] {
        mode(&key, wrong);
        check(&format!("hint: chmod 600 {}", key.display()));
    }
    mode(&key, 0o400);
    keys.open(&[KeyKind::Minisign]);
    keys.write("minisign.pass", b"secret");
    mode(&keys.0.join("minisign.pass"), 0o644);
    check("minisign.pass\n  hint: chmod 600 ");
    mode(&keys.0.join("minisign.pass"), 0o600);
    mode(&keys.0, 0o770);
    check("hint: chmod go-w ");
    mode(&keys.0, 0o700);
    fs::rename(&key, keys.0.join("elsewhere")).unwrap();
    symlink("elsewhere", &key).unwrap();
    check("is no file of its own");
    // By a link, the folder is looked at where it lies.
    let tree = checkout::workspace().join("docs");
    let error = SigningKeys::open(&tree, &[KeyKind::Minisign]).expect_err("refused");
    assert!(error.to_string().contains("do not belong into the checkout"), "{error}");
}
