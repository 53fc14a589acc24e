//! The limit of open files.
//!
//! Each kind of connection has its own part of the descriptors, and a part is kept for files, so
//! that neither HTTP clients nor switches can take the descriptors of the other or of the store.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::settings::Limits;

/// Descriptors for everything except connections: standard streams, listeners, runtimes, store and
/// logs.
const OTHERS: usize = 64;

/// Raises the soft limit of open files as far as needed and allowed. Returns the limits reduced to
/// the available descriptors.
pub(crate) fn raise_fd_limit(limits: Limits) -> Limits {
    let needed = needed(&limits) as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return limits };
    if soft >= needed {
        return limits;
    }
    let target = needed.min(hard);
    let soft = if setrlimit(Resource::RLIMIT_NOFILE, target, hard).is_ok() { target } else { soft };
    if soft >= needed {
        return limits;
    }
    let limits = reduced(limits, soft as usize);
    let Limits { connections, pending_handshakes, http_connections, .. } = limits;
    tracing::warn!(
        connections,
        pending_handshakes,
        http_connections,
        "connection limits reduced: the limit of open files is {soft}; raise it with `ulimit -n`"
    );
    limits
}

/// Returns the number of descriptors for these limits. HTTP connections count twice: as many may be
/// in the TLS handshake.
fn needed(limits: &Limits) -> usize {
    let switches = limits.connections.saturating_add(limits.pending_handshakes);
    switches.saturating_add(limits.http_connections.saturating_mul(2)).saturating_add(OTHERS)
}

/// Reduces the limits to a number of descriptors: at most a quarter of those for connections is for
/// HTTP.
fn reduced(limits: Limits, descriptors: usize) -> Limits {
    let room = descriptors.saturating_sub(OTHERS);
    let http_connections = (room / 8).clamp(1, limits.http_connections);
    let switches = room.saturating_sub(2 * http_connections);
    let pending_handshakes = (switches / 4).clamp(1, limits.pending_handshakes);
    let connections = switches.saturating_sub(pending_handshakes).clamp(1, limits.connections);
    Limits { connections, pending_handshakes, http_connections, ..limits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_limits_leave_descriptors_for_files() {
        for descriptors in [80, 128, 256, 1024, 4096] {
            let limits = reduced(Limits::default(), descriptors);
            assert!(needed(&limits) <= descriptors, "{descriptors}: {limits:?}");
            assert!(limits.connections > limits.http_connections, "{descriptors}: {limits:?}");
        }
        let tiny = reduced(Limits::default(), 10);
        assert_eq!((tiny.connections, tiny.pending_handshakes, tiny.http_connections), (1, 1, 1));
    }
}
