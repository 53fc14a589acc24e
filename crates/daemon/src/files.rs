//! File descriptors: as many as the process may have.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::settings::Limits;

/// Descriptors for everything but connections of switches.
const OTHERS: u64 = 64;

/// Raises the soft limit of open files as far as needed and allowed; the limits that can be kept.
pub(crate) fn within_limits(limits: Limits) -> Limits {
    let needed = (limits.connections as u64).saturating_add(limits.handshaking as u64).saturating_add(OTHERS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return limits };
    if soft >= needed {
        return limits;
    }
    let wanted = needed.min(hard);
    let soft = if setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() { wanted } else { soft };
    if soft >= needed {
        return limits;
    }
    // A share of what there is, the same for both.
    let room = soft.saturating_sub(OTHERS).max(2) as usize;
    let handshaking = (room / 4).clamp(1, limits.handshaking);
    let connections = room.saturating_sub(handshaking).clamp(1, limits.connections);
    tracing::warn!(connections, handshaking, "the limit of open files ({soft}) allows no more connections than this");
    Limits { connections, handshaking, ..limits }
}
