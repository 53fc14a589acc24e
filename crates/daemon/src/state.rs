//! Hosts remembered from one life of the daemon to the next.
//!
//! A controller that does not know a host takes rules towards it for leftovers and removes them. Hosts that were learnt
//! are therefore written down, so that a daemon that starts again takes over what is installed for them.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Event, KnownHost};
use openflow::{DatapathId, PortNo};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, oneshot};

use crate::events::{Happening, dpid};
use crate::server::Handle;
use crate::{config, settings};

/// Hosts that are seen within this time of one another are written once.
const TOGETHER: Duration = Duration::from_millis(200);

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read.
    #[error("cannot read the remembered hosts from {file}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{file} does not hold remembered hosts: {words}")]
    Content {
        /// The file.
        file: String,
        /// What is wrong with it.
        words: String,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    hosts: Vec<Host>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    mac: String,
    ipv4: std::net::Ipv4Addr,
    switch: String,
    port: u32,
}

/// The hosts of a file; one that is not there remembers none.
///
/// # Errors
/// If the file is there but cannot be used: writing over it might destroy something.
fn recall(file: &Path) -> Result<Vec<KnownHost>, StateError> {
    let name = || file.display().to_string();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(StateError::Read { file: name(), source }),
    };
    let content = |words: String| StateError::Content { file: name(), words };
    let remembered: Remembered = serde_json::from_str(&text).map_err(|error| content(error.to_string()))?;
    let host = |host: Host| {
        let mac = config::mac_address(&host.mac).ok_or_else(|| content(format!("`{}` is no address", host.mac)))?;
        let datapath =
            config::datapath(&host.switch).ok_or_else(|| content(format!("`{}` is no switch", host.switch)))?;
        Ok(KnownHost { mac, ipv4: host.ipv4, datapath: DatapathId(datapath), port: PortNo(host.port) })
    };
    remembered.hosts.into_iter().map(host).collect()
}

/// Writes hosts so that the file is whole at every moment.
fn write(file: &Path, hosts: &[KnownHost]) -> io::Result<()> {
    let host = |host: &KnownHost| Host {
        mac: host.mac.to_string(),
        ipv4: host.ipv4,
        switch: dpid(host.datapath),
        port: host.port.0,
    };
    let remembered = Remembered { hosts: hosts.iter().map(host).collect() };
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let beside = PathBuf::from(name);
    let mut new = fs::File::create(&beside)?;
    serde_json::to_writer_pretty(&mut new, &remembered)?;
    new.write_all(b"\n")?;
    new.sync_all()?;
    fs::rename(&beside, file)
}

/// Keeps the file up to date until it is told to stop.
pub(crate) async fn keep(handle: Handle, file: PathBuf, mut stop: oneshot::Receiver<()>) {
    let mut events = handle.events.subscribe();
    loop {
        tokio::select! {
            _ = &mut stop => return,
            news = next(&mut events) => if !news { return },
        }
        tokio::time::sleep(TOGETHER).await;
        let hosts = handle.ask(|engine| engine.controller.hosts().map(|host| host.known).collect::<Vec<_>>()).await;
        let Ok(hosts) = hosts else { return };
        if let Err(error) = write(&file, &hosts) {
            tracing::error!(file = %file.display(), "hosts cannot be remembered: {error}");
        }
    }
}

/// Waits for a host that was seen; false if nothing will ever happen again.
async fn next(events: &mut broadcast::Receiver<Happening>) -> bool {
    loop {
        match events.recv().await {
            Ok(Happening::Event(Event::Host(_))) | Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

/// Settings with the hosts that are remembered.
pub(crate) fn with_remembered(settings: &settings::Settings) -> Result<settings::Settings, StateError> {
    let mut settings = settings.clone();
    if let Some(file) = &settings.state {
        settings.control.remembered = recall(file)?;
    }
    Ok(settings)
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
        assert_eq!(recall(&file).expect("a file that is not there remembers none"), []);
        write(&file, &[host(1, 1), host(2, 2)]).expect("a file");
        assert_eq!(recall(&file).expect("hosts"), [host(1, 1), host(2, 2)]);
        for (text, words) in [("{", "EOF"), ("{\"hosts\": [{}]}", "missing field"), ("[]", "")] {
            fs::write(&file, text).expect("a file");
            let error = recall(&file).unwrap_err().to_string();
            assert!(error.contains("does not hold remembered hosts") && error.contains(words), "{error}");
        }
    }
}
