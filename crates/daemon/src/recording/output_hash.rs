//! The running hash of everything that a controller puts out.

use std::io::Write as _;

use control::Output;
use openflow::{FromController, wire};
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Debug, Default)]
pub(super) struct OutputHash {
    value: u64,
    /// Outputs that are not in the value yet.
    bytes: Vec<u8>,
}

impl OutputHash {
    pub(super) fn add<'a>(&mut self, outputs: impl IntoIterator<Item = &'a Output>) {
        for output in outputs {
            match output {
                Output::Channel(FromController::Message(connection, envelope)) => {
                    self.tag(b'm', connection.0);
                    if wire::encode(envelope, &mut self.bytes).is_err() {
                        self.text(b'u', output);
                    }
                }
                Output::Channel(FromController::Close(connection)) => self.tag(b'c', connection.0),
                Output::Agents(_) | Output::Event(_) => self.text(b't', output),
            }
        }
    }

    fn tag(&mut self, tag: u8, number: u32) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, tag: u8, output: &Output) {
        self.bytes.push(tag);
        write!(self.bytes, "{output:?}").expect("memory accepts text");
    }

    /// Returns the hash of all outputs so far.
    pub(super) fn value(&mut self) -> u64 {
        self.value = xxh3_64_with_seed(&self.bytes, self.value);
        self.bytes.clear();
        self.value
    }
}
