//! The role of this controller at one switch (OpenFlow 1.3.5, section 6.3.6).
//!
//! Of two controllers with the same owner, both would write the same rules and delete each other's.
//! A controller therefore requests to be the *master* of each switch. A switch has one master; the
//! former one becomes a *slave*, whose changes it refuses. An instance that connects to a switch for
//! the first time takes over, regardless of its clock: it asks the switch for the latest generation
//! and requests the next one. An instance that the switch has demoted does not fight for it: when it
//! connects again, its generation is stale, and it stays a slave. A stale generation alone is no
//! evidence of another instance, because it may come from another device that presented the same
//! datapath id: an instance that was never demoted takes over once more.

use openflow::{ControllerRole, ErrorKind, Message, Role, RoleRequestFailed, Xid};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoleElection {
    generation: u64,
    /// Whether the controller takes over from any other one, and must first ask for the latest
    /// generation.
    must_ask: bool,
    /// Whether the controller takes over if its generation is stale.
    may_retry: bool,
    /// Transaction number of the outstanding request.
    xid: Option<Xid>,
    is_slave: bool,
}

impl RoleElection {
    /// Returns the election of an instance that takes over.
    pub(crate) fn first() -> RoleElection {
        RoleElection { generation: 0, must_ask: true, may_retry: false, xid: None, is_slave: false }
    }
    /// Returns the election of an instance that had this generation before, and was demoted since or
    /// not.
    pub(crate) fn again(generation: u64, was_demoted: bool) -> RoleElection {
        RoleElection { generation, must_ask: false, may_retry: !was_demoted, xid: None, is_slave: false }
    }
    pub(crate) fn is_slave(&self) -> bool {
        self.is_slave
    }
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
    pub(crate) fn request(&self) -> Message {
        Message::RoleRequest(match self.must_ask {
            true => Role { role: ControllerRole::NoChange, generation: 0 },
            false => Role { role: ControllerRole::Master, generation: self.generation },
        })
    }
    pub(crate) fn requested(&mut self, xid: Xid) {
        self.xid = Some(xid);
    }
    /// Handles a refusal by the switch because it has another master.
    pub(crate) fn demoted(&mut self) {
        self.is_slave = true;
    }

    /// Handles a reply. Returns the next request, if one is needed.
    pub(crate) fn replied(&mut self, xid: Xid, role: Role) -> Option<Message> {
        self.xid.take_if(|sent| *sent == xid)?;
        if !std::mem::take(&mut self.must_ask) {
            self.is_slave = false;
            return None;
        }
        // A switch that knows no generation reports the largest number.
        self.generation = role.generation.wrapping_add(1);
        Some(self.request())
    }

    /// Handles an error. Returns the next request, if one is needed; `Err` if the error is not a
    /// reply to a request of a role.
    pub(crate) fn rejected(&mut self, xid: Xid, error: ErrorKind) -> Result<Option<Message>, ()> {
        self.xid.take_if(|sent| *sent == xid).ok_or(())?;
        if error != ErrorKind::RoleRequestFailed(RoleRequestFailed::Stale) {
            return Ok(None); // The switch has no roles: every controller has full access.
        }
        if std::mem::take(&mut self.may_retry) {
            self.must_ask = true;
            return Ok(Some(self.request()));
        }
        self.is_slave = true;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: ErrorKind = ErrorKind::RoleRequestFailed(RoleRequestFailed::Stale);

    fn role(role: ControllerRole, generation: u64) -> Role {
        Role { role, generation }
    }

    /// Elects an instance at a switch that knows this generation, and returns its election.
    fn elected(latest: u64) -> RoleElection {
        let mut election = RoleElection::first();
        assert_eq!(election.request(), Message::RoleRequest(role(ControllerRole::NoChange, 0)));
        election.requested(Xid(1));
        let next = election.replied(Xid(1), role(ControllerRole::Equal, latest));
        let generation = latest.wrapping_add(1);
        assert_eq!(next, Some(Message::RoleRequest(role(ControllerRole::Master, generation))));
        election.requested(Xid(2));
        assert_eq!(election.replied(Xid(2), role(ControllerRole::Master, generation)), None);
        assert!(!election.is_slave());
        election
    }

    #[test]
    fn each_instance_has_a_later_generation_than_the_previous_one() {
        let first = elected(u64::MAX);
        let second = elected(first.generation());
        assert_eq!([first.generation(), second.generation()], [0, 1]);
        // The first one connects again: the switch refuses a stale generation.
        let mut again = RoleElection::again(first.generation(), true);
        assert_eq!(again.request(), Message::RoleRequest(role(ControllerRole::Master, 0)));
        again.requested(Xid(1));
        assert_eq!((again.rejected(Xid(1), STALE), again.is_slave()), (Ok(None), true));
    }

    #[test]
    fn instance_that_was_not_demoted_takes_over_from_a_later_generation() {
        let mut again = RoleElection::again(0, false);
        again.requested(Xid(1));
        let ask = Message::RoleRequest(role(ControllerRole::NoChange, 0));
        assert_eq!((again.rejected(Xid(1), STALE), again.is_slave()), (Ok(Some(ask)), false));
        again.requested(Xid(2));
        let next = Message::RoleRequest(role(ControllerRole::Master, 6));
        assert_eq!(again.replied(Xid(2), role(ControllerRole::Equal, 5)), Some(next));
        again.requested(Xid(3));
        assert_eq!((again.rejected(Xid(3), STALE), again.is_slave()), (Ok(None), true), "another one was faster");
    }

    #[test]
    fn switch_without_roles_gives_full_access() {
        let mut election = RoleElection::first();
        election.requested(Xid(1));
        let error = ErrorKind::BadRequest(openflow::BadRequest::BadType);
        assert_eq!(election.rejected(Xid(2), error), Err(()), "an error of another request");
        assert_eq!((election.rejected(Xid(1), error), election.is_slave()), (Ok(None), false));
    }
}
