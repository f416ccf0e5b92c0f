//! Files of sysctl.d as systemd-sysctl(8) reads them.

/// `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// With points between its parts, whatever is written: `net.core.somaxconn`. Points inside of parts are slashes
    /// then. May be a pattern.
    pub(crate) key: String,
    /// Without space around it; `None`: a pattern that is to be left alone (`-key`).
    pub(crate) value: Option<String>,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// The assignments of a file.
pub(crate) fn sysctls(text: &str) -> Vec<Assignment> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| assignment(line, index + 1)).collect()
}

fn assignment(text: &str, line: usize) -> Option<Assignment> {
    let text = text.trim();
    if text.is_empty() || text.starts_with(['#', ';']) {
        return None;
    }
    match text.split_once('=') {
        // A minus before the key: errors are no errors.
        Some((key, value)) => Some(Assignment {
            key: normal(key.trim().trim_start_matches('-')),
            value: Some(value.trim().to_owned()),
            line,
        }),
        None => {
            let key = normal(text.strip_prefix('-')?.trim());
            Some(Assignment { key, value: None, line })
        }
    }
}

/// The first separator determines the form.
fn normal(key: &str) -> String {
    match key.find(['.', '/']) {
        Some(at) if key[at..].starts_with('/') => {
            let swap = |c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            };
            key.chars().map(swap).collect()
        }
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_however_they_are_written() {
        let text = "# no\n; no\nnet/core/somaxconn=1\n -net.core.somaxconn = 2\n\n-net.ipv4.conf.eth0.rp_filter\n\
                    net/ipv4/conf/eth0.5/rp_filter = 0\nnonsense\n";
        let found = sysctls(text);
        let said: Vec<_> =
            found.iter().map(|found| (found.line, found.key.as_str(), found.value.as_deref())).collect();
        assert_eq!(
            said,
            [
                (3, "net.core.somaxconn", Some("1")),
                (4, "net.core.somaxconn", Some("2")),
                (6, "net.ipv4.conf.eth0.rp_filter", None),
                (7, "net.ipv4.conf.eth0/5.rp_filter", Some("0")),
            ]
        );
    }
}
