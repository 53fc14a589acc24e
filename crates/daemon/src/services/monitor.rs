//! Health checks of members, as users define them.

use control::vip;
use net::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::field_error::FieldError;

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
    #[serde(default = "interval_s")]
    #[schema(minimum = 0.01, maximum = 86_400.0)]
    pub(crate) interval_s: f64,
    /// Time limit for a reply, in seconds: 0.01 up to the interval.
    #[serde(default = "timeout_s")]
    #[schema(minimum = 0.01, maximum = 86_400.0)]
    pub(crate) timeout_s: f64,
    /// Consecutive successful checks after which a failed member is up again.
    #[serde(default = "rise")]
    #[schema(minimum = 1)]
    pub(crate) rise: u32,
    /// Consecutive failed checks after which a member is down.
    #[serde(default = "fall")]
    #[schema(minimum = 1)]
    pub(crate) fall: u32,
}

fn path() -> String {
    "/".to_owned()
}
fn statuses() -> (u16, u16) {
    (200, 399)
}
fn interval_s() -> f64 {
    2.0
}
fn timeout_s() -> f64 {
    1.0
}
fn rise() -> u32 {
    1
}
fn fall() -> u32 {
    2
}

impl MonitorSpec {
    pub(super) fn new(
        check: CheckKind,
        port: Option<u16>,
        (interval_s, timeout_s): (f64, f64),
        fall: u32,
    ) -> MonitorSpec {
        let (path, statuses, rise) = (path(), statuses(), rise());
        MonitorSpec { check, port, path, statuses, interval_s, timeout_s, rise, fall }
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        let is_time = |time: f64| (0.01..=MONITOR_S).contains(&time);
        if !is_time(self.interval_s) {
            return Err(FieldError::new(
                "interval_s",
                format!("{} is not from 0.01 to {MONITOR_S} s", self.interval_s),
            ));
        }
        if !is_time(self.timeout_s) || self.timeout_s > self.interval_s {
            let message = format!("{} is not from 0.01 s to the interval, {} s", self.timeout_s, self.interval_s);
            return Err(FieldError::new("timeout_s", message));
        }
        for (field, value) in [("rise", self.rise), ("fall", self.fall)] {
            if value == 0 {
                return Err(FieldError::new(field, "must be above 0"));
            }
        }
        if self.port == Some(0) {
            return Err(FieldError::new("port", "must be above 0"));
        }
        let is_plain = self.path.len() <= 1000 && self.path.bytes().all(|byte| byte.is_ascii_graphic());
        if !(self.path.starts_with('/') && is_plain) {
            let rule = "must begin with `/`, in ASCII without spaces, at most 1,000 bytes";
            return Err(FieldError::new("path", rule));
        }
        let (lowest, highest) = self.statuses;
        if lowest > highest {
            return Err(FieldError::new("statuses", format!("no status is from {lowest} to {highest}")));
        }
        Ok(())
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
