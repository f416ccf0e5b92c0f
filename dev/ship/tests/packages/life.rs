//! The life of a package on a host with systemd: installed, upgraded under load, upgraded without success, removed, purged.

use super::client::{Clients, count, fill};
use super::guest::{chroot, in_guest};
use crate::tools::{binary, workshop};
use os::clock::Stopwatch;
use ship::commands::said;
use ship::stage::PackageStage;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const PORT: u16 = 11211;
const ITEMS: usize = 100_000;

/// The last one has a program that ends at once, with status 1.
const VERSIONS: [&str; 3] = ["0.1.0", "0.1.1", "0.1.2"];

/// Packages of one program in three versions, for dpkg.
fn packages() -> Vec<PathBuf> {
    static PACKAGES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PACKAGES.get_or_init(|| made("deb")).clone()
}

/// The same for one of nfpm's formats.
fn made(format: &str) -> Vec<PathBuf> {
    let workshop = workshop(&binary().expect("a binary"), "life");
    let stage = PackageStage::of(&workshop, &format!("life-{format}")).expect("a stage");
    let pack = |version: &str| {
        if version == VERSIONS[2] {
            stage.write("evenkeel", &fs::read("/bin/false").unwrap()).unwrap();
        }
        let stage = PackageStage { version: version.to_owned(), ..stage.clone() };
        stage.pack("nfpm.yaml", format, &workshop.out).expect("a package").path
    };
    VERSIONS.into_iter().map(pack).collect()
}

/// What a command of the shell says on both channels, and whether it succeeds.
fn shell(line: &str) -> (bool, String) {
    let output = Command::new("sh").args(["-c", &format!("{{ {line}\n}} 2>&1")]).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("$ {line}\n{said}");
    (output.status.success(), said)
}

#[track_caller]
fn succeeds(line: &str) -> String {
    let (is_success, said) = shell(line);
    assert!(is_success, "{line}: {said}");
    said.trim().to_owned()
}

#[track_caller]
fn fails(line: &str) -> String {
    let (is_success, said) = shell(line);
    assert!(!is_success, "{line}: {said}");
    said
}

/// Installs a version of this architecture.
#[track_caller]
fn install(version: &str) -> String {
    succeeds(&format!("dpkg -i /root/evenkeel_{version}-1_*.deb"))
}

fn main_pid(unit: &str) -> String {
    succeeds(&format!("systemctl show --property MainPID --value {unit}"))
}

/// Waits until a unit has logged this.
#[track_caller]
fn wait_for_log(unit: &str, text: &str) {
    succeeds(&format!(
        "timeout 60 sh -c 'until journalctl --unit {unit} --output cat | grep -F -- \"{text}\"; do sleep 0.1; done'"
    ));
}

/// Installs the first version, starts the server and stores items.
fn begin() -> String {
    let clock = Stopwatch::start();
    install(VERSIONS[0]);
    succeeds("systemctl enable --now evenkeel");
    succeeds(&format!("evenkeel ready 127.0.0.1:{PORT}"));
    println!("{} ms from the package to the first reply", clock.passed().as_millis());
    fill(PORT, ITEMS);
    main_pid("evenkeel")
}

#[test]
fn an_upgrade_loses_no_item_and_refuses_no_connect() {
    if !in_guest("packages::life::an_upgrade_loses_no_item_and_refuses_no_connect", packages) {
        return;
    }
    install(VERSIONS[0]);
    assert_eq!(
        fails("systemctl is-active evenkeel").trim(),
        "inactive",
        "a package starts nothing by itself"
    );
    let before = begin();
    let status = fs::read_to_string(format!("/proc/{before}/status")).unwrap();
    let uid = succeeds("id -u evenkeel");
    for line in
        [&*format!("Uid:\t{uid}\t"), "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"]
    {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    let clients = Clients::start(PORT, ITEMS);
    install(VERSIONS[1]);
    let seen = clients.stop();
    println!(
        "{} requests during the upgrade; the longest took {} ms",
        seen.requests,
        seen.longest.as_millis()
    );
    assert_eq!(
        (seen.misses, seen.refused, seen.lost),
        (0, 0, 0),
        "misses, refused connects, lost connections"
    );
    let after = main_pid("evenkeel");
    assert_ne!(after, before);
    let program = fs::read_link(format!("/proc/{after}/exe")).unwrap().display().to_string();
    assert!(!program.ends_with(" (deleted)"), "it still runs the old program: {program}");
    assert_eq!(count(PORT, ITEMS), ITEMS);
    assert_eq!(fs::read_to_string("/run/evenkeel/serve/pid").unwrap().trim(), after);
    // systemd watches the new process: what is killed is started again.
    succeeds(&format!("kill -KILL {after}"));
    wait_for_log("evenkeel", "Scheduled restart job");
    succeeds(
        "timeout 60 sh -c 'until systemctl is-active evenkeel; do sleep 0.1; done' && systemctl reload evenkeel",
    );
    // systemd waits for the end of the process that a reload has started, whose log goes on.
    succeeds("systemctl stop evenkeel");
    wait_for_log("evenkeel", "info serve: stopped");
    assert_eq!(succeeds("systemctl show --property Result --value evenkeel"), "success");
    let not_its_own = "journalctl --unit evenkeel --output cat | grep --count 'not our child'";
    assert_eq!(fails(not_its_own).trim(), "0");
}

#[test]
fn a_version_that_does_not_start_leaves_the_old_one_serving() {
    if !in_guest("packages::life::a_version_that_does_not_start_leaves_the_old_one_serving", packages) {
        return;
    }
    let before = begin();
    let check = |said: &str| {
        assert!(
            said.contains("evenkeel.service: the new version did not take over, and the old one serves on."),
            "{said}"
        );
        assert_eq!((main_pid("evenkeel"), count(PORT, ITEMS)), (before.clone(), ITEMS));
    };
    check(&install(VERSIONS[2]));
    // A flag that does not exist has the same effect, and the log says which.
    succeeds("echo --no-such-flag >> /etc/evenkeel/serve.conf");
    check(&install(VERSIONS[1]));
    wait_for_log("evenkeel", "--no-such-flag");
    fails("systemctl reload evenkeel");
    succeeds("sed -i /no-such-flag/d /etc/evenkeel/serve.conf && systemctl reload evenkeel");
    assert_ne!(main_pid("evenkeel"), before);
    assert_eq!(count(PORT, ITEMS), ITEMS);
}

#[test]
fn a_router_that_offers_itself_nowhere_is_restarted_and_one_that_does_is_taken_over() {
    if !in_guest(
        "packages::life::a_router_that_offers_itself_nowhere_is_restarted_and_one_that_does_is_taken_over",
        packages,
    ) {
        return;
    }
    install(VERSIONS[0]);
    // As the unit was before routers took over.
    succeeds(
        "sed -i '/^NotifyAccess=/d; /^ExecReload=/d; s/ --takeover .*//' /usr/lib/systemd/system/evenkeel-route.service
        systemctl daemon-reload && systemctl start evenkeel-route && ! test -e /run/evenkeel/route/next",
    );
    let before = main_pid("evenkeel-route");
    let said = install(VERSIONS[1]);
    assert!(!said.contains("did not take over"), "{said}");
    let restarted = main_pid("evenkeel-route");
    assert_ne!(restarted, before);
    succeeds("systemctl is-active evenkeel-route && test -S /run/evenkeel/route/next");
    install(VERSIONS[1]);
    assert_ne!(main_pid("evenkeel-route"), restarted);
    wait_for_log("evenkeel-route", "another process routes from now on");
}

#[test]
fn a_full_disk_in_the_middle_of_an_upgrade_leaves_the_old_version() {
    if !in_guest("packages::life::a_full_disk_in_the_middle_of_an_upgrade_leaves_the_old_version", packages) {
        return;
    }
    let before = begin();
    // Room for half of a second program.
    succeeds(
        "cp -a /usr/bin /root/bin
        used=$(du --summarize --block-size=1 /root/bin | cut -f 1)
        program=$(stat --format %s /usr/bin/evenkeel)
        mount -t tmpfs -o size=$((used + program / 2)) tmpfs /usr/bin && /root/bin/cp -a /root/bin/. /usr/bin/",
    );
    let said = fails(&format!("dpkg -i /root/evenkeel_{}-1_*.deb", VERSIONS[1]));
    assert!(said.contains("No space left on device"), "{said}");
    let state = succeeds("dpkg-query --show --showformat '${Version} ${Status}' evenkeel");
    assert_eq!(state, format!("{}-1 install ok installed", VERSIONS[0]));
    assert_eq!((main_pid("evenkeel"), count(PORT, ITEMS)), (before.clone(), ITEMS));
    succeeds("evenkeel --version && mount -o remount,size=1g /usr/bin");
    install(VERSIONS[1]);
    assert_ne!(main_pid("evenkeel"), before);
    assert_eq!(count(PORT, ITEMS), ITEMS);
}

#[test]
fn removing_stops_all_units_and_purging_leaves_what_is_the_operators() {
    if !in_guest(
        "packages::life::removing_stops_all_units_and_purging_leaves_what_is_the_operators",
        packages,
    ) {
        return;
    }
    begin();
    succeeds("sed s/^-p.*//\\;s/^-l.*/-p\\ 11212/ /etc/evenkeel/serve.conf > /etc/evenkeel/web.conf");
    succeeds("systemctl enable --now evenkeel@web evenkeel-route evenkeel-replay.timer");
    succeeds("touch /var/lib/evenkeel/control/register");
    // So rpm calls it for the old version when an upgrade ends.
    succeeds("sh /var/lib/dpkg/info/evenkeel.prerm 1");
    for unit in ["evenkeel", "evenkeel@web", "evenkeel-route", "evenkeel-replay.timer"] {
        succeeds(&format!("systemctl is-active {unit}"));
    }
    succeeds("dpkg --remove evenkeel");
    assert_eq!(shell("pgrep --exact evenkeel").1, "", "processes");
    assert_eq!(
        succeeds("find /etc/systemd/system -xtype l -name 'evenkeel*'"),
        "",
        "links to units that are gone"
    );
    succeeds("test -e /etc/evenkeel/serve.conf && dpkg --purge evenkeel");
    let left = succeeds("find /etc/evenkeel /var/lib/evenkeel -type f");
    assert_eq!(left, "/etc/evenkeel/web.conf\n/var/lib/evenkeel/control/register");
    // Without anything of the operator's, nothing is left but the user.
    install(VERSIONS[1]);
    succeeds("rm /etc/evenkeel/web.conf /var/lib/evenkeel/control/register && dpkg --purge evenkeel");
    assert_eq!(shell("ls -d /etc/evenkeel /var/lib/evenkeel 2> /dev/null").1, "");
    succeeds("id evenkeel");
}

#[test]
fn packages_are_installed_where_no_systemd_runs() {
    let Some(folder) = chroot("chroot-deb", &[]) else { return };
    for package in packages() {
        fs::copy(&package, folder.join("root").join(package.file_name().unwrap())).unwrap();
    }
    let inside =
        |line: &str| said(Command::new("chroot").arg(&folder).args(["sh", "-ec", line])).expect(line);
    for version in VERSIONS {
        inside(&format!("apt-get install --yes /root/evenkeel_{version}-1_*.deb"));
        inside("id evenkeel");
    }
    inside("apt-get remove --yes evenkeel && apt-get purge --yes evenkeel && ! test -e /etc/evenkeel");
    // Nor is it needed to make the user.
    inside("rm /usr/bin/systemd-sysusers && userdel evenkeel");
    inside(&format!("dpkg -i /root/evenkeel_{}-1_*.deb && id evenkeel", VERSIONS[0]));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn packages_for_rpm_are_installed_upgraded_and_removed() {
    let Some(folder) = chroot("chroot-rpm", &[("rpm", "Debian: rpm")]) else { return };
    let rpm = |words: &[&str]| {
        let mut rpm = Command::new("rpm");
        // Its scripts run in the folder, which is a Debian: dpkg knows the libraries there, and rpm does not.
        rpm.arg("--root").arg(&folder).args(["--force-debian", "--nodeps", "--nosignature", "--noplugins"]);
        said(rpm.args(words)).expect("rpm")
    };
    let has = |path: &str| folder.join(path).exists();
    for package in made("rpm") {
        rpm(&["--upgrade", &package.display().to_string()]);
        assert!(has("usr/bin/evenkeel"));
        assert!(fs::read_to_string(folder.join("etc/passwd")).unwrap().contains("\nevenkeel:"));
    }
    fs::write(folder.join("etc/evenkeel/web.conf"), "-p 11212\n").unwrap();
    rpm(&["--erase", "evenkeel"]);
    assert!(!has("usr/bin/evenkeel") && !has("etc/evenkeel/serve.conf") && has("etc/evenkeel/web.conf"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn all_units_and_drop_ins_work() {
    if !in_guest("packages::life::all_units_and_drop_ins_work", packages) {
        return;
    }
    begin();
    succeeds("systemctl start evenkeel-route evenkeel-replay evenkeel-tune-watch");
    assert_eq!(count(5000, ITEMS), ITEMS, "by the router");
    a_fleet_of_one_host();
    let drop_in = |name: &str| {
        let folder = "/etc/systemd/system/evenkeel.service.d";
        succeeds(&format!("rm -rf {folder} && mkdir {folder} && cp /usr/share/evenkeel/{name} {folder}"));
        succeeds("systemctl daemon-reload && systemctl restart evenkeel");
    };
    drop_in("realtime.conf");
    let stat = fs::read_to_string(format!("/proc/{}/stat", main_pid("evenkeel"))).unwrap();
    // proc(5): the 41st field is the policy, counted from the name in parentheses, which is the second. 1 is SCHED_FIFO.
    assert_eq!(stat.rsplit_once(") ").unwrap().1.split(' ').nth(38), Some("1"), "{stat}");
    drop_in("warm.conf");
    fill(PORT, ITEMS);
    succeeds("systemctl restart evenkeel");
    assert_eq!(count(PORT, ITEMS), ITEMS, "after a restart");
    install(VERSIONS[1]);
    assert_eq!(count(PORT, ITEMS), ITEMS, "after an upgrade that restarts");
}

/// A controller and an agent, with certificates of an authority that is made here.
fn a_fleet_of_one_host() {
    let install = "install -m 0600 -o evenkeel -g evenkeel";
    succeeds(&format!(
        "cd /root && evenkeel control init ca --fleet prod --operator ann
        evenkeel control certificate --authority ca --role controller --id c1 --host 127.0.0.1 --out c1.pem
        evenkeel control certificate --authority ca --role agent --id h1 --out h1.pem
        cp ca/authority.pem /etc/evenkeel
        {install} c1.pem /var/lib/evenkeel/control/certificate.pem
        {install} h1.pem /var/lib/evenkeel/agent/certificate.pem"
    ));
    succeeds(
        "sed -i 's/^controllers = .*/controllers = [\"127.0.0.1:7500\"]/; s/10.0.3.1/127.0.0.1/' /etc/evenkeel/agent.toml",
    );
    succeeds("systemctl start evenkeel-control evenkeel-agent");
    wait_for_log("evenkeel-control", "evenkeel://prod/controller/c1 serves at 127.0.0.1:7500");
    wait_for_log("evenkeel-agent", "beside 1 router and 1 server of h1");
}
