//! The file of learned hosts, which survives a restart of the daemon.
//!
//! Rules towards an unknown host look like leftovers, and the controller removes them. With the
//! stored hosts a restarted daemon adopts the rules of its previous instance.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Event, KnownHost};
use openflow::{DatapathId, PortNo};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, oneshot};

use crate::config;
use crate::events::{DaemonEvent, dpid};
use crate::server::Handle;
use crate::services::{Mac, replace_file};

/// Time to collect hosts that appear together before one write.
const BATCH_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot read the stored hosts from {file}")]
    Read { file: String, source: io::Error },
    #[error("{file} is not a file of stored hosts: {message}")]
    Content { file: String, message: String },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredHosts {
    hosts: Vec<Host>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    mac: Mac,
    ipv4: std::net::Ipv4Addr,
    dpid: String,
    port: u32,
}

/// Loads the hosts of a file; a missing file holds none.
pub(crate) fn load(file: &Path) -> Result<Vec<KnownHost>, StateError> {
    let name = || file.display().to_string();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(StateError::Read { file: name(), source }),
    };
    let content = |message: String| StateError::Content { file: name(), message };
    let stored: StoredHosts = serde_json::from_str(&text).map_err(|error| content(error.to_string()))?;
    let host = |host: Host| {
        let datapath =
            config::datapath(&host.dpid).ok_or_else(|| content(format!("`{}` is not a datapath id", host.dpid)))?;
        Ok(KnownHost { mac: host.mac.0, ipv4: host.ipv4, datapath: DatapathId(datapath), port: PortNo(host.port) })
    };
    stored.hosts.into_iter().map(host).collect()
}

fn write(file: &Path, hosts: &[KnownHost]) -> io::Result<()> {
    let host = |&KnownHost { mac, ipv4, datapath, port }: &KnownHost| Host {
        mac: Mac(mac),
        ipv4,
        dpid: dpid(datapath),
        port: port.0,
    };
    let stored = StoredHosts { hosts: hosts.iter().map(host).collect() };
    let mut text = serde_json::to_vec_pretty(&stored)?;
    text.push(b'\n');
    replace_file(file, &text)
}

pub(crate) async fn persist_loop(handle: Handle, file: PathBuf, mut stop: oneshot::Receiver<()>) {
    let mut events = handle.events.subscribe();
    loop {
        tokio::select! {
            _ = &mut stop => return,
            news = next(&mut events) => if !news { return },
        }
        tokio::time::sleep(BATCH_TIME).await;
        let hosts =
            handle.ask(|engine| engine.controller.inspect().hosts().map(|host| host.known).collect::<Vec<_>>()).await;
        let Ok(hosts) = hosts else { return };
        if let Err(error) = write(&file, &hosts) {
            tracing::error!(file = %file.display(), "cannot store learned hosts: {error}");
        }
    }
}

/// Waits for a host that was learned or forgotten. Returns false when the event stream has ended.
async fn next(events: &mut broadcast::Receiver<DaemonEvent>) -> bool {
    loop {
        match events.recv().await {
            Ok(DaemonEvent::Event(Event::Host(_) | Event::HostGone { .. }))
            | Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8, port: u32) -> KnownHost {
        let mac = openflow::MacAddr([2, 0, 0, 0, 0, last]);
        KnownHost { mac, ipv4: [10, 0, 0, last].into(), datapath: DatapathId(0xa1), port: PortNo(port) }
    }

    #[test]
    fn hosts_come_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("hosts.json");
        assert_eq!(load(&file).expect("a file that is not there remembers none"), []);
        write(&file, &[host(1, 1), host(2, 2)]).expect("a file");
        assert_eq!(load(&file).expect("hosts"), [host(1, 1), host(2, 2)]);
        for (text, part) in [("{", "EOF"), ("{\"hosts\": [{}]}", "missing field"), ("[]", "")] {
            fs::write(&file, text).expect("a file");
            let error = load(&file).unwrap_err().to_string();
            assert!(error.contains("is not a file of stored hosts") && error.contains(part), "{error}");
        }
    }
}
