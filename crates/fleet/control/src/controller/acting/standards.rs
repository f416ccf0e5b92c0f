//! Standards of hosts: which hosts may be tuned now is in the audit log before they are told.

use fleet::HostId;
use serde_json::json;
use stdx::escape;
use stdx::log_level::LogLevel;

use crate::audit::{AuditReach, WHY_LEN_MAX};
use crate::controller::Controller;
use crate::controller::answers::replies::document;
use crate::controller::audit_trail::AuditAct;
use crate::controller::changes::HostsNow;
use crate::controller::tuning::standards::NewGrant;
use crate::service::access::controller_of;
use crate::service::authorise::ControlVerb;

impl Controller {
    /// Tells hosts which standard they shall have, and which of them may act.
    pub(crate) fn follow_standards(&mut self) {
        let (view, agents) = (self.register.view(), &self.agents);
        // Without the register, it is not known what is frozen now.
        let hosts_now = self.register.away().is_none().then(|| HostsNow::new(view, agents, &self.health));
        let (standards, changes) = (&mut self.tuning.standards, &self.tuning.changes);
        let looked = standards.look((view, agents), changes, hosts_now.as_ref(), self.now);
        let Some((orders, new)) = looked else { return };
        let refused: Vec<HostId> = new.into_iter().filter_map(|grant| self.record_grant(grant)).collect();
        for host in self.tuning.standards.tell(orders, &refused, self.now) {
            self.give_orders(&host);
        }
    }

    /// Records that a host may act; the host, if that cannot be recorded.
    fn record_grant(&mut self, NewGrant { host, why }: NewGrant) -> Option<HostId> {
        let own = controller_of(&self.settings.fleet, self.settings.host.as_str());
        let why = escape::line(&why);
        let why = &why[..why.floor_char_boundary(WHY_LEN_MAX)];
        let (verb, reach) = (ControlVerb::ChangeApply, AuditReach::Nothing);
        let act = AuditAct { who: &own, verb, reach, plan: None, why };
        let mut is_done = false;
        let reply = self.recorded(&act, |_| {
            is_done = true;
            document(String::new(), json!({}))
        });
        match is_done {
            true => {
                self.say(LogLevel::Info, why);
                None
            }
            false => {
                self.log.add(format!(
                    "{host} is not tuned, because the audit log does not have it: {}",
                    reply.json
                ));
                Some(host)
            }
        }
    }
}
