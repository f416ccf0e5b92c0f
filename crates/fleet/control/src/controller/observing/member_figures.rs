//! Figures of members: what agents say of them with their turns, kept for half an hour, and service levels of a day.
//!
//! Nothing of it is decided by and nothing is in the register: a controller that is started again begins without.

use fleet::figures::{FigureBook, HeardTurn};
use fleet::{GenerationNumber, MemberId, RouterId};
use stdx::clock::Now;

use crate::controller::register_mirror::FleetView;
use crate::service::turn::{TurnFigures, TurnReport};

/// Interval of looks for what is not heard of any more.
const FORGET_EVERY_MS: u64 = 60_000;

/// All figures of the fleet.
#[derive(Default)]
pub(crate) struct MemberFigures {
    book: FigureBook,
    /// When it is looked next for what can be forgotten.
    forget_at_ms: u64,
    /// The generation whose shadows are counted.
    followed: Option<GenerationNumber>,
}

impl MemberFigures {
    /// Takes the figures of a turn, of this agent. Of a server, only its own host's agent is believed.
    pub(crate) fn hear(&mut self, figures: TurnFigures, report: &TurnReport, view: &FleetView, now: Now) {
        let heard = HeardTurn { boot: report.boot, now };
        if self.followed != view.target() {
            self.followed = view.target();
            self.book.follow_shadows(&view.content());
        }
        for (member, tally) in figures.members {
            let is_own = view.inventory().get(&member).is_some_and(|known| known.host == report.host);
            if is_own {
                let cluster = view.slot_of(&member).map(|(cluster, _)| cluster.name.clone());
                self.book.hear_server(&member, cluster.as_ref(), tally, heard);
            }
        }
        for (router, tally) in figures.routers {
            if let Some(said) = report.routers.iter().find(|said| said.router == router) {
                self.book.hear_router(&router, &said.view, tally, heard);
            }
        }
    }

    /// Forgets a router that has left.
    pub(crate) fn forget_router(&mut self, router: &RouterId) {
        self.book.forget_router(router);
    }

    /// Forgets, now and then, servers and clusters that are no more, and what is not heard of any more.
    pub(crate) fn forget_old(&mut self, view: &FleetView, now: Now) {
        if now.ms() < self.forget_at_ms {
            return;
        }
        self.forget_at_ms = now.ms() + FORGET_EVERY_MS;
        self.book.keep_servers(|member| view.inventory().get(member).is_some());
        let content = view.current().map(|current| &current.content);
        self.book.keep_sums(
            |cluster| content.is_some_and(|content| content.cluster(cluster).is_some()),
            |view| content.is_some_and(|content| content.views.iter().any(|one| one.name == *view)),
        );
        self.book.forget_old(now);
    }

    #[cfg(test)]
    pub(crate) fn hear_for_tests(
        &mut self,
        member: &str,
        tally: fleet::figures::MemberTally,
        heard: HeardTurn,
    ) {
        self.book.hear_server(&member.parse().expect("a name"), None, tally, heard);
    }

    /// What is known.
    pub(crate) fn book(&self) -> &FigureBook {
        &self.book
    }

    /// The last point of a server, in a few fields; `now` tells its age.
    pub(crate) fn brief(&self, member: &MemberId, now: Now) -> Option<serde_json::Value> {
        let point = self.book.server(member)?.latest();
        let rates = point.server();
        let fields = [
            ("requests_per_s", rates.requests_per_s),
            ("hit_ratio", rates.hit_ratio()),
            ("memory_share", rates.memory_share()),
            ("evictions_per_s", rates.evictions_per_s),
            ("service_p99_us", rates.service_p99_us),
            ("age_s", Some((now.ms() / 1000).saturating_sub(point.at_s().into()) as f64)),
        ];
        let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
        Some(serde_json::Value::Object(known.collect()))
    }
}
