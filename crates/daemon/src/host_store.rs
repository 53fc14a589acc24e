//! The file of learned hosts, which survives a restart of the daemon.
//!
//! Rules towards an unknown host look like leftovers, and the controller removes them. With the
//! stored hosts a restarted daemon adopts the rules of its previous instance. The file is a cache:
//! hosts are learned again, so a damaged file does not prevent the start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control::{Event, KnownHost};
use nix::errno::Errno;
use openflow::{DatapathId, PortNo};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, oneshot};

use crate::config;
use crate::events::{DaemonEvent, dpid};
use crate::server::Handle;
use crate::services::Mac;
use crate::storage::{Disk, Format, LoadError, ReplaceError, StoredFile, with_suffix};

const FORMAT: Format = Format { kind: "anabranch-hosts", oldest: 1, newest: 1, bare: 0 };

/// Time to collect hosts that appear together before one write.
const BATCH_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
#[error("cannot read the stored hosts from {file}")]
pub struct StateError {
    file: String,
    source: std::io::Error,
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

#[derive(Debug)]
pub(crate) struct HostStore(StoredFile);

impl HostStore {
    pub(crate) fn new(disk: Arc<dyn Disk>, file: &Path) -> HostStore {
        HostStore(StoredFile { disk, path: file.to_owned(), format: FORMAT })
    }

    /// Loads the hosts; a missing file holds none. A file that cannot be used gets another name,
    /// and its hosts are learned again.
    ///
    /// # Errors
    /// The file exists and the daemon may not read it.
    pub(crate) fn load(&self) -> Result<Vec<KnownHost>, StateError> {
        let message = match self.0.load() {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some(body)) => match parse(&body) {
                Ok(hosts) => return Ok(hosts),
                Err(message) => message,
            },
            Err(LoadError::Content(error)) => error.to_string(),
            // A damaged medium; other errors are mistakes of the operator, such as missing rights.
            Err(LoadError::Io(source)) if source.raw_os_error() == Some(Errno::EIO as i32) => source.to_string(),
            Err(LoadError::Io(source)) => {
                return Err(StateError { file: self.0.path.display().to_string(), source });
            }
        };
        let aside = with_suffix(&self.0.path, ".damaged");
        let (file, moved) = (self.0.path.display(), self.0.disk.rename(&self.0.path, &aside));
        let aside = match moved {
            Ok(()) => format!("it is now {}", aside.display()),
            Err(error) => format!("it cannot be renamed: {error}"),
        };
        tracing::error!("{file} is not an intact file of stored hosts: {message}; {aside}; hosts are learned again");
        Ok(Vec::new())
    }

    fn write(&self, hosts: &[KnownHost]) -> Result<(), ReplaceError> {
        let host = |&KnownHost { mac, ipv4, datapath, port }: &KnownHost| Host {
            mac: Mac(mac),
            ipv4,
            dpid: dpid(datapath),
            port: port.0,
        };
        let stored = StoredHosts { hosts: hosts.iter().map(host).collect() };
        let mut body = serde_json::to_vec_pretty(&stored).map_err(|error| ReplaceError::Kept(error.into()))?;
        body.push(b'\n');
        self.0.replace(&body)
    }
}

fn parse(body: &[u8]) -> Result<Vec<KnownHost>, String> {
    let stored: StoredHosts = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let host = |host: Host| {
        let datapath = config::datapath(&host.dpid).ok_or_else(|| format!("`{}` is not a datapath id", host.dpid))?;
        Ok(KnownHost { mac: host.mac.0, ipv4: host.ipv4, datapath: DatapathId(datapath), port: PortNo(host.port) })
    };
    stored.hosts.into_iter().map(host).collect()
}

pub(crate) async fn persist_loop(handle: Handle, store: Arc<HostStore>, mut stop: oneshot::Receiver<()>) {
    let persist = async {
        let mut events = handle.events.subscribe();
        while next(&mut events).await {
            tokio::time::sleep(BATCH_TIME).await;
            let hosts = handle
                .ask(|engine| engine.controller.inspect().hosts().map(|host| host.known).collect::<Vec<_>>())
                .await;
            let Ok(hosts) = hosts else { return };
            let writer = store.clone();
            // In another thread, so that a disk that does not respond cannot delay the end.
            let written = tokio::task::spawn_blocking(move || writer.write(&hosts)).await;
            if let Ok(Err(error)) = written {
                tracing::error!(file = %store.0.path.display(), "cannot store learned hosts: {error}");
            }
        }
    };
    tokio::select! {
        _ = &mut stop => {}
        () = persist => {}
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
    use std::fs;

    use super::*;
    use crate::storage::RealDisk;
    use crate::storage::sim_disk::{Fault, SimDisk};

    fn host(last: u8, port: u32) -> KnownHost {
        let mac = openflow::MacAddr([2, 0, 0, 0, 0, last]);
        KnownHost { mac, ipv4: [10, 0, 0, last].into(), datapath: DatapathId(0xa1), port: PortNo(port) }
    }

    #[test]
    fn hosts_come_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("hosts");
        let store = HostStore::new(Arc::new(RealDisk), &file);
        assert_eq!(store.load().expect("a file that is not there remembers none"), []);
        store.write(&[host(1, 1), host(2, 2)]).expect("a file");
        assert_eq!(store.load().expect("hosts"), [host(1, 1), host(2, 2)]);
        fs::remove_file(&file).expect("the file");
        fs::create_dir(&file).expect("a folder");
        let error = store.load().expect_err("a folder is not set aside").to_string();
        assert!(error.starts_with("cannot read the stored hosts from"), "{error}");
    }

    #[test]
    fn damaged_file_is_set_aside_and_hosts_are_learned_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("hosts");
        let store = HostStore::new(Arc::new(RealDisk), &file);
        store.write(&[host(1, 1), host(2, 2)]).expect("a file");
        let whole = fs::read(&file).expect("the file");
        let bit_errors = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        });
        let invalid = FORMAT.encode(
            b"{\"hosts\": [{\"mac\": \"02:00:00:00:00:01\", \"ipv4\": \"10.0.0.1\", \"dpid\": \"x\", \"port\": 1}]}",
        );
        let older = b"{\"hosts\": []}".to_vec();
        for bytes in bit_errors.chain([invalid, older, Vec::new(), whole[..whole.len() / 2].to_vec()]) {
            fs::write(&file, &bytes).expect("the file");
            assert_eq!(store.load().expect("the damage does not prevent the start"), []);
            assert!(!file.exists());
            assert_eq!(fs::read(folder.path().join("hosts.damaged")).expect("the file under its new name"), bytes);
        }
        store.write(&[host(1, 1)]).expect("a new file");
        assert_eq!(store.load().expect("hosts"), [host(1, 1)]);
    }

    #[test]
    fn file_that_cannot_be_renamed_does_not_prevent_the_start() {
        let disk = SimDisk::default();
        let store = HostStore::new(Arc::new(disk.clone()), Path::new("/hosts"));
        disk.create(Path::new("/hosts")).expect("a file").write_all(b"{").expect("it is written");
        disk.fail(0..usize::MAX, Fault::Error);
        assert_eq!(store.load().expect("no hosts"), []);
        disk.fail_reads();
        assert_eq!(store.load().expect("no hosts, from a damaged medium"), []);
        assert!(store.write(&[host(1, 1)]).is_err());
        let disk = disk.after_restart();
        let store = HostStore::new(Arc::new(disk), Path::new("/hosts"));
        store.write(&[host(1, 1)]).expect("the disk works again");
        assert_eq!(store.load().expect("hosts"), [host(1, 1)]);
    }
}
