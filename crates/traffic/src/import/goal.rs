//! GOAL: execution traces of LogGOPSim and ATLAHS, in their text format.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 20000 cpu 0
//! l2: send 4096b to 1 tag 7
//! l2 requires l1
//! }
//! rank 1 {
//! recv 4096b from 0 tag 7
//! }
//! ```
//!
//! One statement a line; `//` and `/* */` are comments; labels hold within their block and may be
//! used before they are defined. `a requires b`: a starts after b has ended; `a irequires b`: after
//! b has started. `calc` takes nanoseconds of its `cpu` (default 0); computations of one cpu run
//! one after the other. Sends and receipts of the same ranks and tag form pairs in order, and the
//! size is that of the send. Our readings:
//!
//! - A send ends when its bytes are delivered, and a receipt when in addition its own requirements
//!   have ended. It starts when its requirements have ended.
//! - A send of 0 bytes is a message of 1 byte. A message within a rank takes no time.
//! - `cpu` and `nic` of messages are read and have no effect: transfers take no processor time, and
//!   topologies say how hosts are connected.
//! - All transfers are group 1, so the time of that group is the time of the whole communication.
//!
//! Files are read line by line, since they may be larger than the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};

use net::Time;

use super::{ImportError, missing, not, number_below, twice, unknown, whole};
use crate::tasks::{Builder, DURATION_MAX, Problem, Task, TaskTrace, Transfer};

/// Maximum length of a line.
const LINE_MAX: u64 = 65_536;

/// Reads a trace. `file` names it in errors.
///
/// # Errors
/// Statements that are unknown or incomplete, messages without their other side, dependencies that
/// are circular or missing, more tasks than a run can hold.
pub fn read_goal(file: &str, input: &mut dyn BufRead) -> Result<TaskTrace, ImportError> {
    let fail = |problem: Problem| ImportError::new(file, u64::from(problem.place), problem.text);
    let mut lines = Lines { input, bytes: Vec::new(), text: String::new(), line: 0, is_comment: false };
    let mut goal = Goal::default();
    loop {
        let is_there = lines.advance().map_err(|text| fail(Problem::new(lines.line, text)))?;
        if !is_there {
            break;
        }
        let line = lines.line;
        goal.line(lines.text.trim(), line).map_err(fail)?;
    }
    let end = lines.line.max(1);
    let last = |text: String| fail(Problem::new(end, text));
    if lines.is_comment {
        return Err(last(missing("`*/`, the end of a comment,")));
    }
    if let Some(rank) = goal.rank {
        return Err(last(missing(&format!("`}}`, the end of the block of rank {rank},"))));
    }
    let rank_count = goal.rank_count.ok_or_else(|| last(missing("the line `num_ranks n`")))?;
    goal.builder.finish(file, rank_count).map_err(|problem| match problem.place {
        Problem::WHOLE => last(problem.text),
        _ => fail(problem),
    })
}

/// The lines of a file without comments.
struct Lines<'r> {
    input: &'r mut dyn BufRead,
    bytes: Vec<u8>,
    text: String,
    /// Number of the current line, from 1.
    line: u32,
    is_comment: bool,
}

impl Lines<'_> {
    /// Reads a line into `text`. Returns whether there was one.
    fn advance(&mut self) -> Result<bool, String> {
        self.bytes.clear();
        let limited = &mut (&mut *self.input).take(LINE_MAX);
        limited.read_until(b'\n', &mut self.bytes).map_err(|error| format!("cannot be read: {error}"))?;
        if self.bytes.is_empty() {
            return Ok(false);
        }
        self.line = self.line.checked_add(1).ok_or("the file has more than 4294967295 lines")?;
        if self.bytes.len() as u64 == LINE_MAX && self.bytes.last() != Some(&b'\n') {
            return Err(format!("the line is longer than {LINE_MAX} bytes; write one statement a line"));
        }
        let text = str::from_utf8(&self.bytes).map_err(|_| "the line is not UTF-8 text".to_owned())?;
        self.text.clear();
        let mut rest = text;
        loop {
            if self.is_comment {
                let Some((_, after)) = rest.split_once("*/") else { return Ok(true) };
                (rest, self.is_comment) = (after, false);
            }
            let comment =
                rest.match_indices('/').find(|(at, _)| rest[*at..].starts_with("//") || rest[*at..].starts_with("/*"));
            let Some((at, _)) = comment else {
                self.text.push_str(rest);
                return Ok(true);
            };
            self.text.push_str(&rest[..at]);
            if rest[at..].starts_with("//") {
                return Ok(true);
            }
            self.text.push(' ');
            (rest, self.is_comment) = (&rest[at + 2..], true);
        }
    }
}

#[derive(Default)]
struct Goal {
    builder: Builder,
    rank_count: Option<u32>,
    /// The rank whose block is open.
    rank: Option<u32>,
    finished: BTreeSet<u32>,
    block: Block,
}

/// State of the open block.
#[derive(Default)]
struct Block {
    labels: Labels,
    processors: BTreeMap<u64, u32>,
    /// Requirements with a label that is not defined yet.
    unresolved: Vec<Requirement>,
    /// Tasks that wait for the start of a receipt.
    posts: Vec<(Task, Task, u32)>,
    /// Number of dependencies before the block.
    begin: usize,
}

#[derive(Clone, Copy)]
struct Requirement {
    waiting: u64,
    awaited: u64,
    is_of_start: bool,
    place: u32,
}

impl Goal {
    fn line(&mut self, text: &str, place: u32) -> Result<(), Problem> {
        let at = |text| Problem::new(place, text);
        if let Some((label, statement)) = text.split_once(':') {
            let label = label.trim_end();
            if label.is_empty() || label.contains(char::is_whitespace) {
                return Err(at(not("label", label, "one word")));
            }
            return self.task(Some(label), statement, place).map_err(at);
        }
        let mut words = text.split_ascii_whitespace();
        match [words.next(), words.next(), words.next(), words.next()] {
            [None, ..] => Ok(()),
            [Some("send" | "recv" | "calc"), ..] => self.task(None, text, place).map_err(at),
            [Some("}"), None, ..] => self.close(),
            [Some("rank"), Some(rank), Some("{"), None] => self.open(rank).map_err(at),
            [Some("rank"), Some(rank), None, None] if rank.ends_with('{') => {
                self.open(rank.trim_end_matches('{')).map_err(at)
            }
            [Some("num_ranks"), Some(count), None, None] => self.set_rank_count(count).map_err(at),
            [Some(waiting), Some(word @ ("requires" | "irequires")), Some(awaited), None] => {
                self.require(waiting, awaited, word == "irequires", place).map_err(at)
            }
            [Some(first), ..] => {
                let known = "num_ranks n, rank r {, }, send, recv, calc, or a requires b";
                Err(at(unknown(first, known)))
            }
        }
    }

    fn set_rank_count(&mut self, count: &str) -> Result<(), String> {
        match self.rank_count.replace(whole("number of ranks", count)?) {
            None => Ok(()),
            Some(_) => Err(twice("`num_ranks`")),
        }
    }

    fn open(&mut self, rank: &str) -> Result<(), String> {
        let count = self.rank_count.ok_or_else(|| missing("the line `num_ranks n` before the first block"))?;
        if let Some(open) = self.rank {
            return Err(missing(&format!("`}}`, the end of the block of rank {open},")));
        }
        let rank = number_below("rank", rank, count)?;
        if !self.finished.insert(rank) {
            return Err(twice(&format!("rank {rank}")));
        }
        self.rank = Some(rank);
        self.block = Block { begin: self.builder.wait_count(), ..Block::default() };
        Ok(())
    }

    fn task(&mut self, label: Option<&str>, statement: &str, place: u32) -> Result<(), String> {
        let rank = self.rank.ok_or_else(|| missing("the line `rank r {` before its tasks"))?;
        let mut words = statement.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        let task = match kind {
            "calc" => {
                let text = words.next().ok_or_else(|| missing("the time of `calc`"))?;
                let ns: u64 = whole("time", text)?;
                let duration = ns.checked_mul(1000).map(Time::from_ps).filter(|time| *time <= DURATION_MAX);
                let duration = duration.ok_or_else(|| not("time", text, "at most 200 days in nanoseconds"))?;
                let cpu = options(words)?.cpu;
                let Goal { block, builder, .. } = self;
                let processor = *block.processors.entry(cpu).or_insert_with(|| builder.processor());
                builder.computation(processor, duration, place)?
            }
            "send" | "recv" => self.message(kind, words, rank, place)?,
            other => return Err(unknown(other, "send, recv or calc")),
        };
        match label {
            Some(label) => self.block.labels.define(label, task),
            None => Ok(()),
        }
    }

    fn message<'t>(
        &mut self,
        kind: &str,
        mut words: impl Iterator<Item = &'t str>,
        rank: u32,
        place: u32,
    ) -> Result<Task, String> {
        let size = words.next().unwrap_or_default();
        let (size, direction) = match size.strip_suffix('b') {
            Some(number) => (number, words.next()),
            None if words.next() == Some("b") => (size, words.next()),
            None => return Err(not("size", size, "a number of bytes such as 8b")),
        };
        let size_bytes: u64 = whole("size", size)?;
        let (is_send, expected) = if kind == "send" { (true, "to") } else { (false, "from") };
        if direction != Some(expected) {
            return Err(missing(&format!("`{expected} rank` after the size")));
        }
        let peer = words.next().ok_or_else(|| missing(&format!("the rank after `{expected}`")))?;
        if peer == "-1" && !is_send {
            let why = "the sender would follow from the order of arrival; name the rank of the sender";
            return Err(format!("`recv from -1` (any source) is not supported: {why}"));
        }
        let peer = number_below("rank", peer, self.rank_count.unwrap_or(0))?;
        let tag = options(words)?.tag;
        if is_send {
            let task = self.builder.transfer(Transfer { src: rank, dst: peer, group: 1, size_bytes }, place)?;
            self.builder.send((rank, peer, tag), task, place);
            Ok(task)
        } else {
            let task = self.builder.join(place)?;
            self.builder.receipt((peer, rank, tag), task, place);
            Ok(task)
        }
    }

    fn require(&mut self, waiting: &str, awaited: &str, is_of_start: bool, place: u32) -> Result<(), String> {
        if self.rank.is_none() {
            return Err(missing("the line `rank r {` before its requirements"));
        }
        let labels = &mut self.block.labels;
        let requirement =
            Requirement { waiting: labels.key(waiting), awaited: labels.key(awaited), is_of_start, place };
        match self.resolve(requirement) {
            Some(result) => result,
            None => {
                self.builder.reserve_waits(self.block.unresolved.len() + 1)?;
                self.block.unresolved.push(requirement);
                Ok(())
            }
        }
    }

    /// Adds a requirement whose labels are defined.
    fn resolve(&mut self, requirement: Requirement) -> Option<Result<(), String>> {
        let Requirement { waiting, awaited, is_of_start, place } = requirement;
        let tasks = &self.block.labels.tasks;
        let (waiting, awaited) = (*tasks.get(&waiting)?, *tasks.get(&awaited)?);
        if !is_of_start {
            return Some(self.builder.after(waiting, awaited));
        }
        if !self.builder.is_join(awaited) {
            return Some(self.builder.after_start(waiting, awaited));
        }
        self.block.posts.push((waiting, awaited, place));
        Some(self.builder.reserve_waits(self.block.posts.len()))
    }

    fn close(&mut self) -> Result<(), Problem> {
        let rank = self.rank.take();
        for requirement in std::mem::take(&mut self.block.unresolved) {
            let Requirement { waiting, awaited, place, .. } = requirement;
            let labels = &self.block.labels;
            let undefined = [waiting, awaited].into_iter().find(|key| !labels.tasks.contains_key(key));
            if let (Some(key), Some(rank)) = (undefined, rank) {
                let text =
                    format!("label `{}` is not defined in the block of rank {rank}; define it there", labels.name(key));
                return Err(Problem::new(place, text));
            }
            if let Some(result) = self.resolve(requirement) {
                result.map_err(|text| Problem::new(place, text))?;
            }
        }
        let block = std::mem::take(&mut self.block);
        self.builder.after_posts(&block.posts, block.begin)
    }
}

#[derive(Default)]
struct Options {
    tag: u32,
    cpu: u64,
}

/// Reads `tag n`, `cpu n` and `nic n`.
fn options<'t>(mut words: impl Iterator<Item = &'t str>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(key) = words.next() {
        let value = words.next().ok_or_else(|| missing(&format!("the number after `{key}`")))?;
        match key {
            "tag" if value == "-1" => {
                return Err("`tag -1` (any tag) is not supported: messages form pairs in order of each tag".to_owned());
            }
            "tag" => options.tag = whole("tag", value)?,
            "cpu" => options.cpu = whole("cpu", value)?,
            "nic" => _ = whole::<u64>("nic", value)?,
            other => return Err(unknown(other, "tag, cpu or nic")),
        }
    }
    Ok(options)
}

/// The labels of a block. Most are a word and a number, which are kept as two numbers.
#[derive(Default)]
struct Labels {
    words: BTreeMap<Box<str>, u32>,
    tasks: BTreeMap<u64, Task>,
}

impl Labels {
    fn key(&mut self, label: &str) -> u64 {
        let digits = label.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (word, number) = label.split_at(label.len() - digits);
        // Leading zeros and long numbers would be lost.
        let is_plain = !number.is_empty() && number.len() < 10 && !(number.starts_with('0') && number.len() > 1);
        let (word, number) = if is_plain { (word, number.parse().unwrap_or(u32::MAX)) } else { (label, u32::MAX) };
        let next = self.words.len() as u32;
        let word = match self.words.get(word) {
            Some(word) => *word,
            None => *self.words.entry(word.into()).or_insert(next),
        };
        u64::from(word) << 32 | u64::from(number)
    }

    fn name(&self, key: u64) -> String {
        let (word, number) = ((key >> 32) as u32, key as u32);
        let word = self.words.iter().find(|(_, ix)| **ix == word).map_or("", |(word, _)| word);
        if number == u32::MAX { word.to_owned() } else { format!("{word}{number}") }
    }

    fn define(&mut self, label: &str, task: Task) -> Result<(), String> {
        let key = self.key(label);
        match self.tasks.insert(key, task) {
            None => Ok(()),
            Some(_) => Err(twice(&format!("label `{label}`"))),
        }
    }
}
