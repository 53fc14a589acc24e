//! Front ends: they forward requests by content, and relay responses.

use net::{HostIx, address};

use super::server::work_at;
use super::{RequestConnection, Requests, Role};
use crate::engine::Engine;
use crate::queue::{NIL, put_free};
use crate::services::{ContentConfig, Forwarding};

/// Bit of a job's number at a processor: it relays a piece of a response.
pub(super) const PIECE: u32 = 1 << 31;

/// A job that a processor has finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Done {
    Job(u32),
    /// A number of segments for the client of a front connection.
    Piece(u32, u32),
}

impl RequestConnection {
    pub(super) fn new(role: Role, (request, class): (u32, u32), client_port: u16, opened_at: u64) -> RequestConnection {
        RequestConnection {
            request,
            class,
            up: NIL,
            down: NIL,
            server: NIL,
            job: None,
            job_started: 0,
            headers: None,
            is_over: false,
            slots: 0,
            role,
            client_port,
            peer: NIL,
            member: NIL,
            relayed: 0,
            relaying: 0,
            opened_at,
        }
    }
}

impl Requests<'_> {
    pub(super) fn add(&mut self, connection: RequestConnection) -> u32 {
        self.counts.opened += 1;
        put_free(&mut self.connections, &mut self.free, connection)
    }

    fn content_of(&self, connection: u32) -> Option<&ContentConfig> {
        let class = &self.config.classes[self.connections[connection as usize].class as usize];
        self.config.services[class.service as usize].content.as_ref()
    }

    fn role_of(&self, connection: u32) -> Role {
        self.connections[connection as usize].role
    }

    /// Returns whether a connection is the front of a request that is relayed.
    pub(super) fn is_spliced(&self, connection: u32) -> bool {
        let is_splice = |content: &ContentConfig| content.forwarding == Forwarding::Splice;
        self.role_of(connection) == Role::Front && self.content_of(connection).is_some_and(is_splice)
    }

    /// Returns whether a connection carries the page to the client.
    pub(super) fn carries_page(&self, connection: u32) -> bool {
        match self.role_of(connection) {
            Role::Plain | Role::Redirected => true,
            Role::Front => self.is_spliced(connection),
            Role::Back => false,
        }
    }

    /// Returns the processor time of a complete request, picoseconds of a core of speed 1.
    pub(super) fn core_time(&self, connection: u32) -> u64 {
        let class = &self.config.classes[self.connections[connection as usize].class as usize];
        let front = self.content_of(connection).filter(|_| self.role_of(connection) == Role::Front);
        front.map_or(class.cpu, |content| content.connection_time).as_ps()
    }

    pub(super) fn response_bytes(&self, connection: u32) -> u64 {
        let page = self.config.classes[self.connections[connection as usize].class as usize].page_bytes;
        if self.carries_page(connection) || self.role_of(connection) == Role::Back {
            return page;
        }
        self.content_of(connection).map_or(page, |content| content.redirect_bytes)
    }

    /// Returns the host that opened a connection, if that is a front end.
    pub(super) fn client_of(&self, connection: u32) -> Option<u32> {
        let t = &self.connections[connection as usize];
        let front = self.connections.get(t.peer as usize).filter(|_| t.role == Role::Back)?;
        Some(self.servers[front.server as usize].host)
    }

    /// Returns the request as the balancer of a front end receives it.
    fn described(&self, front: u32, client: HostIx) -> balance::server::Request {
        let t = &self.connections[front as usize];
        let class = &self.config.classes[t.class as usize];
        let service = &self.config.services[class.service as usize];
        let (src, dst) = (address::host_ipv4(client), service.address);
        let tuple = net::FiveTuple { src, dst, protocol: 6, src_port: t.client_port, dst_port: service.port };
        let (edge, at) =
            (self.front_ends.edge_of(self.servers[t.server as usize].host), net::Time::from_ps(t.opened_at));
        balance::server::Request { tuple, edge, size: None, at }
    }

    /// Closes the other connection of a spliced request. Returns whether it was open.
    pub(super) fn finish_peer(&mut self, now: u64, connection: u32) -> bool {
        let RequestConnection { peer, role, .. } = self.connections[connection as usize];
        let is_peer = self.connections.get(peer as usize).is_some_and(|other| other.peer == connection);
        matches!(role, Role::Front | Role::Back) && is_peer && self.finish(now, peer, false)
    }

    /// Reports to the balancer of a front end that the connection to its member has ended.
    pub(super) fn report_end(&mut self, now: u64, front: u32, client: HostIx, bytes: u64) {
        let described = self.described(front, client);
        let RequestConnection { server, class, member, .. } = self.connections[front as usize];
        self.front_ends.ended(now, (server, class), &described, (member, bytes));
    }

    /// Adds a piece of a response to the processor of a front end. Returns false if relaying takes no
    /// processor time.
    fn add_piece(&mut self, now: u64, front: u32, segments: u32, bytes: u64) -> bool {
        let Some(rate) = self.content_of(front).and_then(|content| content.relay_rate) else { return false };
        let server = self.connections[front as usize].server as usize;
        let work = work_at(rate.time_for(bytes).as_ps(), self.config.servers[server].speed);
        let piece = put_free(&mut self.pieces, &mut self.free_pieces, (front, segments));
        self.connections[front as usize].relaying += 1;
        self.servers[server].processor.add(now, piece | PIECE, work.max(1));
        true
    }
}

impl Engine<'_> {
    /// Forwards a request that a front end has read.
    pub(super) fn forward_request(&mut self, front: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let RequestConnection { request, class, server, .. } = requests.connections[front as usize];
        let described = requests.described(front, self.list.flows[request as usize].src);
        let Some(member) = requests.front_ends.pick(now, self.topology, (server, class), &described) else {
            // No member may serve it: the front end resets the connection.
            return self.fail_connection(front);
        };
        requests.connections[front as usize].member = member;
        if requests.is_spliced(front) {
            let client = (HostIx(requests.servers[server as usize].host), (request, class));
            let back = self.open_to_member(Role::Back, client, member, front);
            let Some(requests) = &mut self.requests else { return };
            requests.connections[front as usize].peer = back;
            return;
        }
        // A redirector does not see the connection to the member.
        requests.report_end(now, front, self.list.flows[request as usize].src, 0);
        self.answer(front);
    }

    pub(super) fn follow_redirect(&mut self, request: u32, class: u32, member: u32) {
        let client = self.list.flows[request as usize].src;
        self.open_to_member(Role::Redirected, (client, (request, class)), member, NIL);
    }

    /// Opens a connection from a host to a member's own address. Returns it.
    fn open_to_member(&mut self, role: Role, from: (HostIx, (u32, u32)), member: u32, peer: u32) -> u32 {
        let (client, (request, class)) = from;
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return NIL };
        let client_port = requests.next_port(client.0);
        let opened = RequestConnection::new(role, (request, class), client_port, now);
        let connection = requests.add(RequestConnection { server: member, peer, ..opened });
        let serial = requests.next_serial();
        let server = &mut requests.servers[member as usize];
        server.connections += 1;
        server.record.connections += 1;
        let host = HostIx(server.host);
        let kind = &requests.config.classes[class as usize];
        let service = &requests.config.services[kind.service as usize];
        let port = service.member_port.unwrap_or(service.port);
        let slot = self.open_direction(request, client.0, host.0, kind.request_bytes);
        let Some(requests) = &mut self.requests else { return NIL };
        requests.assign(slot, connection);
        requests.connections[connection as usize].up = slot;
        if let Some(controlled) = &mut self.controlled {
            controlled.plain_opened(slot, serial, (client, client_port), (host, port));
        }
        self.begin(slot, self.params.handshake);
        connection
    }

    /// Handles new in-order data of a slot: a front end relays a response.
    pub(crate) fn on_data_arrived(&mut self, slot: u32) {
        let now = self.network.now;
        let mss = u64::from(self.params.mss);
        let Some(requests) = &mut self.requests else { return };
        let Some(back) = requests.connection_of(slot) else { return };
        let RequestConnection { role, down, peer: front, relayed, is_over, opened_at, .. } =
            requests.connections[back as usize];
        if role != Role::Back || slot != down || is_over {
            return;
        }
        let has = self.slots.get_mut(slot).receiver.next;
        if relayed == 0 {
            let RequestConnection { server, class, member, .. } = requests.connections[front as usize];
            requests.front_ends.responded((server, class), member, now - opened_at);
        }
        requests.connections[back as usize].relayed = has;
        let total = requests.response_bytes(back);
        let end = |segments: u32| (u64::from(segments) * mss).min(total);
        let bytes = end(has) - end(relayed);
        if requests.add_piece(now, front, has - relayed, bytes) {
            return self.await_services();
        }
        requests.connections[front as usize].relaying += 1;
        self.on_piece_relayed(front, has - relayed);
    }

    /// Offers relayed segments to the client, in a new slot for the first ones.
    pub(super) fn on_piece_relayed(&mut self, front: u32, segments: u32) {
        let Some(requests) = &mut self.requests else { return };
        let t = &mut requests.connections[front as usize];
        t.relaying -= 1;
        t.relayed += segments;
        if t.is_over {
            return requests.free_if_unused(front);
        }
        match t.down {
            NIL => self.answer(front),
            _ => self.offer_relayed(front),
        }
    }

    pub(super) fn offer_relayed(&mut self, front: u32) {
        let Some(requests) = &self.requests else { return };
        let RequestConnection { down, relayed, .. } = requests.connections[front as usize];
        let slot = self.slots.get_mut(down);
        let is_all = relayed == slot.segments;
        slot.sender.state.offer(relayed, is_all);
        self.pump(down);
    }

    /// Closes the connection to a member whose response the front end has.
    pub(super) fn on_back_complete(&mut self, back: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let RequestConnection { peer: front, .. } = requests.connections[back as usize];
        requests.finish(now, back, true);
        let request = requests.connections[front as usize].request;
        let bytes = requests.response_bytes(back);
        requests.report_end(now, front, self.list.flows[request as usize].src, bytes);
    }
}
