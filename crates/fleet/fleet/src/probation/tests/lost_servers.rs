//! Servers that are lost while a text is on probation.

use super::*;

/// 1,000 requests a second, a third of them to a server that dies so many seconds after the text was loaded, and stays away.
fn a_loss_after(seconds: u64) -> String {
    let mut conversation = BEGIN.to_owned();
    for second in 1..=30 {
        let failed = second.max(seconds) - seconds;
        let (requests, errors, unreached) = (100_000 + second * 1000, 100 + failed * 333, failed * 333);
        let lost = if failed > 0 { "a" } else { "none" };
        let t = 62 + second;
        let words = format!("requests={requests} errors={errors} unreached={unreached} lost={lost}");
        conversation += &format!("t={t} sees {words}\n");
    }
    conversation
}

#[test]
fn a_server_that_dies_after_the_load_is_no_fault_of_the_text() {
    for seconds in [0, 1, 10, 29] {
        // The text has passed: a crash of the next one goes back to it.
        let next = "target g8 → write 8
            t=93 sees file=8 loaded=8 → loaded g8
            t=94 sees pid=2
            t=94 sees pid=102 → write 7, crashed g8: the router ended twice";
        check(&format!("{}{next}", a_loss_after(seconds)));
    }
}

#[test]
fn the_same_errors_speak_against_a_text_whose_router_has_lost_nobody() {
    check_after(
        "t=63 sees requests=101000 errors=100
        t=64 sees requests=102000 errors=433 → write 6, crashed g7: its errors doubled",
    );
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333
        t=64 sees requests=102000 errors=766 unreached=666 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn a_new_address_that_is_dead_speaks_against_its_text_within_3_seconds() {
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333 lost=n? → write 6, crashed g7: its errors doubled",
    );
    check_after(
        "t=63 sees requests=101000 errors=140 unreached=40 lost=n?
        t=64 sees requests=102000 errors=180 unreached=80 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn a_dead_new_address_is_not_covered_by_a_server_that_dies_at_the_same_time() {
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333 lost=a
        t=64 sees requests=102000 errors=1000 unreached=900 lost=a,n? → write 6, crashed g7: its errors doubled",
    );
    check_after(
        "t=63 sees requests=101000 errors=766 unreached=666 lost=a,n? → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn errors_of_another_kind_speak_against_a_text_although_a_server_is_lost() {
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333 lost=a
        t=64 sees requests=102000 errors=1000 unreached=666 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn half_of_the_routers_see_a_death_and_none_blames_the_text() {
    let (one, other) = (a_loss_after(10), a_loss_after(31));
    assert!(one.contains("lost=a") && !other.contains("lost=a"));
    for router in [one, other] {
        check(&format!("{router}target g8=7 → loaded g8"));
    }
}

#[test]
fn a_server_that_was_lost_before_the_text_is_known_although_it_has_not_answered_this_process() {
    check(
        "t=0 sees file=6 loaded=6 pid=1 requests=0 errors=0
        t=60 sees requests=100000 errors=100 unreached=100 lost=a?
        target g7 → write 7
        t=62 sees file=7 loaded=7 → loaded g7
        t=63 sees requests=101000 errors=433 unreached=433
        t=64 sees requests=102000 errors=766 unreached=766
        t=65 sees lost=a?,n? → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn the_counts_may_be_ahead_of_the_list_of_lost_servers() {
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333
        t=64 sees requests=102000 errors=766 unreached=666 lost=a
        t=65 sees requests=103000 errors=1099 unreached=999
        target g8=7 → loaded g8",
    );
}

#[test]
fn a_server_that_comes_back_leaves_no_blame_and_no_excuse_for_what_follows() {
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333 lost=a
        t=64 sees requests=102000 errors=700 unreached=600 lost=none
        t=70 sees requests=108000 errors=705 unreached=605
        t=71 sees requests=109000 errors=1038 unreached=938
        t=72 sees requests=110000 errors=1371 unreached=1271 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn errors_that_no_client_has_seen_excuse_none_that_follow() {
    check_after(
        "t=63 sees requests=101000 errors=110 unreached=5000 lost=a
        t=64 sees requests=102000 errors=110 unreached=9000 lost=none
        t=65 sees requests=103000 errors=600 unreached=9000
        t=66 sees requests=104000 errors=1100 unreached=9000 → write 6, crashed g7: its errors doubled",
    );
}

#[test]
fn a_router_that_is_started_again_while_a_server_is_lost_keeps_its_text() {
    check_after(
        "t=63 sees requests=101000 errors=433 unreached=333 lost=a
        t=64 sees pid=2 requests=10 errors=0 unreached=0 lost=none
        t=65 sees requests=1000 errors=333 unreached=333 lost=a?
        t=66 sees requests=2000 errors=666 unreached=666
        t=94 sees requests=3000 errors=999 unreached=999
        target g8=7 → loaded g8",
    );
}

/// A zone is cut off within the 30 s, with a server and the gutter of that server's cluster, which nobody has asked before.
#[test]
fn a_gutter_that_is_asked_for_the_first_time_and_lost_with_its_server_is_no_fault_of_the_text() {
    let begin = BEGIN.replacen("pid=1", "pid=1 has=a,gutter", 1);
    let cut = "t=63 sees requests=101000 errors=433 unreached=333 lost=a,gutter?
        t=64 sees requests=102000 errors=766 unreached=666
        t=80 sees requests=118000 errors=6000 unreached=5900 lost=gutter?
        t=93 sees requests=131000 errors=6100 unreached=6000 lost=none";
    // The server is asked again before its gutter is.
    check(&format!("{begin}{cut}"));
    let condemned = "write 6, crashed g7: its errors doubled";
    let blamed = |begin: &str, lost: &str| {
        check(&format!(
            "{begin}t=63 sees requests=101000 errors=433 unreached=333 lost={lost} → {condemned}"
        ));
    };
    // One that the router did not have before, or whose first requests come from new routes alone.
    blamed(BEGIN, "a,gutter?");
    blamed(&begin, "gutter?");
    blamed(&begin, "a,gutter?,n?");
}
