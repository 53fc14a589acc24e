//! The limit of open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::settings::Limits;

/// Descriptors for everything except connections of switches and HTTP clients.
const OTHERS: u64 = 64;

/// Raises the soft limit of open files as far as needed and allowed. Returns the limits reduced to
/// the available descriptors.
pub(crate) fn raise_fd_limit(limits: Limits) -> Limits {
    let others = OTHERS.saturating_add(limits.http_connections as u64);
    let needed = (limits.connections as u64).saturating_add(limits.pending_handshakes as u64).saturating_add(others);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return limits };
    if soft >= needed {
        return limits;
    }
    let target = needed.min(hard);
    let soft = if setrlimit(Resource::RLIMIT_NOFILE, target, hard).is_ok() { target } else { soft };
    if soft >= needed {
        return limits;
    }
    // Both limits shrink.
    let room = soft.saturating_sub(others).max(2) as usize;
    let pending_handshakes = (room / 4).clamp(1, limits.pending_handshakes);
    let connections = room.saturating_sub(pending_handshakes).clamp(1, limits.connections);
    tracing::warn!(
        connections,
        pending_handshakes,
        "connection limits reduced: the limit of open files is {soft}; raise it with `ulimit -n`"
    );
    Limits { connections, pending_handshakes, ..limits }
}
