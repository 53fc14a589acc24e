//! The audit log: who changed what, one JSON object per line.
//!
//! A line is on disk before the response to its request is sent. The file is opened again when
//! another program has renamed or removed it, as logrotate does. Tokens are never written, only
//! their names.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

#[derive(Debug, thiserror::Error)]
#[error("cannot write the audit log {file}")]
pub struct AuditError {
    file: String,
    source: io::Error,
}

/// The sender of a change, or its file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Actor {
    Request {
        /// Name of the token; `None` if no tokens are configured.
        token: Option<String>,
        source: IpAddr,
        method: String,
        path: String,
    },
    /// The configuration file, at a start or reload.
    Configuration { source: &'static str },
}

impl Actor {
    pub(crate) const CONFIGURATION: Actor = Actor::Configuration { source: "configuration file" };
}

/// A change. Definitions that are equal before and after are left out.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    #[serde(flatten)]
    pub(crate) by: Actor,
    /// Revision of the services after the change; `None` for other changes.
    pub(crate) revision: Option<u64>,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

impl Change {
    pub(crate) fn of_balancer(by: Actor, before: String, after: String) -> Change {
        let [before, after] = [before, after].map(|label| json!({ "balancer": label }));
        Change { by, revision: None, before, after }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    change: &'a Change,
}

#[derive(Debug)]
struct Target {
    path: PathBuf,
    file: File,
}

/// The audit log; without a file it drops all lines.
#[derive(Debug, Default)]
pub(crate) struct AuditLog(Mutex<Option<Target>>);

impl AuditLog {
    pub(crate) fn open(path: Option<&Path>) -> Result<AuditLog, AuditError> {
        let target = path.map(Target::open).transpose();
        let failed = |source| AuditError { file: path.unwrap_or(Path::new("")).display().to_string(), source };
        Ok(AuditLog(Mutex::new(target.map_err(failed)?)))
    }

    /// Writes to the file of `other` from now on.
    pub(crate) fn replace(&self, other: AuditLog) {
        let target = other.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Writes a change. The disk can be slow, so a separate thread waits for it.
    pub(crate) async fn record(self: &Arc<AuditLog>, change: Change) {
        let log = self.clone();
        let written = tokio::task::spawn_blocking(move || log.write(&change)).await;
        if let Err(error) = written {
            tracing::error!("the audit log has no line of a change: {error}");
        }
    }

    /// Writes a change. An error is logged: the change is already in effect.
    pub(crate) fn write(&self, change: &Change) {
        let mut target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = &mut *target else { return };
        if let Err(error) = target.append(change) {
            let file = target.path.display();
            tracing::error!("cannot write the audit log {file}: {error}; a change by {:?} has no line", change.by);
        }
    }
}

impl Target {
    fn open(path: &Path) -> io::Result<Target> {
        // Only its owner may read which services exist.
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        Ok(Target { path: path.to_owned(), file })
    }

    fn append(&mut self, change: &Change) -> io::Result<()> {
        let identity = |file: Metadata| (file.dev(), file.ino());
        let opened = identity(self.file.metadata()?);
        if !std::fs::metadata(&self.path).is_ok_and(|now| identity(now) == opened) {
            *self = Target::open(&self.path)?;
        }
        let mut line = serde_json::to_vec(&Line { time: now(), change })?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

/// Returns the time of day in the format of the log (RFC 3339, UTC).
fn now() -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let written = SystemTime.format_time(&mut Writer::new(&mut text));
    debug_assert!(written.is_ok(), "the time is formatted");
    text
}

/// Returns the parts in which two values differ, down to this depth of objects.
pub(crate) fn difference(before: &Value, after: &Value, depth: u32) -> (Value, Value) {
    let (Value::Object(old), Value::Object(new), 1..) = (before, after, depth) else {
        return (before.clone(), after.clone());
    };
    let (mut removed, mut added) = (Map::new(), Map::new());
    for (key, old) in old {
        match new.get(key) {
            Some(new) if new == old => {}
            Some(new) => {
                let (old, new) = difference(old, new, depth - 1);
                removed.insert(key.clone(), old);
                added.insert(key.clone(), new);
            }
            None => drop(removed.insert(key.clone(), old.clone())),
        }
    }
    added.extend(new.iter().filter(|(key, _)| !old.contains_key(*key)).map(|(key, new)| (key.clone(), new.clone())));
    (removed.into(), added.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_lists_changed_definitions_only() {
        let before = json!({"pools": {"a": {"x": 1, "y": 1}, "b": {}, "c": {}}, "same": 1});
        let after = json!({"pools": {"a": {"x": 2, "y": 1}, "b": {}, "d": {}}, "same": 1});
        let expected =
            (json!({"pools": {"a": {"x": 1, "y": 1}, "c": {}}}), json!({"pools": {"a": {"x": 2, "y": 1}, "d": {}}}));
        assert_eq!(difference(&before, &after, 2), expected);
        assert_eq!(difference(&before, &before, 2), (json!({}), json!({})));
    }

    #[test]
    fn renamed_file_is_replaced_by_a_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, rotated] = ["audit.log", "audit.log.1"].map(|name| folder.path().join(name));
        let log = AuditLog::open(Some(&file)).expect("a log");
        let write = |revision| {
            let by = Actor::CONFIGURATION;
            log.write(&Change { by, revision: Some(revision), before: json!({}), after: json!({}) });
        };
        let revisions = |file: &Path| -> Vec<u64> {
            let text = std::fs::read_to_string(file).expect("a file");
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            lines.filter_map(|line| line["revision"].as_u64()).collect()
        };
        write(1);
        std::fs::rename(&file, &rotated).expect("it is renamed");
        write(2);
        assert_eq!((revisions(&rotated), revisions(&file)), (vec![1], vec![2]));
        std::fs::remove_file(&file).expect("it is removed");
        write(3);
        // logrotate's `copytruncate`.
        std::fs::write(&file, "").expect("it is emptied");
        write(4);
        assert_eq!(revisions(&file), [4]);
        assert!(AuditLog::open(Some(folder.path())).is_err(), "a folder");
    }
}
