//! Hearing: what agents, probes, other controllers and the register say goes to the parts that it is about.

use std::collections::BTreeSet;
use std::time::Duration;

use admin::api::ApiReply;
use fleet::health::{ProbeOutcome, ProbeRound};
use fleet::{HostId, MemberId, RouterId};
use serde_json::json;
use stdx::clock::Now;

use crate::controller::Controller;
use crate::controller::answers::replies::document;
use crate::liveness::LivenessReport;
use crate::probe::ProbeResult;
use crate::service::turn::TurnReport;

impl Controller {
    /// Takes a turn, which another controller has passed on if it is not direct. One that was overtaken by a later one of
    /// the same agent says nothing new.
    pub(crate) fn on_turn(&mut self, mut report: TurnReport, is_direct: bool) {
        let (host, figures) = (report.host.clone(), report.take_figures());
        self.tuning.hear(&mut report);
        let Some(taken) = self.agents.take(report, is_direct, self.now) else { return };
        let Some(record) = self.agents.get(&host) else { return };
        if is_direct {
            self.peers.pass_on(record.report(), &figures);
        } else {
            self.tuning.want(record.report());
            if taken.was_direct {
                self.seats.remove(&host);
            }
        }
        for router in taken.left {
            self.drains.leave(router.clone(), self.now);
            self.rollout.leave(router, self.now);
        }
        self.health.hear(record.report(), self.register.view(), self.now);
        self.rollout.hear(record, self.register.target(), self.now);
        self.agents.hear_figures(&host, figures, self.register.view(), self.now);
        self.hear_of_changes(&host);
        self.give_orders(&host);
    }

    /// Finds agents that have not been heard for a while.
    pub(crate) fn find_silent(&mut self) {
        for (router, since) in self.agents.find_silent(&self.settings.health, self.now) {
            self.rollout.hear_silent(router, since, self.now);
        }
    }

    /// Takes a probe of this controller's own.
    pub(crate) fn on_probe(&mut self, result: ProbeResult) {
        if self.register.view().inventory().get(&result.member).is_none() {
            return;
        }
        if result.answer.is_err() {
            self.recall_agent_of(&result.member);
        }
        let late = Duration::from_millis(self.settings.health.probe_late_ms);
        if self.probes.take(result, late, self.now) {
            self.health.pass_soon(self.now);
        }
    }

    /// Recalls the agent beside a member that does not answer, if it takes its turns here: whether a host lives is known from its
    /// agent sooner than its turn ends. One that lives comes again within milliseconds; one that does not is silent after
    /// [`agent_return_ms`](fleet::health::HealthThresholds::agent_return_ms). Members without a slot are not missed, so nobody
    /// hurries because of them.
    fn recall_agent_of(&mut self, member: &MemberId) {
        if !self.health.is_watched(member) {
            return;
        }
        let member = self.register.view().inventory().get(member);
        let Some(host) = member.map(|member| member.host.clone()) else { return };
        if self.agents.recall(&host, self.now) {
            self.seats.recall(&host);
            self.peers.tell_recalled(&host);
            self.expect(&host, self.now);
        }
    }

    fn expect(&mut self, host: &HostId, since: Now) {
        if let Some(record) = self.agents.get(host) {
            self.health.expect(record, since);
        }
    }

    /// Takes what another controller has heard.
    pub(crate) fn on_liveness(&mut self, report: LivenessReport) -> ApiReply {
        if !self.peers.note_heard(&report.controller, self.now) {
            return document("this is that controller\n".to_owned(), json!({"is_self": true}));
        }
        self.tuning.hear_bodies(report.bodies);
        for turn in report.turns {
            self.on_turn(turn, false);
        }
        for asked in report.asks {
            let is_news = self.tuning.follow(asked, self.now);
            self.orders.if_so(is_news);
        }
        for host in &report.recalled {
            // It takes its turns there.
            if let Some(since) = self.agents.expect(host, self.now) {
                self.expect(host, since);
            }
        }
        if let Some(probes) = report.probes {
            let late: BTreeSet<MemberId> = probes.late.into_iter().collect();
            let outcome = |(member, is_answered): (MemberId, bool)| {
                let outcome = match is_answered {
                    true if late.contains(&member) => ProbeOutcome::Late,
                    true => ProbeOutcome::Answered,
                    false => ProbeOutcome::Failed,
                };
                (member, outcome)
            };
            let outcomes: Vec<(MemberId, ProbeOutcome)> = probes.outcomes.into_iter().map(outcome).collect();
            let (prober, zone) = (&report.controller, &report.zone);
            let (asked, answered) = (probes.asked, probes.answered);
            let round = ProbeRound { prober, zone, asked, answered, outcomes: &outcomes };
            self.health.take_round(&round, self.now);
        }
        document(String::new(), json!({"is_self": false, "lacks": self.tuning.take_wanted()}))
    }

    /// Reads the register, and follows what others have published.
    pub(crate) fn read(&mut self) {
        let Some(news) = self.register.read(self.now) else { return };
        if news.has_new_members {
            self.probes.note_new_members();
        }
        self.orders.if_so(news.has_new_members);
        self.follow_records();
        self.probes.keep_those_of(self.register.view().inventory());
        if let Some(before) = news.target_before {
            self.begin_rollout(before);
        } else if news.has_new_members {
            self.health.follow_target(&self.register, (self.now, self.unix_s));
        }
        self.rollout.follow_word(self.register.view().rollout_word(), self.now);
        self.follow_changes();
        self.register.note_followed(self.now);
    }

    /// Follows what the register has beside policy, members and generations: failures, hosts that have left, lists of routers.
    pub(crate) fn follow_records(&mut self) {
        self.failures.follow(self.register.view().condemned());
        self.health.follow_quarantine(self.register.view().quarantine(), self.now);
        let forgotten = self.agents.follow_gone(self.register.view().gone());
        self.forget_hosts(forgotten);
        self.follow_router_lists();
    }

    /// Hosts have left, with these routers.
    pub(crate) fn forget_hosts(&mut self, hosts: Vec<(HostId, Vec<RouterId>)>) {
        for (host, routers) in hosts {
            self.seats.remove(&host);
            for router in routers {
                self.rollout.leave(router, self.now);
            }
        }
    }

    /// Reads the register before somebody is told how it is, unless that was just done.
    pub(crate) fn read_for_people(&mut self) {
        if self.register.is_old(self.now) {
            self.read();
        }
    }
}
