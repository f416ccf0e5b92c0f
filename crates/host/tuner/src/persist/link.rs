//! A `.link` file for settings that only ethtool makes: queues, rings, coalescing. systemd-udevd applies it when the
//! interface appears, before it is set up, so nothing is reset under load.
//!
//! Of all `.link` files only the first that matches is used. Ours therefore repeats the content of the file that it
//! hides, above all the naming of the interface.

use super::file::{Keep, PersistentFile};
use super::means::is_plain;
use super::ordered::{Ordered, acting};
use super::texts::{MODE, comment};
use crate::observe::ethtool::Knob;
use crate::observe::facts::Nic;
use crate::text::HEADER;

/// The settings of one interface.
pub(super) type LinkSettings<'k> = (&'k Keep, Knob);

/// The file for one interface; or the reason why there is none.
pub(super) fn file(nic: &Nic, asked: &[LinkSettings], links: &[Ordered]) -> Result<PersistentFile, String> {
    let bus = nic.bus.as_ref().filter(|bus| bus.contains(':') && is_plain(bus));
    let bus = bus.ok_or("a .link file finds an interface by its place on a PCI bus, and it is on none")?;
    let mut lines = String::new();
    let mut keys = Vec::new();
    for (keep, knob) in asked {
        lines += "\n";
        lines += &comment(keep);
        for word in keep.wanted.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or("its value cannot be understood")?;
            let (key, value) = line(*knob, name, value)?;
            lines += &format!("{key}={value}\n");
            keys.push(key);
        }
    }
    let hidden = hidden(nic, bus, links)?;
    let mut text = format!(
        "{HEADER}\n\n[Match]\n# Its place on the bus; what stands on it (VLAN, bond) has none.\nPath=*pci-{bus}\n\n[Link]\n"
    );
    if let Some(hidden) = hidden {
        text += &format!("# As in {}, which this file hides for this interface.\n", hidden.path);
        for words in section(&hidden.text, "[Link]") {
            if !words.split_once('=').is_some_and(|(key, _)| keys.contains(&key.trim())) {
                text += words;
                text += "\n";
            }
        }
    }
    text += &lines;
    Ok(PersistentFile {
        // Before all files of distributions and clouds.
        path: format!("/etc/systemd/network/00-evenkeel-{}.link", bus.replace(':', "-")),
        text,
        mode: MODE,
        why: format!("queues of {}, set when it comes", nic.name),
    })
}

/// The line of systemd.link(5) for a name of ethtool.
fn line(knob: Knob, name: &str, value: &str) -> Result<(&'static str, String), String> {
    let number: u32 = value.parse().map_err(|_| "its value cannot be understood".to_owned())?;
    let key = match (knob, name) {
        (Knob::Channels, "rx") => "RxChannels",
        (Knob::Channels, "tx") => "TxChannels",
        (Knob::Channels, "combined") => "CombinedChannels",
        (Knob::Rings, "rx") => "RxBufferSize",
        (Knob::Rings, "tx") => "TxBufferSize",
        (Knob::Coalescing, "adaptive-rx") => return Ok(("UseAdaptiveRxCoalesce", yes(number))),
        (Knob::Coalescing, "adaptive-tx") => return Ok(("UseAdaptiveTxCoalesce", yes(number))),
        (Knob::Coalescing, "rx-usecs") => return Ok(("RxCoalesceSec", format!("{number}us"))),
        (Knob::Coalescing, "tx-usecs") => return Ok(("TxCoalesceSec", format!("{number}us"))),
        (Knob::Coalescing, "rx-frames") => "RxMaxCoalescedFrames",
        (Knob::Coalescing, "tx-frames") => "TxMaxCoalescedFrames",
        _ => return Err(format!("systemd.link has no word for {name}")),
    };
    match number {
        0 if knob != Knob::Coalescing => Err(format!("{key}=0 is not taken")),
        number => Ok((key, number.to_string())),
    }
}

fn yes(number: u32) -> String {
    if number == 0 { "no" } else { "yes" }.to_owned()
}

/// The file that is used for this interface today. One whose conditions cannot be evaluated here could be it.
fn hidden<'l>(nic: &Nic, bus: &str, links: &'l [Ordered]) -> Result<Option<&'l Ordered>, String> {
    for link in links {
        match section(&link.text, "[Match]").map(|words| suits(nic, bus, words)).fold(Some(true), and) {
            Some(true) => return Ok(Some(link)),
            Some(false) => {}
            None => return Err(format!("{} may be meant for it, so the lines belong there", link.path)),
        }
    }
    Ok(None)
}

/// False wins over unknown, and that over true.
fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (None, _) | (_, None) => None,
        _ => Some(true),
    }
}

/// Whether a line of a `[Match]` matches the interface; `None`: it cannot be evaluated here.
fn suits(nic: &Nic, bus: &str, words: &str) -> Option<bool> {
    let (key, value) = words.split_once('=')?;
    let any = |is: &dyn Fn(&str) -> bool| match value.trim().strip_prefix('!') {
        Some(others) => !others.split_whitespace().any(is),
        None => value.split_whitespace().any(is),
    };
    match key.trim() {
        // The kernel's name: it has another one by now, so only a pattern for all names can be evaluated.
        "OriginalName" => (value.trim() == "*").then_some(true),
        "MACAddress" | "PermanentMACAddress" => {
            let mac = nic.mac.as_ref()?;
            Some(value.split_whitespace().any(|other| other.eq_ignore_ascii_case(mac)))
        }
        "Driver" => {
            let driver = nic.driver.as_ref()?;
            Some(any(&|pattern| matches(pattern, driver)))
        }
        "Path" => Some(any(&|pattern| matches(pattern, &format!("pci-{bus}")))),
        "Type" => Some(any(&|pattern| matches(pattern, "ether"))),
        // A device on a bus has no kind.
        "Kind" => Some(value.trim().starts_with('!')),
        _ => None,
    }
}

/// Whether a text is like a pattern with `*` and `?`.
fn matches(pattern: &str, text: &str) -> bool {
    match (pattern.chars().next(), text.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = &pattern[1..];
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
        }
        (Some(p), Some(t)) if p == '?' || p == t => matches(&pattern[p.len_utf8()..], &text[t.len_utf8()..]),
        _ => false,
    }
}

/// Acting lines of a section; it may be there several times.
fn section<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = &'t str> {
    let mut inside = false;
    acting(text).map(|(_, line)| line).filter(move |line| {
        if line.starts_with('[') {
            inside = *line == name;
            return false;
        }
        inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &str = "[Match]\nOriginalName=*\n\n[Link]\nNamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\n";

    fn nic() -> Nic {
        Nic {
            name: "ens5".into(),
            bus: Some("0000:00:05.0".into()),
            mac: Some("02:00:00:00:00:01".into()),
            driver: Some("ena".into()),
            ..Nic::default()
        }
    }

    fn link(name: &str, text: &str) -> Ordered {
        Ordered { name: name.into(), path: format!("/usr/lib/systemd/network/{name}"), text: text.into() }
    }

    fn keep(wanted: &str) -> Keep {
        let setting = crate::Setting::number("/");
        Keep { setting, wanted: wanted.into(), why: "it helps".into(), asked_by: "me".into() }
    }

    #[test]
    fn naming_is_carried_on_from_the_file_that_is_hidden() {
        let usb = link("73-usb.link", "[Match]\nPath=*-usb-*\n[Link]\nNamePolicy=mac\n");
        let links = [usb, link("99-default.link", &(DEFAULT.to_owned() + "RxBufferSize=64\n"))];
        let (channels, rings) = (keep("combined=4"), keep("rx=4096"));
        let file = file(&nic(), &[(&channels, Knob::Channels), (&rings, Knob::Rings)], &links).unwrap();
        assert_eq!(file.path, "/etc/systemd/network/00-evenkeel-0000-00-05.0.link");
        let wanted = "[Match]\n# Its place on the bus; what stands on it (VLAN, bond) has none.\nPath=*pci-0000:00:05.0\n\n\
                      [Link]\n# As in /usr/lib/systemd/network/99-default.link, which this file hides for this interface.\n\
                      NamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\n\
                      MACAddressPolicy=persistent\n\n# it helps (me)\nCombinedChannels=4\n\n# it helps (me)\nRxBufferSize=4096\n";
        assert_eq!(file.text, format!("{HEADER}\n\n{wanted}"));
    }

    #[track_caller]
    fn check(of_match: &str, expected: Option<bool>) {
        let link = format!("[Match]\n{of_match}\n");
        let found =
            section(&link, "[Match]").map(|words| suits(&nic(), "0000:00:05.0", words)).fold(Some(true), and);
        assert_eq!(found, expected, "{of_match}");
    }

    #[test]
    fn conditions_are_judged_or_said_to_be_unknown() {
        check("OriginalName=*", Some(true));
        check("OriginalName=eth*", None);
        check("MACAddress=02:00:00:00:00:01", Some(true));
        check("MACAddress=02:00:00:00:00:02 02:00:00:00:00:03", Some(false));
        check("Driver=ena gve", Some(true));
        check("Driver=!ena", Some(false));
        check("Path=pci-0000:00:05.*", Some(true));
        check("Type=wlan", Some(false));
        check("Kind=veth", Some(false));
        check("Property=ID_X=1", None);
        check("Property=ID_X=1\nDriver=gve", Some(false));
        check("", Some(true));
    }

    #[test]
    fn what_a_link_cannot_say_or_must_not_hide_is_refused() {
        let channels = keep("combined=4");
        let links = [link("10-x.link", "[Match]\nProperty=ID_X=1\n")];
        let why = file(&nic(), &[(&channels, Knob::Channels)], &links).unwrap_err();
        assert_eq!(why, "/usr/lib/systemd/network/10-x.link may be meant for it, so the lines belong there");
        assert!(file(&nic(), &[(&keep("combined=0"), Knob::Channels)], &[]).is_err());
        let virtio = Nic { bus: Some("virtio0".into()), ..nic() };
        assert!(file(&virtio, &[(&channels, Knob::Channels)], &[]).is_err());
        let usecs = keep("adaptive-rx=0 rx-usecs=50");
        let text = file(&nic(), &[(&usecs, Knob::Coalescing)], &[]).unwrap().text;
        assert!(text.contains("UseAdaptiveRxCoalesce=no\nRxCoalesceSec=50us\n"), "{text}");
    }
}
