//! Answers that are allowed, with the history of its key and the routes at that time.
//!
//! * **Stale**: a value is answered although a later set or delete was acknowledged before the question. Allowed only while
//!   the router that answers uses an older member for the slot than the one that the later write may have gone to (two owners,
//!   until all routers have loaded the generation), or if the set of the value itself was answered by an error: nobody knows
//!   when that arrives. A delete that was answered by an error promises nothing.
//!   A member that lives leaves its slot by phases, in which deletes go to both: after a delete nothing is allowed, but for a copy that
//!   crossed it on its way. A set may be overtaken by what is on its way to the other member.
//!   A cluster grows and shrinks by phases, too: so it is for a key that has one slot of the smaller and another one of the larger layout.
//! * **I7**: a value was stored in an earlier member of the slot than any that the answering router may have used: the member
//!   has been in a slot before, and was not emptied.
//! * **Lost**: a value that was stored last is missing, although its server has run since then, is still meant to have the
//!   slot, and every router agrees on that.

use super::history::{KeyHistory, Reply, Request, Wish};
use super::route_log::RouteLog;

/// A copy is on its way to the new member for so long after the get that it was made for was answered.
const COPY_WITHIN_US: u64 = 3_000_000;

/// What the judge must know besides routes.
pub(super) trait MemberLives {
    /// Whether a member's process has run without end since then.
    fn has_run_since(&self, member: &fleet::MemberId, since_us: u64) -> bool;
}

/// The invariant that the last answer to a get breaks, and why.
pub(super) fn judge(
    history: &KeyHistory,
    places: &[usize],
    get: &Request,
    routes: &RouteLog,
    lives: &impl MemberLives,
) -> Option<(&'static str, String)> {
    match get.reply {
        Reply::Value(version) => judge_value(history, places, get, version, routes),
        Reply::Miss => judge_miss(history, places, get, routes, lives),
        Reply::Nonsense => Some(("protocol", "the answer is none to this question".to_owned())),
        _ => None,
    }
}

fn judge_value(
    history: &KeyHistory,
    places: &[usize],
    get: &Request,
    version: u64,
    routes: &RouteLog,
) -> Option<(&'static str, String)> {
    let Some(place) = history.set_of(version) else {
        return Some(("I8", format!("version {version} was never set")));
    };
    let set = &history.requests[place];
    if !set.is_acknowledged() {
        return None;
    }
    let owners = |request: &Request, slot: usize| routes.owners(request, slot);
    let slot = places[0];
    let (answered_by, stored_in) = (owners(get, slot), owners(set, slot));
    if places.len() == 1 && stored_in.end() < answered_by.start() {
        return Some((
            "I7",
            format!(
                "version {version} was stored in slot {slot} while it had the member of generation {}, and the one of generation {} answers it",
                stored_in.end(),
                answered_by.start()
            ),
        ));
    }
    let has_two_owners = |request: &Request| {
        places.iter().any(|slot| routes.is_drained(request, *slot))
            || places.len() > 1 && routes.is_resized(request)
    };
    let is_later = |later: &Request| later.is_acknowledged() && later.until_us < get.from_us;
    let is_old = |later: &Request| {
        // Who reads one member while the other one is written is told by the later of the two.
        let is_excused = match later.wish {
            Wish::Delete => history.requests.iter().any(|copied| {
                let until_us = copied.until_us.saturating_add(COPY_WITHIN_US);
                let crosses = copied.from_us < later.until_us && until_us > later.from_us;
                copied.wish == Wish::Get && crosses && has_two_owners(copied)
            }),
            _ => has_two_owners(later) || has_two_owners(get) || has_two_owners(set),
        };
        // A cluster that was resized at once: the value is with the new owner, and the later request was sent to the old one.
        let is_elsewhere =
            places.len() > 1 && owners(set, places[1]).start() > owners(later, places[1]).end();
        // Of a key that moves: in whichever of its slots it was looked for.
        !is_excused
            && !is_elsewhere
            && places.iter().all(|slot| owners(get, *slot).start() >= owners(later, *slot).end())
    };
    let is_broken = |later: &&Request| is_later(later) && is_old(later);
    let later = history.writes_after(place).find(is_broken)?;
    let invariant = if later.wish == Wish::Delete { "I8" } else { "I4" };
    Some((invariant, format!("version {version} comes back after {later}")))
}

fn judge_miss(
    history: &KeyHistory,
    places: &[usize],
    get: &Request,
    routes: &RouteLog,
    lives: &impl MemberLives,
) -> Option<(&'static str, String)> {
    // A key that moves is missed in its new slot, unless it was asked for while that was warmed up.
    if places.len() > 1 && routes.was_resized() {
        return None;
    }
    let slot = places[0];
    let set = &history.requests[history.last_write()?];
    let Wish::Set(version) = set.wish else { return None };
    // A delete that failed may arrive at any time.
    let may_be_deleted =
        history.requests.iter().any(|request| request.wish == Wish::Delete && !request.is_acknowledged());
    if !set.is_acknowledged() || set.until_us >= get.from_us || may_be_deleted {
        return None;
    }
    let stored_in = routes.epochs(set.router, slot, set.from_us, set.until_us);
    let answered_by = routes.epochs(get.router, slot, get.from_us, get.until_us);
    let epoch = *stored_in.start();
    let is_one = stored_in == answered_by && *stored_in.end() == epoch;
    if !is_one || !routes.is_steady(slot, epoch) {
        return None;
    }
    let member = routes.member(slot, epoch);
    lives.has_run_since(member, set.from_us).then(|| {
        (
            "I4",
            format!(
                "version {version} is missing on {member}, which has had slot {slot} since generation {epoch}"
            ),
        )
    })
}
