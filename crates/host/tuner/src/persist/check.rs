//! Check of our own texts, parsed like systemd and udev parse them: a text that they would refuse is not written.

use super::file::PersistentFile;
use super::intent::Intent;
use super::parse::sysctls;

/// Whether every line of these files has the form that its reader expects; otherwise the first that has not.
pub fn reads_back(files: &[PersistentFile]) -> Result<(), String> {
    let wrong = |file: &PersistentFile, line: &str| Err(format!("{}: {line:?}", file.path));
    for file in files {
        if file.path.ends_with(".json") {
            Intent::parse(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
            continue;
        }
        for line in file.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let is_right = match kind(&file.path) {
                Kind::Sysctl => sysctls(line).iter().any(|found| found.value.is_some()),
                Kind::Rules => is_rule(line),
                Kind::TmpFiles => line.split_whitespace().count() >= 7 && line.starts_with("w /sys/"),
                Kind::Unit => is_section(line) || line.split_once('=').is_some_and(|(key, _)| is_word(key)),
                Kind::Script => true,
            };
            if !is_right {
                return wrong(file, line);
            }
        }
    }
    Ok(())
}

enum Kind {
    Sysctl,
    Rules,
    TmpFiles,
    Unit,
    Script,
}

fn kind(path: &str) -> Kind {
    match path {
        path if path.starts_with("/etc/sysctl.d/") => Kind::Sysctl,
        path if path.ends_with(".rules") => Kind::Rules,
        path if path.starts_with("/etc/tmpfiles.d/") => Kind::TmpFiles,
        path if path.starts_with("/etc/systemd/") => Kind::Unit,
        _ => Kind::Script,
    }
}

fn is_section(line: &str) -> bool {
    line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(is_word)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `KEY=="value", ATTR{file}="value"`, at least one comparison before the first assignment.
fn is_rule(line: &str) -> bool {
    let mut compared = false;
    line.split(", ").all(|token| {
        let Some((key, value)) = token.split_once('=') else { return false };
        let (is_comparison, value) = match value.strip_prefix('=') {
            Some(value) => (true, value),
            None => (false, value),
        };
        compared |= is_comparison;
        let name = key.split('{').next().unwrap_or_default();
        let braces = key.len() == name.len() || key.ends_with('}');
        let quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
        let inside = value.trim_matches('"');
        is_word(name) && braces && quoted && !inside.contains('"') && compared
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, line: &str, is_right: bool) {
        let file = PersistentFile {
            path: path.into(),
            text: format!("# x\n\n{line}\n"),
            mode: 0o644,
            why: String::new(),
        };
        assert_eq!(reads_back(&[file]).is_ok(), is_right, "{path}: {line}");
    }

    #[test]
    fn what_its_reader_would_refuse_is_seen() {
        check("/etc/sysctl.d/90-evenkeel.conf", "net.core.somaxconn = 1", true);
        check("/etc/sysctl.d/90-evenkeel.conf", "net.core.somaxconn", false);
        check("/etc/udev/rules.d/90-evenkeel.rules", "ACTION==\"add\", ATTR{a/b}=\"1\"", true);
        check("/etc/udev/rules.d/90-evenkeel.rules", "ACTION==\"add\", ATTR{a/b}=\"1", false);
        check("/etc/udev/rules.d/90-evenkeel.rules", "ATTR{a/b}=\"1\"", false);
        check("/etc/udev/rules.d/90-evenkeel.rules", "ACTION==\"a\"d\", ATTR{a/b}=\"1\"", false);
        check("/etc/tmpfiles.d/evenkeel.conf", "w /sys/a - - - - b", true);
        check("/etc/tmpfiles.d/evenkeel.conf", "w /sys/a b", false);
        check("/etc/systemd/system/x.service", "[Unit]", true);
        check("/etc/systemd/system/x.service", "After=x", true);
        check("/etc/systemd/system/x.service", "After", false);
        check("/etc/evenkeel/tune.json", "{}", false);
    }
}
