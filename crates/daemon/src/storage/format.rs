//! The first line of a stored file: kind, format number, version of the program that wrote it,
//! length of the rest, and hash of all that.
//!
//! Kind, format number and program stay in this order in all formats, so that a program can name
//! the version that wrote a file it cannot read.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// The kind of a file, and the formats that this program reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) kind: &'static str,
    /// The oldest format that is read.
    pub(crate) oldest: u32,
    /// The format that is written, the newest that is read.
    pub(crate) newest: u32,
    /// The last format whose first line had neither the version of the program nor a hash of
    /// itself; 0 for none.
    pub(crate) bare: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("its first line does not begin with `{0}`: another program wrote it, or the line is damaged")]
    Kind(&'static str),
    #[error(
        "anabranch {program} wrote it, in format {format}, and this is anabranch {PROGRAM}, which reads up to format \
         {newest}: use version {program} or newer"
    )]
    Newer { format: u32, newest: u32, program: String },
    #[error("it has format {format}, and this program reads format {oldest} or newer")]
    Older { format: u32, oldest: u32 },
    #[error("length or hash does not match: the file was truncated, edited or damaged")]
    Damaged,
}

impl Format {
    pub(crate) fn encode(self, body: &[u8]) -> Vec<u8> {
        [head(&format!("{} {} {PROGRAM}", self.kind, self.newest), body).as_bytes(), b"\n", body].concat()
    }

    /// Returns the body of a file if it is intact and of a known format.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<&[u8], FormatError> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (line, body) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
        let line = str::from_utf8(line).map_err(|_| FormatError::Kind(self.kind))?;
        let mut words = line.split(' ');
        if words.next() != Some(self.kind) {
            return Err(FormatError::Kind(self.kind));
        }
        let format = words.next().and_then(|word| word.parse().ok()).ok_or(FormatError::Damaged)?;
        let program = words.next().ok_or(FormatError::Damaged)?;
        if format > self.newest {
            return Err(FormatError::Newer { format, newest: self.newest, program: program.to_owned() });
        }
        if format < self.oldest {
            return Err(FormatError::Older { format, oldest: self.oldest });
        }
        let expected = match format {
            _ if format <= self.bare => format!("{} {format} {} {:016x}", self.kind, body.len(), xxh3_64(body)),
            _ => head(&format!("{} {format} {program}", self.kind), body),
        };
        if line == expected { Ok(body) } else { Err(FormatError::Damaged) }
    }
}

/// Completes the first line. The hash covers the line, too: a damaged format number must not
/// select another reader.
fn head(origin: &str, body: &[u8]) -> String {
    let head = format!("{origin} {}", body.len());
    let hash = xxh3_128(&[head.as_bytes(), b"\n", body].concat());
    format!("{head} {hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Format = Format { kind: "anabranch-tests", oldest: 2, newest: 4, bare: 2 };

    #[test]
    fn damage_at_any_position_and_of_any_length_is_detected() {
        let whole = NEW.encode(b"{\"a\": 1}\n");
        assert_eq!(NEW.decode(&whole), Ok(&b"{\"a\": 1}\n"[..]));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(NEW.decode(&bytes).is_err(), "bit {bit} of byte {at}");
            }
            assert!(NEW.decode(&whole[..at]).is_err(), "cut at {at}");
        }
        assert!(NEW.decode(&[&whole[..], b"x"].concat()).is_err(), "appended");
    }

    #[test]
    fn older_formats_are_read_and_newer_ones_refused_by_version() {
        let body = b"{}\n";
        let older = Format { newest: 3, ..NEW }.encode(body);
        assert_eq!(NEW.decode(&older), Ok(&body[..]));
        let two = format!("anabranch-tests 2 3 {:016x}\n{{}}\n", xxh3_64(body));
        assert_eq!(NEW.decode(two.as_bytes()), Ok(&body[..]));
        assert_eq!(NEW.decode(two.replacen(" 3 ", " 4 ", 1).as_bytes()), Err(FormatError::Damaged));
        assert_eq!(NEW.decode(b"anabranch-tests 1 x"), Err(FormatError::Older { format: 1, oldest: 2 }));
        let newer = String::from_utf8(Format { newest: 5, ..NEW }.encode(body)).expect("text");
        let newer = newer.replacen(PROGRAM, "7.8.9", 1);
        let error = NEW.decode(newer.as_bytes()).expect_err("a newer format").to_string();
        for part in ["anabranch 7.8.9 wrote it, in format 5", "up to format 4", "use version 7.8.9 or newer"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(NEW.decode(b"{}"), Err(FormatError::Kind("anabranch-tests")));
    }
}
