//! The messages of a real switch by name; `ANABRANCH_CAPTURE=1` writes them to `tests/captures/`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anabranch_openflow::*;

use super::Controller;

/// Bytes of messages by name.
#[derive(Default)]
pub struct Captured(pub BTreeMap<String, Vec<u8>>);

impl Captured {
    /// Receives messages until one matches; of a reply in several parts, until the last.
    pub fn until(&mut self, controller: &mut Controller, name: &str, is_it: impl Fn(&Envelope) -> bool) -> Message {
        let mut bytes = Vec::new();
        loop {
            let (envelope, raw) = controller.receive();
            crate::captures::check(name, &raw);
            if let Message::EchoRequest(data) = &envelope.message {
                controller.send(envelope.xid.0, Message::EchoReply(data.clone()));
                self.0.insert("echo_request".to_owned(), raw.clone());
            }
            if !is_it(&envelope) {
                continue;
            }
            bytes.extend(raw);
            if !matches!(envelope.message, Message::MultipartReply { has_more: true, .. }) {
                self.0.insert(name.to_owned(), bytes);
                return envelope.message;
            }
        }
    }

    pub fn ask(&mut self, controller: &mut Controller, name: &str, message: Message) -> Message {
        let xid = 1000 + self.0.len() as u32;
        controller.send(xid, message);
        self.until(controller, name, |envelope| envelope.xid == Xid(xid))
    }

    /// Sends a message that is refused. Returns the error.
    pub fn error(&mut self, controller: &mut Controller, name: &str, message: Message) -> ErrorKind {
        match self.ask(controller, name, message) {
            Message::Error { kind, .. } => kind,
            other => panic!("{name}: {other:?}"),
        }
    }

    pub fn ask_multipart(
        &mut self,
        controller: &mut Controller,
        name: &str,
        request: MultipartRequest,
    ) -> MultipartReply {
        match self.ask(controller, name, Message::MultipartRequest(request)) {
            Message::MultipartReply { reply, .. } => reply,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Writes the files, if `ANABRANCH_CAPTURE` asks for it.
    pub fn write(self) {
        if std::env::var_os("ANABRANCH_CAPTURE").is_none() {
            return;
        }
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
        for (name, bytes) in self.0 {
            std::fs::write(directory.join(name + ".bin"), bytes).unwrap();
        }
    }
}
