//! The role of this controller at one switch (OpenFlow 1.3.5, section 6.3.6).
//!
//! Of two controllers with the same owner, both would write the same rules and delete each other's.
//! A controller therefore requests to be the *master* of each switch. A switch has one master; the
//! former one becomes a *slave*, whose changes it refuses. The instance that connects first to a
//! switch after its start takes over, whatever its clock says: if the switch knows a later
//! generation, the controller asks for it and continues from there. A controller that has lost a
//! switch in this way does not fight for it.

use openflow::{ControllerRole, ErrorKind, Message, Role, RoleRequestFailed, Xid};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoleElection {
    generation: u64,
    /// Whether the controller takes over from a controller with a later generation.
    may_take_over: bool,
    /// Transaction number of the outstanding request.
    xid: Option<Xid>,
    is_slave: bool,
}

impl RoleElection {
    pub(crate) fn new(generation: u64, may_take_over: bool) -> RoleElection {
        RoleElection { generation, may_take_over, xid: None, is_slave: false }
    }
    pub(crate) fn is_slave(&self) -> bool {
        self.is_slave
    }
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
    pub(crate) fn request(&self) -> Message {
        Message::RoleRequest(Role { role: ControllerRole::Master, generation: self.generation })
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
        if role.role == ControllerRole::Master {
            self.is_slave = false;
            return None;
        }
        // The reply to the question which generation is the latest.
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
        if !std::mem::take(&mut self.may_take_over) {
            self.is_slave = true;
            return Ok(None);
        }
        Ok(Some(Message::RoleRequest(Role { role: ControllerRole::NoChange, generation: 0 })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: ErrorKind = ErrorKind::RoleRequestFailed(RoleRequestFailed::Stale);

    fn role(role: ControllerRole, generation: u64) -> Role {
        Role { role, generation }
    }

    #[test]
    fn first_connection_takes_over_from_a_later_generation_and_later_ones_do_not() {
        let mut election = RoleElection::new(5, true);
        assert_eq!(election.request(), Message::RoleRequest(role(ControllerRole::Master, 5)));
        election.requested(Xid(1));
        let asked = election.rejected(Xid(1), STALE);
        assert_eq!(asked, Ok(Some(Message::RoleRequest(role(ControllerRole::NoChange, 0)))));
        election.requested(Xid(2));
        let again = election.replied(Xid(2), role(ControllerRole::Equal, 9));
        assert_eq!(again, Some(Message::RoleRequest(role(ControllerRole::Master, 10))));
        election.requested(Xid(3));
        assert_eq!(election.replied(Xid(3), role(ControllerRole::Master, 10)), None);
        assert!(!election.is_slave());

        let mut later = RoleElection::new(10, false);
        later.requested(Xid(1));
        assert_eq!((later.rejected(Xid(1), STALE), later.is_slave()), (Ok(None), true));
    }

    #[test]
    fn switch_without_roles_gives_full_access() {
        let mut election = RoleElection::new(5, true);
        election.requested(Xid(1));
        let error = ErrorKind::BadRequest(openflow::BadRequest::BadType);
        assert_eq!(election.rejected(Xid(2), error), Err(()), "an error of another request");
        assert_eq!((election.rejected(Xid(1), error), election.is_slave()), (Ok(None), false));
    }
}
