//! Health checks of members, as users define them.

use control::vip;
use net::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::spec::number;
use super::{FieldError, require};

const MONITOR_S: f64 = 86_400.0;

/// Kind of a health check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckKind {
    Icmp,
    /// A TCP connection, closed as soon as it is open.
    Tcp,
    /// An HTTP/1.0 request.
    Http,
}

/// A health check of members. It needs `[services] health_check_address` in the configuration: the source
/// address of health checks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MonitorSpec {
    pub(crate) check: CheckKind,
    /// Port of the check. By default the port of the member, or that of the first service of the
    /// pool.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) port: Option<u16>,
    #[serde(default = "path")]
    #[schema(pattern = "^/[!-~]{0,999}$", example = "/health")]
    pub(crate) path: String,
    /// Lowest and highest HTTP status of a healthy member.
    #[serde(default = "statuses")]
    #[schema(value_type = [u16; 2], example = json!([200, 399]))]
    pub(crate) statuses: (u16, u16),
    /// Time between the starts of two checks, in seconds: 0.01 to 86400.
    #[serde(default = "number::<2, _>")]
    #[schema(minimum = 0.01, maximum = 86_400.0)]
    pub(crate) interval_s: f64,
    /// Time limit for a reply, in seconds: 0.01 up to the interval.
    #[serde(default = "number::<1, _>")]
    #[schema(minimum = 0.01, maximum = 86_400.0)]
    pub(crate) timeout_s: f64,
    /// Consecutive successful checks after which a failed member is up again.
    #[serde(default = "number::<1, _>")]
    #[schema(minimum = 1)]
    pub(crate) rise: u32,
    /// Consecutive failed checks after which a member is down.
    #[serde(default = "number::<2, _>")]
    #[schema(minimum = 1)]
    pub(crate) fall: u32,
}

pub(in crate::services) fn path() -> String {
    "/".to_owned()
}
pub(in crate::services) fn statuses() -> (u16, u16) {
    (200, 399)
}

impl MonitorSpec {
    pub(super) fn check(&self) -> Result<(), FieldError> {
        let is_time = |time: f64| (0.01..=MONITOR_S).contains(&time);
        let (interval_s, timeout_s) = (self.interval_s, self.timeout_s);
        let message = format_args!("{interval_s} is not from 0.01 to {MONITOR_S} s");
        require(is_time(interval_s), "interval_s", message)?;
        let message = format_args!("{timeout_s} is not from 0.01 s to the interval, {interval_s} s");
        require(is_time(timeout_s) && timeout_s <= interval_s, "timeout_s", message)?;
        require(self.rise > 0, "rise", "must be above 0")?;
        require(self.fall > 0, "fall", "must be above 0")?;
        require(self.port != Some(0), "port", "must be above 0")?;
        let is_plain = self.path.len() <= 1000 && self.path.bytes().all(|byte| byte.is_ascii_graphic());
        let rule = "must begin with `/`, in ASCII without spaces, at most 1,000 bytes";
        require(self.path.starts_with('/') && is_plain, "path", rule)?;
        let (lowest, highest) = self.statuses;
        require(lowest <= highest, "statuses", format_args!("no status is from {lowest} to {highest}"))
    }

    pub(super) fn compile(&self) -> vip::Monitor {
        let check = match self.check {
            CheckKind::Icmp => vip::Check::Icmp,
            CheckKind::Tcp => vip::Check::Tcp,
            CheckKind::Http => vip::Check::Http { path: self.path.clone(), statuses: self.statuses },
        };
        let (interval, timeout) = (Time::from_s_f64(self.interval_s), Time::from_s_f64(self.timeout_s));
        vip::Monitor { check, port: self.port, interval, timeout, rise: self.rise, fall: self.fall }
    }
}
