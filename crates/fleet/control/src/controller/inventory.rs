//! Changes of the inventory: members that join, change or leave.

use admin::api::ApiReply;
use fleet::{FleetMember, HostId, Inventory, MemberId};
use serde_json::json;

use super::Controller;
use super::replies::{document, refusal, register_away};

impl Controller {
    /// Shows what would change; carries it out if it shall.
    pub(super) fn change_members(
        &mut self,
        members: &[FleetMember],
        remove: &[MemberId],
        hosts: &[HostId],
        carry_out: bool,
    ) -> ApiReply {
        let planned = self.leaving(members, remove, hosts).and_then(|leaving| {
            let steps = self.member_steps(members, &leaving)?;
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

    pub(super) fn member_steps(
        &self,
        members: &[FleetMember],
        remove: &[MemberId],
    ) -> Result<Vec<String>, ApiReply> {
        let (old, mut steps) = (self.register.view().inventory(), Vec::new());
        for member in members {
            let (id, host, address) = (&member.id, &member.host, &member.address);
            match old.get(id) {
                None => steps.push(format!("{id} joins, on {host} at {address}")),
                Some(before) if before == member => {}
                Some(before) if before.address != *address && self.has_slot(id) => {
                    let error = format!("{id} has a slot, and its address would change");
                    let hint = "give the slot to another member first (`control replace`)";
                    return Err(refusal(422, &format!("{error}\n  hint: {hint}")));
                }
                Some(_) => steps.push(format!("{id} changes: on {host} at {address}")),
            }
        }
        for id in remove {
            if old.get(id).is_none() {
                return Err(refusal(404, &format!("there is no member {id}")));
            }
            if self.has_slot(id) || members.iter().any(|member| member.id == *id) {
                let error = format!("{id} has a slot, or shall both stay and leave");
                return Err(refusal(
                    422,
                    &format!("{error}\n  hint: `control replace` gives its slot to another member"),
                ));
            }
            steps.push(format!("{id} leaves"));
        }
        // The whole must be an inventory: two members at one address are one member.
        let stays = |one: &&FleetMember| {
            !remove.contains(&one.id) && members.iter().all(|member| member.id != one.id)
        };
        let all: Vec<FleetMember> = old.members().filter(stays).chain(members).cloned().collect();
        match Inventory::new(all) {
            Ok(_) => Ok(steps),
            Err(error) => Err(refusal(422, &error.to_string())),
        }
    }

    fn has_slot(&self, id: &MemberId) -> bool {
        self.register.view().slot_of(id).is_some()
    }

    pub(super) fn write_members(
        &mut self,
        members: &[FleetMember],
        remove: &[MemberId],
    ) -> Result<(), ApiReply> {
        match self.register.write_members(members, remove, self.now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.overtaken()),
            Err(error) => Err(register_away(&error)),
        }
    }
}
