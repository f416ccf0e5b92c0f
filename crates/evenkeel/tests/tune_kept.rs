//! Values that a plan cannot change, and values that somebody chooses after it, in the lab of the how-tos.

use crate::support::lab;

/// A server in the lab that requested a longer queue than this host allowed.
const SHORT_QUEUE: &str = "\
kill $server; wait $server 2> /dev/null || true
echo 128 > /proc/sys/net/core/somaxconn
evenkeel serve -l 10.77.0.1 -u root 2> /dev/null &
until grep -q ' 01004D0A:2BCB .* 0A ' /proc/net/tcp; do sleep 0.1; done
";

#[test]
fn a_listener_is_left_alone_where_the_limit_of_its_queue_cannot_be_raised() {
    if !lab::can_be_made() {
        return;
    }
    let script = "\
mount --bind /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys
evenkeel tune plan --profile generic --live
evenkeel tune apply --profile generic --live
";
    let said = lab::says(&format!("{SHORT_QUEUE}{script}"), 1);
    let words: Vec<&str> = said.split_whitespace().collect();
    let said = words.join(" ");
    assert_eq!(said.matches("Nothing to change.").count(), 2, "{said}");
    let why = "net.core.somaxconn is 128, which limits it, and /proc/sys is mounted read-only";
    assert_eq!(said.matches(why).count(), 2, "{said}");
}

#[test]
fn rollback_keeps_what_was_chosen_after_the_plan_unless_it_is_forced() {
    if !lab::can_be_made() {
        return;
    }
    let script = "\
for force in '' --force; do
    evenkeel tune apply --profile generic > /dev/null
    echo 777 > /proc/sys/net/core/somaxconn
    evenkeel tune rollback $force
    echo \"reads $(cat /proc/sys/net/core/somaxconn)\"
    echo 128 > /proc/sys/net/core/somaxconn
done
evenkeel tune status || true
";
    let said = lab::says(&format!("{SHORT_QUEUE}{script}"), 1);
    let (kept, forced) = said.split_once("reads 777").unwrap_or_else(|| panic!("{said}"));
    let kept_at =
        "somaxconn: kept at 777, to which it was changed after the plan; before the plan it was 128";
    assert!(kept.contains(kept_at), "{said}");
    let restored = "somaxconn: restored to its value before the plan; it was changed to 777 after the plan";
    assert!(forced.contains(restored) && forced.contains("reads 128"), "{said}");
    assert!(!forced.contains("in force\n  "), "{said}");
}
