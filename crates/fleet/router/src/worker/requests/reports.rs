//! Reports for clients: `stats`, ordered from another thread.

use std::sync::Arc;

use net::Turn;
use protocol::discovery::DISCOVERY_KEY;
use protocol::reply::line;
use protocol::words::Words;

use crate::client::{HeldOutput, ReplyBytes};
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::reports::desk::{ReadyReport, ReportSubject, SERVICE_PREFIX};
use crate::servers::destination::ReplyTarget;
use crate::slab::Id;
use crate::stats::StatsGroup;
use crate::worker::RouteWorker;

const BAD_STATS: &[u8] = b"CLIENT_ERROR bad stats command\r\n";
const TOO_MANY: &[u8] = b"SERVER_ERROR too many reports are waited for\r\n";

impl RouteWorker {
    /// `stats`, with its arguments.
    pub(crate) fn route_stats(&mut self, client: Id, mut args: Words<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let (name, more) = (args.next().unwrap_or_default(), args.next());
        let group = std::str::from_utf8(name).ok().and_then(StatsGroup::by_name);
        let Some(group) = group.filter(|_| more.is_none()) else {
            return self.answer_now(client, BAD_STATS, turn);
        };
        let target @ ReplyTarget::Slot(..) = self.clients.slot_for(client, false) else { return };
        self.order(ReportSubject::Stats(group), target, turn);
    }

    /// Whether a key is about the router: then its answer is ordered. Only `get` asks so, as in mcrouter.
    #[inline]
    pub(crate) fn is_about_router(
        &mut self,
        operation: Operation,
        key: &[u8],
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> bool {
        let is = operation == Operation::Get && key.starts_with(SERVICE_PREFIX);
        if is {
            self.order(ReportSubject::Service(key.into()), target, turn);
        }
        is || self.shared.settings.discovers
            && operation == Operation::Get
            && key == DISCOVERY_KEY
            && self.tell_members_by_key(target, turn)
    }

    /// `config get cluster`. Without a list, as memcached, which does not know it.
    #[cold]
    pub(crate) fn tell_members(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        match self.shared.discovery().list {
            Some(list) => {
                let mut reply = Vec::new();
                list.config_reply(&mut reply);
                self.answer_now(client, &reply, turn);
            }
            None => self.answer_now(client, line::ERROR, turn),
        }
    }

    /// `get` of the key that stands for the same list. False: there is none.
    #[cold]
    fn tell_members_by_key(&mut self, target: ReplyTarget, turn: &mut Turn<Arc<[u8]>>) -> bool {
        let Some(list) = self.shared.discovery().list else { return false };
        let mut reply = Vec::new();
        list.value(&mut reply);
        if matches!(target, ReplyTarget::Slot(..)) {
            reply.extend_from_slice(line::END);
        }
        self.hand_over(target, Outcome::Found, ReplyBytes::Copied(&reply), turn);
        true
    }

    fn order(&mut self, subject: ReportSubject, target: ReplyTarget, turn: &mut Turn<Arc<[u8]>>) {
        if !self.shared.desk.order(subject, self.number, target) {
            self.hand_over(target, Outcome::LocalError, ReplyBytes::Copied(TOO_MANY), turn);
        }
    }

    /// Hands over reports that are ready.
    #[inline]
    pub(crate) fn take_reports(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        for ReadyReport { target, report } in self.tray.take() {
            let mut output = HeldOutput::default();
            output.copy(&report.head);
            output.hold(report.body);
            output.copy(report.tail);
            if !report.tail.is_empty() && matches!(target, ReplyTarget::Slot(..)) {
                output.copy(b"END\r\n");
            }
            self.hand_over(target, Outcome::Found, ReplyBytes::Gathered(output), turn);
        }
    }

    fn hand_over(
        &mut self,
        target: ReplyTarget,
        outcome: Outcome,
        answer: ReplyBytes<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        match target {
            ReplyTarget::Slot(client, slot) => self.clients.answer(client, slot, answer, turn),
            ReplyTarget::Part(client, slot, part) => {
                self.clients.answer_part((client, slot, part), outcome, answer, turn);
            }
            _ => {}
        }
    }
}
