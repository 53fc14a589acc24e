//! Connections of requests, from the first packet of the client to the last byte of the response.

use net::HostIx;

use super::agents::Report;
use super::bound::{self, Sizes};
use super::content::{Done, PIECE};
use super::server::work_at;
use super::{Progress, RequestConnection, Role};
use crate::engine::{Engine, SERVICES};
use crate::hosts::slots::Slot;
use crate::outcome::FlowEnd;
use crate::packet::PRIORITY_SHIFT;
use crate::queue::NIL;
use crate::timers::NEVER;

impl Engine<'_> {
    pub(crate) fn start_request(&mut self, id: u32) {
        let flow = &self.list.flows[id as usize];
        let (client, class) = (flow.src, flow.group - 1);
        let now = self.network.now;
        let params = &self.params;
        let sizes = Sizes { mss: params.mss.into(), header: params.header.into(), handshake: params.handshake };
        let topology = self.topology;
        let Some(requests) = &mut self.requests else { return };
        let config = requests.config;
        let kind = &config.classes[class as usize];
        let bound = || bound::response(topology, config, kind, client, &sizes);
        let ideal = *requests.bounds.entry((client.0, class)).or_insert_with(bound);
        requests.progress[id as usize] = Progress { pages_left: kind.pages, served_by: None };
        requests.open += 1;
        self.records[id as usize].begin(now);
        self.records[id as usize].ideal = net::Time::from_ps(ideal);
        self.open_connection(id, client, class);
    }

    fn open_connection(&mut self, request: u32, client: HostIx, class: u32) {
        let Some(requests) = &mut self.requests else { return };
        let client_port = requests.next_port(client.0);
        let config = requests.config;
        let kind = &config.classes[class as usize];
        let is_front = config.services[kind.service as usize].content.is_some();
        let role = if is_front { Role::Front } else { Role::Plain };
        let opened_at = self.network.now;
        let connection = requests.add(RequestConnection::new(role, (request, class), client_port, opened_at));
        let serial = requests.next_serial();
        let slot = self.open_direction(request, client.0, NIL, kind.request_bytes);
        let Some(requests) = &mut self.requests else { return };
        requests.assign(slot, connection);
        requests.connections[connection as usize].up = slot;
        if let Some(controlled) = &mut self.controlled {
            controlled.request_opened(slot, serial, (client, client_port), &config.services[kind.service as usize]);
        }
        self.begin(slot, self.params.handshake);
    }

    pub(super) fn open_direction(&mut self, request: u32, src: u32, dst: u32, bytes: u64) -> u32 {
        let (segments, last_bytes) = self.segments_for(bytes);
        let (started, priority) = (self.network.now, self.params.priority_of(bytes) << PRIORITY_SHIFT);
        // OpenFlow switches route nothing by class or hash.
        let known = Slot { id: request, connection: NIL, src, dst, started, ..Slot::default() };
        let flow = Slot { segments, last_bytes, priority, is_sending: true, is_receiving: true, ..known };
        self.slots.open(flow, &self.params, 0)
    }

    /// Handles a packet for a virtual address at a host, perhaps the first one at its server.
    pub(crate) fn arrive_at_server(&mut self, node: u32, ix: u32) -> bool {
        let packet = self.network.arena.get_mut(ix);
        let (flow, is_first) = (packet.flow, packet.dst == NIL);
        let (Some(requests), Some(controlled)) = (&mut self.requests, &mut self.controlled) else { return false };
        let server = requests.server_of_host[node as usize];
        let Some(connection) = requests.connection_of(flow) else { return false };
        let known = &mut requests.connections[connection as usize];
        let is_taken = known.server != NIL && known.server != server;
        if !is_first || server == NIL || is_taken || !controlled.reach_server(packet, HostIx(node)) {
            return false;
        }
        if known.server == NIL && !known.is_over {
            known.server = server;
            let server = &mut requests.servers[server as usize];
            server.connections += 1;
            server.record.connections += 1;
        }
        self.slots.get_mut(flow).dst = node;
        true
    }

    pub(crate) fn on_data_complete(&mut self, slot: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let Some(connection) = requests.connection_of(slot) else { return };
        let RequestConnection { up, server, is_over, role, .. } = requests.connections[connection as usize];
        if is_over {
            return;
        }
        if slot != up {
            return match role {
                Role::Back => self.on_back_complete(connection),
                _ => self.on_page_arrived(connection),
            };
        }
        // The client's slot may be free before the response is ready.
        requests.connections[connection as usize].headers =
            self.controlled.as_ref().and_then(|controlled| controlled.headers_of(up));
        let core_time = requests.core_time(connection);
        let speed = requests.config.servers[server as usize].speed;
        let work = work_at(core_time, speed);
        let server = &mut requests.servers[server as usize];
        if work == 0 {
            server.agent.note_job(0);
            return self.on_job_done(connection);
        }
        let key = server.processor.add(now, connection, work);
        server.record.jobs_max = server.record.jobs_max.max(server.processor.jobs.len() as u32);
        (requests.connections[connection as usize].job, requests.connections[connection as usize].job_started) =
            (Some(key), now);
        self.await_services();
    }

    fn on_job_done(&mut self, connection: u32) {
        let Some(requests) = &self.requests else { return };
        match requests.connections[connection as usize].role {
            Role::Front => self.forward_request(connection),
            _ => self.answer(connection),
        }
    }

    pub(super) fn answer(&mut self, connection: u32) {
        let Some(requests) = &mut self.requests else { return };
        let (serial, headers) = (requests.next_serial(), requests.connections[connection as usize].headers);
        let RequestConnection { request, server, .. } = requests.connections[connection as usize];
        let bytes = requests.response_bytes(connection);
        let host = requests.servers[server as usize].host;
        let client = requests.client_of(connection).unwrap_or(self.list.flows[request as usize].src.0);
        let slot = self.open_direction(request, host, client, bytes);
        let Some(requests) = &mut self.requests else { return };
        requests.assign(slot, connection);
        requests.connections[connection as usize].down = slot;
        if let (Some(controlled), Some(headers)) = (&mut self.controlled, headers) {
            controlled.answer_opened(slot, serial, headers);
        }
        if self.requests.as_ref().is_some_and(|requests| requests.is_spliced(connection)) {
            return self.offer_relayed(connection);
        }
        self.pump(slot);
    }

    fn on_page_arrived(&mut self, connection: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let RequestConnection { request, class, server, member, role, .. } = requests.connections[connection as usize];
        requests.finish(now, connection, true);
        if role == Role::Front && !requests.is_spliced(connection) {
            return self.follow_redirect(request, class, member);
        }
        let server = if role == Role::Front { member } else { server };
        requests.servers[server as usize].record.pages[class as usize] += 1;
        let progress = &mut requests.progress[request as usize];
        (progress.pages_left, progress.served_by) = (progress.pages_left - 1, Some(server));
        if progress.pages_left > 0 {
            let client = self.list.flows[request as usize].src;
            return self.open_connection(request, client, class);
        }
        self.end_request(request, FlowEnd::Completed);
    }

    fn end_request(&mut self, request: u32, end: FlowEnd) {
        let record = &mut self.records[request as usize];
        record.end = end;
        record.fct = net::Time::from_ps(self.network.now).saturating_sub(record.started);
        if let Some(requests) = &mut self.requests {
            requests.open -= 1;
        }
        self.flows_done += 1;
    }

    /// Fails the request of a connection that one end aborted or the controller reset.
    pub(crate) fn on_connection_failed(&mut self, slot: u32) {
        let Some(requests) = &self.requests else { return };
        if let Some(connection) = requests.connection_of(slot) {
            self.fail_connection(connection);
        }
    }

    pub(super) fn fail_connection(&mut self, connection: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        if !requests.finish(now, connection, false) {
            return;
        }
        let RequestConnection { request, up, down, peer, role, .. } = requests.connections[connection as usize];
        if requests.finish_peer(now, connection) {
            let front = if role == Role::Front { connection } else { peer };
            requests.report_end(now, front, self.list.flows[request as usize].src, 0);
            let RequestConnection { up, down, .. } = requests.connections[peer as usize];
            self.stop_directions(peer, [up, down]);
        }
        self.end_request(request, FlowEnd::Failed);
        self.stop_directions(connection, [up, down]);
    }

    fn stop_directions(&mut self, connection: u32, slots: [u32; 2]) {
        for slot_ix in slots.into_iter().filter(|slot_ix| *slot_ix != NIL) {
            if self.requests.as_ref().and_then(|requests| requests.connection_of(slot_ix)) != Some(connection) {
                continue; // The slot already serves another connection.
            }
            let slot = self.slots.get_mut(slot_ix);
            (slot.is_sender_done, slot.timer.deadline) = (true, NEVER);
            if slot.end == FlowEnd::Running {
                slot.end = FlowEnd::Failed;
            }
            self.close_if_over(slot_ix);
        }
    }

    pub(crate) fn add_direction_to_record(&mut self, slot_ix: u32) {
        let mss = u64::from(self.params.mss);
        let Some(requests) = &self.requests else { return };
        let Some(connection) = requests.connection_of(slot_ix) else { return };
        let RequestConnection { class, up, .. } = requests.connections[connection as usize];
        let is_page = requests.carries_page(connection);
        let slot = self.slots.get_mut(slot_ix);
        let record = &mut self.records[slot.id as usize];
        slot.tally.add_sent_to(record);
        slot.tally.add_received_to(record);
        if slot_ix != up && is_page {
            let page = requests.config.classes[class as usize].page_bytes;
            record.delivered_bytes += (u64::from(slot.receiver.next) * mss).min(page);
        }
    }

    /// Sets the age of requests that are still open. Returns the record of all services.
    pub(crate) fn close_requests(&mut self) -> Option<crate::ServicesRecord> {
        let now = self.network.now;
        let requests = self.requests.as_mut()?;
        for record in self.records.iter_mut().filter(|record| record.end == FlowEnd::Running) {
            record.fct = net::Time::from_ps(now).saturating_sub(record.started);
        }
        Some(requests.record(now))
    }

    /// Closes a slot that has left nothing in the network. Returns whether it was of a request.
    pub(crate) fn close_direction(&mut self, slot_ix: u32) -> bool {
        if self.requests.as_ref().is_none_or(|requests| requests.connection_of(slot_ix).is_none()) {
            return false;
        }
        self.add_direction_to_record(slot_ix);
        self.slots.close(slot_ix);
        if let Some(controlled) = &mut self.controlled {
            controlled.flow_closed(self.network.now, slot_ix);
        }
        if let Some(requests) = &mut self.requests {
            requests.release(slot_ix);
        }
        true
    }

    pub(crate) fn on_services(&mut self) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        requests.awaited.is_valid(now);
        while let Some(done) = self.requests.as_mut().and_then(|requests| requests.take_finished_job(now)) {
            match done {
                Done::Job(connection) => self.on_job_done(connection),
                Done::Piece(front, segments) => self.on_piece_relayed(front, segments),
            }
        }
        while let Some(report) = self.requests.as_mut().and_then(|requests| requests.take_report(now)) {
            let (Some(controlled), Some(requests)) = (&mut self.controlled, &mut self.requests) else { return };
            if let Report::Direct(host, stats) = &report {
                requests.front_ends.report(now, *host, *stats);
            }
            match report {
                Report::Direct(host, stats) => controlled.member_reports(now, host, stats),
                Report::InBand(host, bytes) => {
                    let uplink = self.fabric.uplink[host as usize];
                    controlled.send_from_host(uplink, bytes);
                }
            }
            self.follow_up();
        }
        self.await_services();
    }

    pub(crate) fn await_services(&mut self) {
        let Some(requests) = &mut self.requests else { return };
        if let Some(at) = requests.awaited.set(self.network.now, requests.next_due()) {
            self.network.events.push(at, SERVICES);
        }
    }
}

impl super::Requests<'_> {
    fn take_finished_job(&mut self, now: u64) -> Option<Done> {
        for server in &mut self.servers {
            if let Some(job) = server.processor.take_done(now) {
                if job & PIECE != 0 {
                    self.free_pieces.push(job & !PIECE);
                    let (front, segments) = self.pieces[(job & !PIECE) as usize];
                    return Some(Done::Piece(front, segments));
                }
                let connection = job;
                let t = &mut self.connections[connection as usize];
                t.job = None;
                server.agent.note_job(now - t.job_started);
                return Some(Done::Job(connection));
            }
        }
        None
    }
}
