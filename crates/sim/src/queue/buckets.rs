//! Link events in the buckets of a wheel.
//!
//! A small network has few events in a bucket: a list through the entries of the links needs least
//! work. In a large network these entries are outside the caches, and to open a bucket would wait for
//! each of them in turn. There the events of a bucket are together, in chunks of a cache line.

use prefetch_index::prefetch_index;

use super::{BUCKETS, Event, NIL};

pub(super) enum Buckets {
    Lists(Lists),
    Chunks(Chunks),
}

impl Buckets {
    pub(super) fn new(link_count: usize, is_large: bool, shift: u32) -> Buckets {
        if is_large { Buckets::Chunks(Chunks::new(shift)) } else { Buckets::Lists(Lists::new(link_count)) }
    }

    /// Adds the event of a link.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: usize, time: u64, link: u32) {
        match self {
            Buckets::Lists(lists) => lists.push(slot, time, link),
            Buckets::Chunks(chunks) => chunks.push(slot, (time & chunks.offset_mask) << 32 | u64::from(link)),
        }
    }

    /// Moves the events of a bucket that begins at `begin` to the end of `open`, earliest first.
    #[inline(always)]
    pub(super) fn open(&mut self, slot: usize, begin: u64, open: &mut Vec<Event>) {
        match self {
            Buckets::Lists(lists) => lists.open(slot, open),
            Buckets::Chunks(chunks) => chunks.open(slot, begin, open),
        }
    }

    /// Loads the first chunk of a bucket into the caches.
    #[inline]
    pub(super) fn prefetch(&self, slot: usize) {
        if let Buckets::Chunks(chunks) = self {
            prefetch_index(&chunks.chunks, chunks.heads[slot].chunk());
        }
    }

    /// Removes the event of a link, if there is one. Returns its bucket if that is empty now.
    pub(super) fn cancel(&mut self, link: u32) -> Option<usize> {
        match self {
            Buckets::Lists(lists) => lists.cancel(link),
            Buckets::Chunks(chunks) => chunks.cancel(link),
        }
    }
}

#[derive(Clone, Copy)]
struct Pending {
    time: u64,
    next: u32,
}

/// A list of links for each bucket.
pub(super) struct Lists {
    heads: Box<[u32; BUCKETS as usize]>,
    links: Vec<Pending>,
}

impl Lists {
    fn new(link_count: usize) -> Lists {
        Lists { heads: Box::new([NIL; BUCKETS as usize]), links: vec![Pending { time: 0, next: NIL }; link_count] }
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, time: u64, link: u32) {
        self.links[link as usize] = Pending { time, next: self.heads[slot] };
        self.heads[slot] = link;
    }

    #[inline(always)]
    fn open(&mut self, slot: usize, open: &mut Vec<Event>) {
        let mut link = std::mem::replace(&mut self.heads[slot], NIL);
        let first = open.len();
        while link != NIL {
            let Pending { time, next } = self.links[link as usize];
            open.push(Event { time, component: link });
            link = next;
        }
        sort(&mut open[first..]);
    }

    fn cancel(&mut self, link: u32) -> Option<usize> {
        for slot in 0..BUCKETS as usize {
            let mut at = self.heads[slot];
            if at == link {
                self.heads[slot] = self.links[link as usize].next;
                return (self.heads[slot] == NIL).then_some(slot);
            }
            while at != NIL {
                let next = self.links[at as usize].next;
                if next == link {
                    self.links[at as usize].next = self.links[link as usize].next;
                    return None;
                }
                at = next;
            }
        }
        None
    }
}

/// Some events of a bucket: one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk {
    /// Offset in the bucket, and the link in the low half: in the order of events.
    events: [u64; CHUNK],
    /// Another chunk of the bucket, which is full, or [`NIL`]. Of a free chunk: the next free one.
    next: u32,
}

const CHUNK: usize = 7;

const _: () = assert!(size_of::<Chunk>() == 64, "a chunk is one cache line");

/// The last chunk of a bucket, which may be full, and its number of events in the low bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Head(u32);

impl Head {
    const EMPTY: Head = Head(NIL);

    fn new(chunk: u32, len: usize) -> Head {
        Head(chunk << 3 | len as u32)
    }

    fn chunk(self) -> usize {
        self.0 as usize >> 3
    }

    fn len(self) -> usize {
        self.0 as usize & 7
    }
}

/// Chunks of events for each bucket.
pub(super) struct Chunks {
    heads: Box<[Head; BUCKETS as usize]>,
    chunks: Vec<Chunk>,
    /// First free chunk, or [`NIL`].
    free: u32,
    /// Events of the bucket that is being opened.
    sorted: Vec<u64>,
    /// The bits of a time that are its offset in its bucket.
    offset_mask: u64,
}

impl Chunks {
    fn new(shift: u32) -> Chunks {
        let heads = Box::new([Head::EMPTY; BUCKETS as usize]);
        Chunks { heads, chunks: Vec::new(), free: NIL, sorted: Vec::new(), offset_mask: (1 << shift) - 1 }
    }

    #[inline]
    fn push(&mut self, slot: usize, event: u64) {
        let head = self.heads[slot];
        if head != Head::EMPTY && head.len() < CHUNK {
            self.chunks[head.chunk()].events[head.len()] = event;
            self.heads[slot].0 += 1;
        } else {
            self.add_chunk(slot, event);
        }
    }

    /// Adds a chunk with its first event to a bucket.
    #[inline(never)]
    fn add_chunk(&mut self, slot: usize, event: u64) {
        let head = self.heads[slot];
        let next = if head == Head::EMPTY { NIL } else { head.chunk() as u32 };
        let mut at = self.free;
        if let Some(chunk) = self.chunks.get_mut(at as usize) {
            self.free = chunk.next;
            (chunk.events[0], chunk.next) = (event, next);
        } else {
            at = self.chunks.len() as u32;
            let mut events = [0; CHUNK];
            events[0] = event;
            self.chunks.push(Chunk { events, next });
        }
        self.heads[slot] = Head::new(at, 1);
    }

    #[inline(never)]
    fn open(&mut self, slot: usize, begin: u64, open: &mut Vec<Event>) {
        self.sorted.clear();
        while let Some((at, events, len)) = self.first(slot) {
            // A copy of constant length is not a call.
            let end = self.sorted.len() + len;
            self.sorted.extend_from_slice(&events);
            self.sorted.truncate(end);
            self.remove_chunk(slot, at);
        }
        self.sorted.sort_unstable();
        let event_of = |event: &u64| Event { time: begin + (event >> 32), component: *event as u32 };
        open.extend(self.sorted.iter().map(event_of));
    }

    /// Returns the first chunk of a bucket, its events, and their number.
    #[inline]
    fn first(&self, slot: usize) -> Option<(usize, [u64; CHUNK], usize)> {
        let head = self.heads[slot];
        (head != Head::EMPTY).then(|| (head.chunk(), self.chunks[head.chunk()].events, head.len()))
    }

    /// Removes the first chunk of a bucket.
    #[inline]
    fn remove_chunk(&mut self, slot: usize, at: usize) {
        let next = std::mem::replace(&mut self.chunks[at].next, self.free);
        self.free = at as u32;
        self.heads[slot] = if next == NIL { Head::EMPTY } else { Head::new(next, CHUNK) };
    }

    fn cancel(&mut self, link: u32) -> Option<usize> {
        for slot in 0..BUCKETS as usize {
            let Some((first, events, len)) = self.first(slot) else { continue };
            let (mut at, mut count) = (first, len);
            while let Some(chunk) = self.chunks.get_mut(at) {
                if let Some(place) = chunk.events[..count].iter().position(|event| *event as u32 == link) {
                    chunk.events[place] = events[len - 1];
                    if len > 1 {
                        self.heads[slot].0 -= 1;
                    } else {
                        self.remove_chunk(slot, first);
                    }
                    return (self.heads[slot] == Head::EMPTY).then_some(slot);
                }
                (at, count) = (chunk.next as usize, CHUNK);
            }
        }
        None
    }
}

/// Sorts the events of a bucket, which are few where the network is small.
#[inline]
fn sort(events: &mut [Event]) {
    if events.len() > 8 {
        return events.sort_unstable();
    }
    for end in 1..events.len() {
        for at in (1..=end).rev() {
            if events[at - 1] < events[at] {
                break;
            }
            events.swap(at - 1, at);
        }
    }
}
