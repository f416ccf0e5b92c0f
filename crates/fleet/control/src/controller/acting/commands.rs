//! Commands of people: changes that were planned, freezes, members and hosts, join tokens, and the rollout that is going on.
//!
//! What a person wants of a rollout is kept in the register with the generation's number, so that all controllers do the same,
//! and one that is started again as well. A later generation makes it void.

use admin::api::ApiReply;
use fleet::health::{GuardScope, Quarantined};
use fleet::{FleetMember, HostId, MemberId};
use serde_json::{Value, json};
use stdx::log_level::LogLevel;

use crate::controller::Controller;
use crate::controller::answers::first_certificates::first_hosts;
use crate::controller::answers::replies::{document, refusal, register_away};
use crate::controller::answers::signing::JoinOutcome;
use crate::controller::slots::freezes::frozen_by;
use crate::decisions::{GoneHost, HeldRecord, RolloutWord};
use crate::identity::FleetIdentity;
use crate::identity::join_token::TokenTerms;
use crate::service::questions::{CertifyQuestion, ChangeQuestion, FreezeScope, JoinQuestion, RolloutAct};

impl Controller {
    /// The policy in force, as it was given.
    pub(crate) fn policy(&self) -> ApiReply {
        match self.register.policy_text() {
            Ok(Some(text)) => document(text.clone(), json!({"policy": text})),
            Ok(None) => refusal(
                404,
                "the fleet has no policy\n  hint: `control plan --policy FILE --apply --why …` gives it one",
            ),
            Err(error) => register_away(&error),
        }
    }

    /// Carries a change out, if it is the plan of this name.
    pub(crate) fn apply(
        &mut self,
        change: &ChangeQuestion,
        name: &str,
        by: (&FleetIdentity, &str),
    ) -> ApiReply {
        let checked = match self.planner().checked(change) {
            Ok(checked) => checked,
            Err(reply) => return reply,
        };
        if checked.name != name {
            return refusal(409, "the plan is not the one that was shown: the fleet has changed meanwhile");
        }
        if let Some(reply) = frozen_by(self.register.view(), &checked.plan.content) {
            return reply;
        }
        if let Some(text) = &checked.policy {
            // A failure below leaves the policy in force for the next plan.
            match self.register.set_policy(text, self.now) {
                Ok(true) => {}
                Ok(false) => return self.overtaken(),
                Err(error) => return register_away(&error),
            }
        }
        if !checked.is_published
            && let Err(reply) = self.put_in_force(checked.plan.content, by)
        {
            return reply;
        }
        // The next plan is made from this policy, also if it comes at once.
        if checked.policy.is_some() && checked.members.is_empty() {
            self.read();
        }
        // Only now: a member that is known and has no slot would be emptied.
        if !checked.members.is_empty()
            && let Err(reply) = self.write_adopted(&checked.members)
        {
            return reply;
        }
        let number = self.register.target().expect("it is in force");
        let text = format!("generation {number} is in force; its routers get it now\n");
        document(text, json!({"generation": number}))
    }

    /// Writes the members of an adoption, whose generation is in force.
    fn write_adopted(&mut self, members: &[FleetMember]) -> Result<(), ApiReply> {
        self.write_members(members, &[]).map_err(|reply| {
            let json: Value = serde_json::from_str(&reply.json).unwrap_or_default();
            let why = json["error"].as_str().unwrap_or_default();
            let error = format!("the generation is in force, but not all of its members are written: {why}");
            let hint = "adopt the same file again: that writes the members that are missing";
            refusal(reply.status, &format!("{error}\n  hint: {hint}"))
        })?;
        // Until they are known here, the same file could be adopted again.
        self.read();
        Ok(())
    }

    /// Does what a person wants.
    pub(crate) fn on_rollout_act(&mut self, act: RolloutAct, by: (&FleetIdentity, &str)) -> ApiReply {
        let Some(number) = self.register.target() else { return refusal(409, "there is no generation yet") };
        if act == RolloutAct::Abandon {
            return self.abandon(by);
        }
        if self.rollout.has_failed() && act != RolloutAct::Halt {
            return refusal(
                409,
                &format!(
                    "the text of generation {number} has ended or failed in a router, and no other one gets it\n  hint: `control rollout \
                     abandon --why …`, or another change"
                ),
            );
        }
        let (known, revision) = match self.register.rollout_word() {
            Ok((word, revision)) => {
                let view = self.register.view();
                let word = word.filter(|word| view.is_about_target(word.generation));
                (word.map(|word| RolloutWord { generation: number, ..word }), revision)
            }
            Err(error) => return register_away(&error),
        };
        let mut word = known.unwrap_or(RolloutWord::none(number));
        if act == RolloutAct::Halt {
            word.halted = Some(by.1.to_owned());
        } else {
            word.halted = None;
            word.is_hurried |= act == RolloutAct::Hurry;
            word.excused.extend(self.rollout.failing());
        }
        match self.register.set_rollout_word(&word, revision) {
            Ok(true) => {}
            Ok(false) => return self.overtaken(),
            Err(error) => return register_away(&error),
        }
        self.rollout.follow_word(self.register.view().rollout_word(), self.now);
        self.give_new_orders();
        let without = word.excused.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let without =
            if without.is_empty() { without } else { format!(", whatever these routers do: {without}") };
        let text = match act {
            RolloutAct::Halt => format!("no further router gets generation {number}\n"),
            RolloutAct::Hurry => {
                format!("generation {number} goes on without the time of its waves{without}\n")
            }
            _ => format!("generation {number} goes on{without}\n"),
        };
        document(text, json!({"generation": number, "excused": word.excused}))
    }

    /// Gives routers what all of them have had, with the members that slots have now.
    fn abandon(&mut self, by: (&FleetIdentity, &str)) -> ApiReply {
        let number = self.register.target().expect("there is a generation");
        if self.rollout.is_rolled_out() || self.rollout.settled(self.register.view()) >= Some(number) {
            let hint = "`control rollback N` puts the routes of an earlier one in force";
            return refusal(409, &format!("all routers have generation {number}\n  hint: {hint}"));
        }
        let Some(before) = self.rollout.base_of_target(self.register.view()) else {
            return refusal(
                409,
                &format!(
                    "there is no generation before {number} that all routers have had, so nothing to go back to\n  hint: `control plan \
                     --policy FILE` makes another one"
                ),
            );
        };
        if before
            .content
            .clone()
            .with_members_of(&self.register.view().content())
            .member_of_two_slots()
            .is_some()
        {
            let (hint, before) = ("`control plan --policy FILE` makes another one", before.number);
            return refusal(
                409,
                &format!(
                    "generation {before} has a slot whose member has another one since, so its routes cannot come back\n  hint: {hint}"
                ),
            );
        }
        let (content, given_up) = self.rollout.ground(self.register.view());
        if given_up.is_none() {
            let hint = "`control rollout hurry`, `control drain MEMBER --cancel`, `control scale CLUSTER --cancel`, or `control replace` with another member";
            return refusal(
                409,
                &format!(
                    "generation {number} changes nothing but who has which slot, and a slot goes on and not back\n  hint: {hint}"
                ),
            );
        }
        if let Some(reply) = frozen_by(self.register.view(), &content) {
            return reply;
        }
        if let Err(reply) = self.put_in_force(content, by) {
            return reply;
        }
        let new = self.register.target().expect("it is in force");
        let text =
            format!("generation {number} is given up: generation {new} has the routes that were before it\n");
        document(text, json!({"generation": new, "given_up": number}))
    }

    /// Freezes a scope, or puts a member or host into quarantine.
    pub(crate) fn freeze(&mut self, scope: &FreezeScope, why: &str) -> ApiReply {
        if let FreezeScope::Quarantine(whose) = scope {
            return self.hold_by_hand(whose, why);
        }
        let scope = scope.to_string();
        match self.register.freeze(&scope, why) {
            Ok(true) => document(format!("{scope} is frozen\n"), json!({"scope": scope})),
            Ok(false) => self.overtaken(),
            Err(error) => register_away(&error),
        }
    }

    /// Lets a scope change again, or ends a quarantine.
    pub(crate) fn thaw(&mut self, scope: &FreezeScope, _why: &str) -> ApiReply {
        let guarded = match scope {
            FreezeScope::Fleet => GuardScope::Fleet,
            FreezeScope::Cluster(name) => GuardScope::Cluster(name.clone()),
            FreezeScope::Zone(name) => GuardScope::Zone(name.clone()),
            FreezeScope::Quarantine(whose) => return self.release_by_hand(whose),
        };
        let scope = scope.to_string();
        match self.register.thaw(&scope) {
            Ok(was_frozen) => {
                // What the guard has frozen is thawed, too: a person has looked.
                let was_frozen = was_frozen | self.health.thaw(&guarded, self.now);
                let words = if was_frozen { "may change again" } else { "was not frozen" };
                document(format!("{scope} {words}\n"), json!({"scope": scope, "was_frozen": was_frozen}))
            }
            Err(error) => register_away(&error),
        }
    }

    /// Puts a member or host into quarantine, as a person asks.
    fn hold_by_hand(&mut self, whose: &Quarantined, why: &str) -> ApiReply {
        let record = HeldRecord { whose: whose.clone(), reason: why.to_owned() };
        let dropped = match self.register.hold(std::slice::from_ref(&record)) {
            Ok(dropped) => dropped,
            Err(error) => return register_away(&error),
        };
        self.health.note_kept(vec![record], &dropped).into_iter().for_each(|line| self.log.add(line));
        if !self.health.hold(whose, why, self.now) {
            return refusal(409, "the quarantine is full\n  hint: `control thaw` lets members and hosts go");
        }
        document(format!("{whose} is in quarantine\n"), json!({"scope": whose.to_string()}))
    }

    /// Ends a quarantine, as a person asks.
    pub(crate) fn release_by_hand(&mut self, whose: &Quarantined) -> ApiReply {
        let released = self.register.release(whose);
        if let Err(error) = released {
            return register_away(&error);
        }
        let was_held = self.health.release(whose);
        let words = if was_held { "may take a slot again" } else { "was not in quarantine" };
        document(format!("{whose} {words}\n"), json!({"scope": whose.to_string(), "was_frozen": was_held}))
    }

    /// Shows what would change; carries it out if it shall.
    pub(crate) fn change_members(
        &mut self,
        members: &[FleetMember],
        remove: &[MemberId],
        hosts: &[HostId],
        carry_out: bool,
    ) -> ApiReply {
        let planned = self.planner().leaving(members, remove, hosts).and_then(|leaving| {
            let mut steps = self.planner().member_steps(members, &leaving)?;
            steps.extend(self.planner().agent_steps(members));
            Ok((leaving, steps))
        });
        let (leaving, mut steps) = match planned {
            Ok(planned) => planned,
            Err(reply) => return reply,
        };
        steps.extend(hosts.iter().map(|host| format!("{host} leaves: what its agent has said is forgotten")));
        if carry_out {
            let written = self.write_members(members, &leaving).and_then(|()| self.write_gone(hosts));
            if let Err(reply) = written {
                return reply;
            }
        }
        let lines: Vec<&str> = steps.iter().map(String::as_str).collect();
        let text = if lines.is_empty() { "nothing to do\n".to_owned() } else { lines.join("\n") + "\n" };
        document(text, json!({"steps": steps, "is_done": carry_out}))
    }

    /// Has every controller forget these hosts, this one at once.
    fn write_gone(&mut self, hosts: &[HostId]) -> Result<(), ApiReply> {
        if hosts.is_empty() {
            return Ok(());
        }
        let gone = |host: &HostId| GoneHost { host: host.clone(), unix_s: self.unix_s };
        let gone: Vec<GoneHost> = hosts.iter().map(gone).collect();
        self.register.note_gone(&gone).map_err(|error| register_away(&error))?;
        let forgotten = self.agents.note_gone(&gone);
        self.forget_hosts(forgotten);
        Ok(())
    }

    fn write_members(&mut self, members: &[FleetMember], remove: &[MemberId]) -> Result<(), ApiReply> {
        match self.register.write_members(members, remove, self.now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.overtaken()),
            Err(error) => Err(register_away(&error)),
        }
    }

    /// Makes a join token, which is shown once.
    pub(crate) fn issue_token(&mut self, terms: &TokenTerms) -> ApiReply {
        let outcome = self.signing.issue_token(terms, &self.settings.fleet, &self.register);
        self.replied(outcome)
    }

    /// Signs a newcomer's first certificate.
    pub(crate) fn join(&mut self, question: &JoinQuestion) -> ApiReply {
        let outcome = self.signing.join(question, &self.register, &self.log);
        self.replied(outcome)
    }

    /// Signs the first certificate of a server or router, for the agent of its host. As of those that join, the log says so and not the
    /// audit log: an agent that asks without end must not fill that, since nothing is changed without it.
    pub(crate) fn certify(&mut self, question: &CertifyQuestion, who: &FleetIdentity) -> ApiReply {
        let hosts = match first_hosts(question, self.register.view().inventory(), &self.agents) {
            Ok(hosts) => hosts,
            Err(reply) => return reply,
        };
        let (fleet, role, id) = (self.settings.fleet.clone(), question.role, question.id.clone());
        let identity = FleetIdentity { fleet, role, id };
        let reply = self.signing.certify(&identity, &hosts, &question.request);
        if reply.status == 200 {
            let hosts = hosts.join(", ");
            self.say(LogLevel::Info, &format!("{identity} has a certificate for {hosts}, by {}", who.name()));
        }
        reply
    }

    fn replied(&mut self, outcome: JoinOutcome) -> ApiReply {
        match outcome {
            JoinOutcome::Replied(reply) => reply,
            JoinOutcome::Overtaken => self.overtaken(),
        }
    }
}
