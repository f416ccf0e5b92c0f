//! Names of images, and two names of one image.
//!
//! Kubernetes restarts a container when the name of its image changes, also if the image does not. A second name of the same image is
//! therefore how a container is restarted in place: `NAME:TAG@sha256:…` beside `NAME:TAG`, where the digest alone counts.

/// How a digest begins behind a name.
const DIGEST: &str = "@sha256:";

/// A tag for the second name of an image that is named by its digest; nothing looks at it.
const SECOND_TAG: &str = ":same";

/// Whether a pod whose container has the first name runs the image of the second one.
pub(crate) fn is_same(of_pod: &str, wanted: &str) -> bool {
    if of_pod == wanted {
        return true;
    }
    match (of_pod.split_once(DIGEST), wanted.split_once(DIGEST)) {
        // A tag beside a digest has no meaning.
        (Some((name, digest)), Some((wanted_name, wanted_digest))) => {
            digest == wanted_digest && without_tag(name) == without_tag(wanted_name)
        }
        (Some((name, _)), None) => name == wanted,
        _ => false,
    }
}

/// Another name of the image that a container runs, whose present name is `of_pod`. `running` is what Kubernetes says of the running
/// one, with its digest; `None` if that has none of this repository.
pub(crate) fn second_name(of_pod: &str, wanted: &str, running: Option<&str>) -> Option<String> {
    if of_pod != wanted {
        return Some(wanted.to_owned());
    }
    if let Some((name, digest)) = wanted.split_once(DIGEST) {
        let other = if without_tag(name) == name { SECOND_TAG } else { "" };
        return Some(format!("{}{other}{DIGEST}{digest}", without_tag(name)));
    }
    let running = running?;
    let (repository, digest) =
        running.rsplit_once("://").map_or(running, |(_, rest)| rest).split_once(DIGEST)?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Of another repository, the registry need not have the digest in this one.
    let is_here = in_full(without_tag(wanted)) == in_full(repository);
    (is_digest && is_here).then(|| format!("{wanted}{DIGEST}{digest}"))
}

/// The name of an image without its tag. A colon before a slash is that of a port.
fn without_tag(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    }
}

/// A repository without the parts that are the same for all: `docker.io` is the registry of names without one.
fn in_full(repository: &str) -> &str {
    let repository = repository.strip_prefix("docker.io/").unwrap_or(repository);
    repository.strip_prefix("library/").unwrap_or(repository)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn a_second_name_is_the_same_image_and_another_text() {
        let plain = "r.example:5000/evenkeel/evenkeel:0.2.0";
        let by_digest = format!("r.example:5000/evenkeel/evenkeel@{SUM}");
        for (wanted, running) in [(plain, Some(by_digest.as_str())), (by_digest.as_str(), None)] {
            let second = second_name(wanted, wanted, running).expect("there is one");
            assert_ne!(second, wanted);
            assert!(is_same(&second, wanted), "{second}");
            // And from there back to the first.
            assert_eq!(second_name(&second, wanted, running).as_deref(), Some(wanted));
        }
        let tagged = format!("evenkeel:1@{SUM}");
        assert_eq!(second_name(&tagged, &tagged, None), Some(format!("evenkeel@{SUM}")));
    }

    #[test]
    fn other_images_are_not_the_same() {
        assert!(!is_same("evenkeel:0.1.0", "evenkeel:0.2.0"));
        assert!(!is_same(&format!("evenkeel:0.1.0@{SUM}"), "evenkeel:0.2.0"));
        assert!(!is_same(&format!("evenkeel@{SUM}"), "evenkeel@sha256:11"));
        assert!(!is_same("evenkeel:0.2.0", &format!("evenkeel:0.2.0@{SUM}")));
    }

    #[test]
    fn an_image_whose_digest_is_not_known_has_no_second_name() {
        let none = |running: Option<&str>| {
            assert_eq!(
                second_name("evenkeel:1", "evenkeel:1", running),
                None,
                "{}",
                running.unwrap_or("nothing")
            );
        };
        none(None);
        // The checksum of the configuration of an image that no registry has.
        none(Some(SUM));
        none(Some(&format!("elsewhere/evenkeel@{SUM}")));
        none(Some("evenkeel@sha256:short"));
        let pulled = format!("docker-pullable://docker.io/library/evenkeel@{SUM}");
        assert_eq!(second_name("evenkeel:1", "evenkeel:1", Some(&pulled)), Some(format!("evenkeel:1@{SUM}")));
    }
}
