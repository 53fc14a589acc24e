//! How members are checked, as users write it.

use control::vip;
use net::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::fault::Fault;

/// Longest time of a monitor, s.
const MONITOR_S: f64 = 86_400.0;

/// What is asked of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckKind {
    /// An echo, of ICMP.
    Icmp,
    /// A connection of TCP, which is broken off at once.
    Tcp,
    /// A page, over HTTP/1.0.
    Http,
}

/// How members are checked. Needs `[services] checker` in the configuration: the address checks come from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MonitorSpec {
    /// What is asked.
    pub(crate) check: CheckKind,
    /// Where; the member's port, or that of the first service of the pool, if nothing is said.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) port: Option<u16>,
    /// Path of the page, for HTTP.
    #[serde(default = "path")]
    #[schema(pattern = "^/[!-~]{0,999}$", example = "/health")]
    pub(crate) path: String,
    /// Least and greatest status that is well, for HTTP.
    #[serde(default = "statuses")]
    #[schema(value_type = [u16; 2], example = json!([200, 399]))]
    pub(crate) statuses: (u16, u16),
    /// Time from the beginning of a check to that of the next one, s: from 0.01 to 86400.
    #[serde(default = "interval_s")]
    #[schema(minimum = 0.01, maximum = 86_400.0)]
    pub(crate) interval_s: f64,
    /// How long an answer is waited for, s: from 0.01 up to the interval.
    #[serde(default = "timeout_s")]
    #[schema(minimum = 0.01, maximum = 86_400.0)]
    pub(crate) timeout_s: f64,
    /// Checks in a row that must succeed before a member that failed may serve again.
    #[serde(default = "rise")]
    #[schema(minimum = 1)]
    pub(crate) rise: u32,
    /// Checks in a row that must fail before a member counts as failing.
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
    /// A monitor with what is usual for the rest; times are interval and timeout, s.
    pub(super) fn new(
        check: CheckKind,
        port: Option<u16>,
        (interval_s, timeout_s): (f64, f64),
        fall: u32,
    ) -> MonitorSpec {
        let (path, statuses, rise) = (path(), statuses(), rise());
        MonitorSpec { check, port, path, statuses, interval_s, timeout_s, rise, fall }
    }

    /// The first fault, by its field.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let is_time = |time: f64| (0.01..=MONITOR_S).contains(&time);
        if !is_time(self.interval_s) {
            return Err(Fault::at("interval_s", format!("{} is not from 0.01 to {MONITOR_S} s", self.interval_s)));
        }
        if !is_time(self.timeout_s) || self.timeout_s > self.interval_s {
            let words = format!("{} is not from 0.01 s to the interval, {} s", self.timeout_s, self.interval_s);
            return Err(Fault::at("timeout_s", words));
        }
        for (field, value) in [("rise", self.rise), ("fall", self.fall)] {
            if value == 0 {
                return Err(Fault::at(field, "must be above 0"));
            }
        }
        if self.port == Some(0) {
            return Err(Fault::at("port", "must be above 0"));
        }
        let is_plain = self.path.len() <= 1000 && self.path.bytes().all(|byte| byte.is_ascii_graphic());
        if !(self.path.starts_with('/') && is_plain) {
            let rule = "must begin with `/`, in ASCII without spaces, at most 1,000 bytes";
            return Err(Fault::at("path", rule));
        }
        let (least, greatest) = self.statuses;
        if least > greatest {
            return Err(Fault::at("statuses", format!("there is no status from {least} to {greatest}")));
        }
        Ok(())
    }

    /// As the controller takes it.
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

impl CheckKind {
    /// In a word, for people.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            CheckKind::Icmp => "ICMP",
            CheckKind::Tcp => "TCP",
            CheckKind::Http => "HTTP",
        }
    }
}
