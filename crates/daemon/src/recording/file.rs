//! The format of recordings: a line of text, and records with length and checksums.
//!
//! The line is `anabranch-recording FORMAT VERSION BUILD HASH`. A record is the length of its body
//! (4 bytes), the hash of its body (8 bytes), the hash of these two (4 bytes) and the body, a
//! sequence of entries. Numbers are little-endian. The seed of both hashes is the position of the
//! record in the file, so a record at another place is detected, too. The second hash
//! distinguishes a damaged length from a record that was not completely written.

use std::io::{self, Read};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Hash of the sources of the controller.
pub(super) const BUILD: &str = env!("ANABRANCH_CONTROLLER_BUILD");
pub(super) const KIND: &str = "anabranch-recording";
const FORMAT: u32 = 1;
const LINE_MAX: usize = 256;
const HEADER_LEN: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("it is not a recording: its first line does not begin with `{KIND}`")]
    Kind,
    #[error("its first line is damaged: the hash does not match")]
    Line,
    #[error(
        "anabranch {program} (build {build}) recorded it, and this is anabranch {PROGRAM} (build {BUILD}): replay it \
         with that program"
    )]
    Program { program: String, build: String },
    #[error("the record at byte {0} is damaged: the file was edited, or its medium is faulty")]
    Damaged(u64),
    #[error("cannot read at byte {0}: {1}")]
    Io(u64, io::Error),
}

/// The program that wrote a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) program: String,
    pub(super) build: String,
}

impl Origin {
    pub(super) fn this() -> Origin {
        Origin { program: PROGRAM.to_owned(), build: BUILD.to_owned() }
    }

    pub(super) fn line(&self) -> String {
        let text = format!("{KIND} {FORMAT} {} {}", self.program, self.build);
        let hash = xxh3_64(text.as_bytes());
        format!("{text} {hash:016x}\n")
    }
}

/// Appends a record to `out` that begins at this position of the file.
pub(super) fn write_record(position: u64, body: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(body.len()).expect("a record is far below 4 GiB");
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..12].copy_from_slice(&xxh3_64_with_seed(body, position).to_le_bytes());
    let hash = header_hash(position, &header);
    header[12..].copy_from_slice(&hash);
    out.extend_from_slice(&header);
    out.extend_from_slice(body);
}

fn header_hash(position: u64, header: &[u8; HEADER_LEN]) -> [u8; 4] {
    (xxh3_64_with_seed(&header[..12], position) as u32).to_le_bytes()
}

/// Reads the records of a file.
pub(super) struct Records<R> {
    reader: R,
    pub(super) position: u64,
    length: u64,
    /// Whether the last record is incomplete: the process was killed while it wrote.
    pub(super) is_torn: bool,
    body: Vec<u8>,
}

impl<R: Read> Records<R> {
    /// Reads the first line of a file of this length. With `any_build`, only the version of the
    /// program must match.
    pub(super) fn open(mut reader: R, length: u64, any_build: bool) -> Result<(Records<R>, Origin), ReadError> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') && line.len() < LINE_MAX {
            let mut byte = [0];
            match reader.read(&mut byte).map_err(|error| ReadError::Io(line.len() as u64, error))? {
                0 => break,
                _ => line.push(byte[0]),
            }
        }
        let origin = parse_line(&line)?;
        let is_other = origin.program != PROGRAM || (origin.build != BUILD && !any_build);
        if is_other {
            return Err(ReadError::Program { program: origin.program, build: origin.build });
        }
        Ok((Records { reader, position: line.len() as u64, length, is_torn: false, body: Vec::new() }, origin))
    }

    /// Returns position and body of the next record; `None` at the end of the file, and at a record
    /// that was not completely written.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        let (at, rest) = (self.position, self.length.saturating_sub(self.position));
        if rest < HEADER_LEN as u64 {
            self.is_torn = rest > 0;
            return Ok(None);
        }
        let mut header = [0; HEADER_LEN];
        self.reader.read_exact(&mut header).map_err(|error| ReadError::Io(at, error))?;
        if header[12..] != header_hash(at, &header) {
            self.is_torn = self.is_zero_from(&header).map_err(|error| ReadError::Io(at, error))?;
            return if self.is_torn { Ok(None) } else { Err(ReadError::Damaged(at)) };
        }
        let length = u32::from_le_bytes(*header.first_chunk().expect("4 bytes"));
        if u64::from(length) > rest - HEADER_LEN as u64 {
            self.is_torn = true;
            return Ok(None);
        }
        self.body.resize(length as usize, 0);
        self.reader.read_exact(&mut self.body).map_err(|error| ReadError::Io(at, error))?;
        if header[4..12] != xxh3_64_with_seed(&self.body, at).to_le_bytes() {
            return Err(ReadError::Damaged(at));
        }
        self.position += HEADER_LEN as u64 + u64::from(length);
        Ok(Some((at, &self.body)))
    }

    /// Returns whether header and rest of the file are zeros: some file systems leave them after a
    /// power failure.
    fn is_zero_from(&mut self, header: &[u8]) -> io::Result<bool> {
        if header.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let mut bytes = [0; 4096];
        loop {
            match self.reader.read(&mut bytes)? {
                0 => return Ok(true),
                length if bytes[..length].iter().any(|byte| *byte != 0) => return Ok(false),
                _ => {}
            }
        }
    }
}

fn parse_line(line: &[u8]) -> Result<Origin, ReadError> {
    if !line.starts_with(KIND.as_bytes()) {
        return Err(ReadError::Kind);
    }
    let text = str::from_utf8(line).ok().and_then(|line| line.strip_suffix('\n')).ok_or(ReadError::Line)?;
    let (text, hash) = text.rsplit_once(' ').ok_or(ReadError::Line)?;
    if hash != format!("{:016x}", xxh3_64(text.as_bytes())) {
        return Err(ReadError::Line);
    }
    // Other formats keep the order of these words.
    let mut words = text.split(' ').skip(1);
    let (Some(format), Some(program), Some(build)) = (words.next(), words.next(), words.next()) else {
        return Err(ReadError::Line);
    };
    let (program, build) = (program.to_owned(), build.to_owned());
    if format != FORMAT.to_string() {
        return Err(ReadError::Program { program, build });
    }
    Ok(Origin { program, build })
}
