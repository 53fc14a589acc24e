//! Connections of requests, from the first packet of the client to the last byte of the answer.

use net::HostIx;

use super::agents::Report;
use super::bound::{self, Sizes};
use super::{Progress, Talk, add_tally};
use crate::controlled::VirtualTuple;
use crate::engine::{Engine, SERVICES};
use crate::flows::{NEVER, NewFlow};
use crate::outcome::FlowEnd;
use crate::packet::PRIORITY_SHIFT;
use crate::queue::NIL;

impl Engine<'_> {
    /// A client wants something.
    pub(crate) fn start_request(&mut self, id: u32) {
        let flow = &self.list.flows[id as usize];
        let (client, class) = (flow.src, flow.group - 1);
        let now = self.network.now;
        let sizes = Sizes::new(&self.rules);
        let topology = self.topology;
        let Some(requests) = &mut self.requests else { return };
        let config = requests.config;
        let kind = &config.classes[class as usize];
        let bound = || bound::response(topology, config, kind, client, &sizes);
        let ideal = *requests.bounds.entry((client.0, class)).or_insert_with(bound);
        requests.progress[id as usize] = Progress { pages_left: kind.pages, served_by: None };
        requests.open += 1;
        let record = &mut self.records[id as usize];
        (record.end, record.started, record.ideal) = (FlowEnd::Running, net::Time::from_ps(now), bound::time(ideal));
        self.open_talk(id, client, class);
    }

    /// Opens the connection for the next page of a request.
    fn open_talk(&mut self, request: u32, client: HostIx, class: u32) {
        let Some(requests) = &mut self.requests else { return };
        let client_port = requests.next_port(client.0);
        let talk = Talk {
            request,
            class,
            up: NIL,
            down: NIL,
            server: NIL,
            job: None,
            heard: 0,
            ways: None,
            is_over: false,
            slots: 0,
        };
        requests.counts.opened += 1;
        let (talk, serial) = (requests.keep(talk), requests.next_serial());
        let config = requests.config;
        let kind = &config.classes[class as usize];
        let service = &config.services[kind.service as usize];
        let named = VirtualTuple {
            serial,
            client,
            client_port,
            address: service.address,
            mac: service.mac,
            port: service.port,
        };
        let slot = self.open_way(request, client.0, NIL, kind.request_bytes);
        let Some(requests) = &mut self.requests else { return };
        requests.assign(slot, talk);
        requests.talks[talk as usize].up = slot;
        if let Some(controlled) = &mut self.controlled {
            controlled.request_opened(slot, &named);
        }
        self.begin(slot, self.rules.handshake);
    }

    /// A slot for one way of a connection.
    fn open_way(&mut self, request: u32, src: u32, dst: u32, bytes: u64) -> u32 {
        let (segments, last_bytes) = self.segments_for(bytes);
        let flow = NewFlow {
            id: request,
            connection: NIL,
            ordinal: 0,
            src,
            dst,
            // Nothing is routed by class or hash where there are OpenFlow switches.
            classes: [0; 2],
            hashes: [0; 2],
            started: self.network.now,
            segments,
            last_bytes,
            priority: self.rules.priority_of(bytes) << PRIORITY_SHIFT,
        };
        self.slots.open(&flow, &self.rules.tcp, self.rules.bitmap_words)
    }

    /// A packet to a virtual address has come to a host: it is the server of its connection if nobody else is.
    pub(crate) fn arrive_at_server(&mut self, node: u32, ix: u32) -> bool {
        let packet = *self.network.arena.get(ix);
        let (Some(requests), Some(controlled)) = (&mut self.requests, &mut self.controlled) else { return false };
        let server = requests.server_of_host[node as usize];
        let Some(talk) = requests.talk_of(packet.flow) else { return false };
        let known = &mut requests.talks[talk as usize];
        let is_taken = known.server != NIL && known.server != server;
        if packet.dst != NIL || server == NIL || is_taken || !controlled.reach_server(&packet, HostIx(node)) {
            return false;
        }
        if known.server == NIL && !known.is_over {
            known.server = server;
            let server = &mut requests.servers[server as usize];
            server.connections += 1;
            server.record.connections += 1;
        }
        self.slots.get_mut(packet.flow).dst = node;
        true
    }

    /// All of what one end of a connection had to say has arrived.
    pub(crate) fn talk_heard(&mut self, slot: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let Some(talk) = requests.talk_of(slot) else { return };
        let Talk { up, server, class, is_over, .. } = requests.talks[talk as usize];
        if is_over {
            return;
        }
        if slot != up {
            return self.page_arrived(talk);
        }
        // The client's slot may be free before the answer is ready.
        requests.talks[talk as usize].ways = self.controlled.as_ref().and_then(|controlled| controlled.ways_of(up));
        let work = requests.config.classes[class as usize].cpu.as_ps();
        let server = &mut requests.servers[server as usize];
        if work == 0 {
            server.agent.note_job(0);
            return self.answer(talk);
        }
        let key = server.processor.add(now, talk, work);
        server.record.jobs_max = server.record.jobs_max.max(server.processor.job_count());
        (requests.talks[talk as usize].job, requests.talks[talk as usize].heard) = (Some(key), now);
        self.await_services();
    }

    /// The server has done its work and sends.
    fn answer(&mut self, talk: u32) {
        let Some(requests) = &mut self.requests else { return };
        let (serial, ways) = (requests.next_serial(), requests.talks[talk as usize].ways);
        let Talk { request, class, server, .. } = requests.talks[talk as usize];
        let bytes = requests.config.classes[class as usize].page_bytes;
        let host = requests.servers[server as usize].host;
        let client = self.list.flows[request as usize].src.0;
        let slot = self.open_way(request, host, client, bytes);
        let Some(requests) = &mut self.requests else { return };
        requests.assign(slot, talk);
        requests.talks[talk as usize].down = slot;
        if let (Some(controlled), Some(ways)) = (&mut self.controlled, &ways) {
            controlled.answer_opened(slot, serial, ways);
        }
        self.pump(slot);
    }

    /// The last byte of a page is there.
    fn page_arrived(&mut self, talk: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let Talk { request, class, server, .. } = requests.talks[talk as usize];
        requests.finish(now, talk, true);
        requests.servers[server as usize].record.pages[class as usize] += 1;
        let progress = &mut requests.progress[request as usize];
        (progress.pages_left, progress.served_by) = (progress.pages_left - 1, Some(server));
        if progress.pages_left > 0 {
            let client = self.list.flows[request as usize].src;
            return self.open_talk(request, client, class);
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
        self.is_over = self.is_everything_over();
    }

    /// An end of a connection has given up, or was told that nobody serves: so has the request.
    pub(crate) fn talk_failed(&mut self, slot: u32) {
        let now = self.network.now;
        let Some(requests) = &mut self.requests else { return };
        let Some(talk) = requests.talk_of(slot) else { return };
        if !requests.finish(now, talk, false) {
            return;
        }
        let Talk { request, up, down, .. } = requests.talks[talk as usize];
        self.end_request(request, FlowEnd::Failed);
        for way in [up, down].into_iter().filter(|way| *way != NIL) {
            if self.requests.as_ref().and_then(|requests| requests.talk_of(way)) != Some(talk) {
                continue; // Its slot serves another by now.
            }
            let slot = self.slots.get_mut(way);
            (slot.is_sender_done, slot.timer.deadline) = (true, NEVER);
            if slot.end == FlowEnd::Running {
                slot.end = FlowEnd::Failed;
            }
            self.close_if_over(way);
        }
    }

    /// Adds what a slot did to the record of its request.
    pub(crate) fn add_way_to_record(&mut self, way: u32) {
        let mss = u64::from(self.rules.mss);
        let Some(requests) = &self.requests else { return };
        let Some(talk) = requests.talk_of(way) else { return };
        let Talk { class, up, .. } = requests.talks[talk as usize];
        let slot = self.slots.get_mut(way);
        let record = &mut self.records[slot.id as usize];
        add_tally(record, &slot.tally);
        if way != up {
            let page = requests.config.classes[class as usize].page_bytes;
            record.delivered_bytes += (u64::from(slot.receiver.next) * mss).min(page);
        }
    }

    /// Requests still open are as old as they are; answers what became of everything.
    pub(crate) fn close_requests(&mut self) -> Option<crate::ServicesRecord> {
        let now = self.network.now;
        let requests = self.requests.as_mut()?;
        for record in self.records.iter_mut().filter(|record| record.end == FlowEnd::Running) {
            record.fct = net::Time::from_ps(now).saturating_sub(record.started);
        }
        Some(requests.record(now))
    }

    /// A slot of a request has ended and left nothing in the network. Whether it was one.
    pub(crate) fn close_way(&mut self, way: u32) -> bool {
        if self.requests.as_ref().is_none_or(|requests| requests.talk_of(way).is_none()) {
            return false;
        }
        self.add_way_to_record(way);
        self.slots.close(way);
        if let Some(controlled) = &mut self.controlled {
            controlled.flow_closed(self.network.now, way);
        }
        if let Some(requests) = &mut self.requests {
            requests.release(way);
        }
        self.is_over = self.is_everything_over();
        true
    }

    /// Servers and agents do what is due.
    pub(crate) fn on_services(&mut self) {
        let now = self.network.now;
        if let Some(requests) = &mut self.requests
            && requests.awaited <= now
        {
            requests.awaited = NEVER;
        }
        while let Some(talk) = self.requests.as_mut().and_then(|requests| requests.take_job_done(now)) {
            self.answer(talk);
        }
        while let Some(report) = self.requests.as_mut().and_then(|requests| requests.take_report(now)) {
            let Some(controlled) = &mut self.controlled else { return };
            match report {
                Report::Direct(host, facts) => controlled.member_reports(now, host, facts),
                Report::InBand(host, bytes) => {
                    let uplink = self.fabric.uplink[host as usize];
                    controlled.send_from_host(uplink, bytes);
                }
            }
            self.follow_up();
        }
        self.await_services();
    }

    /// Sets an event for what servers and agents do next.
    pub(crate) fn await_services(&mut self) {
        let Some(requests) = &mut self.requests else { return };
        let Some(at) = requests.next_due().map(|at| at.max(self.network.now)) else { return };
        if at < requests.awaited {
            requests.awaited = at;
            self.network.events.push(at, SERVICES);
        }
    }
}

impl super::Requests<'_> {
    /// A connection whose server has done its work.
    fn take_job_done(&mut self, now: u64) -> Option<u32> {
        for server in &mut self.servers {
            if let Some(talk) = server.processor.take_done(now) {
                let t = &mut self.talks[talk as usize];
                t.job = None;
                server.agent.note_job(now - t.heard);
                return Some(talk);
            }
        }
        None
    }
}
