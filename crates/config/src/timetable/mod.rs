//! Timetables: the entry of a file that is in effect at a time of day on a day of the calendar.
//!
//! An entry covers the times from `from` to `to` of every day that `days`, `dates` and `except`
//! allow. The time is the one that a clock in the zone of the calendar shows. An hour that the
//! clock shows twice counts twice, and an hour that it skips does not occur. An entry that ends at
//! or before its beginning runs past midnight, and belongs to the day on which it begins.
//!
//! There is no clock here: callers pass the instant. Entries do not overlap, so that at most one is
//! in effect.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
pub use jiff::{SignedDuration, Timestamp};

pub use read::{DATES, DAYS, EXCEPT, FROM, START, TO, ZONE};

/// Seconds of a day in civil time.
const DAY_S: u32 = 86_400;

/// Entries of a calendar, which do not overlap.
#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    zone: TimeZone,
    entries: Vec<Period>,
}

/// The times that one entry covers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Period {
    /// Whether it begins on a day of the week; Monday first.
    days: [bool; 7],
    /// The dates on which it may begin; `None` for all.
    dates: Option<BTreeSet<Date>>,
    /// The dates on which it does not begin.
    except: BTreeSet<Date>,
    /// Seconds after midnight, below a day.
    from: u32,
    /// Seconds after the midnight before `from`: above it, and at most a day later.
    to: u32,
}

impl Period {
    fn begins_on(&self, date: Date) -> bool {
        let day = date.weekday().to_monday_zero_offset() as usize;
        self.days[day] && self.dates.as_ref().is_none_or(|dates| dates.contains(&date)) && !self.except.contains(&date)
    }

    /// Returns whether a clock that shows this date and these seconds after midnight is within it.
    fn covers(&self, date: Date, seconds: u32) -> bool {
        let is_since_today = (self.from..self.to).contains(&seconds) && self.begins_on(date);
        let late = seconds + DAY_S;
        let is_since_yesterday = || date.yesterday().is_ok_and(|day| self.begins_on(day));
        is_since_today || ((self.from..self.to).contains(&late) && is_since_yesterday())
    }

    /// Returns whether it covers any time at all.
    fn is_empty(&self) -> bool {
        match &self.dates {
            Some(dates) => !dates.iter().any(|date| self.begins_on(*date)),
            None => !self.days.contains(&true),
        }
    }

    /// Returns whether both cover a common time.
    fn overlaps(&self, other: &Period) -> bool {
        (-1..=1).any(|shift| {
            let moved = shift * i64::from(DAY_S);
            let (from, to) = (i64::from(other.from) + moved, i64::from(other.to) + moved);
            from < i64::from(self.to) && i64::from(self.from) < to && self.meets(other, shift)
        })
    }

    /// Returns whether `other` begins `shift` days after a beginning of this one.
    fn meets(&self, other: &Period, shift: i64) -> bool {
        let moved = |date: Date, days: i64| date.checked_add(jiff::Span::new().days(days)).ok();
        match (&self.dates, &other.dates) {
            (Some(dates), _) => dates
                .iter()
                .any(|date| self.begins_on(*date) && moved(*date, shift).is_some_and(|date| other.begins_on(date))),
            (None, Some(dates)) => dates
                .iter()
                .any(|date| other.begins_on(*date) && moved(*date, -shift).is_some_and(|date| self.begins_on(date))),
            // Exceptions are finitely many, so some week has none.
            (None, None) => {
                (0..7).any(|day: i64| self.days[day as usize] && other.days[(day + shift).rem_euclid(7) as usize])
            }
        }
    }
}

impl Default for Timetable {
    /// Returns a timetable without entries.
    fn default() -> Timetable {
        Timetable { zone: TimeZone::UTC, entries: Vec::new() }
    }
}

impl Timetable {
    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the position of the entry that is in effect.
    pub fn active(&self, at: Timestamp) -> Option<usize> {
        let shown = self.zone.to_datetime(at);
        let time = shown.time();
        let seconds = time.hour() as u32 * 3600 + time.minute() as u32 * 60 + time.second() as u32;
        self.entries.iter().position(|entry| entry.covers(shown.date(), seconds))
    }

    /// Returns an instant after `after` before which the entry in effect does not change: the next
    /// beginning or end of any entry on any day, the next midnight, or the next change of the
    /// offset of the zone. `None` at the end of the calendar.
    pub fn next_check(&self, after: Timestamp) -> Option<Timestamp> {
        let today = self.zone.to_datetime(after).date();
        let days = [Some(today), today.tomorrow().ok()].into_iter().flatten();
        let times: BTreeSet<u32> =
            self.entries.iter().flat_map(|entry| [entry.from, entry.to % DAY_S]).chain([0]).collect();
        let shown = days.flat_map(|day| times.iter().map(move |seconds| datetime(day, *seconds)));
        let instants = shown.flat_map(|shown| {
            let there = self.zone.to_ambiguous_timestamp(shown);
            [there.earlier().ok(), there.later().ok()].into_iter().flatten()
        });
        instants
            .chain(self.zone.following(after).next().map(|change| change.timestamp()))
            .filter(|at| *at > after)
            .min()
    }

    /// Returns the date and the time that a clock in the zone shows, such as `2026-11-27T08:00:00`.
    pub fn shown(&self, at: Timestamp) -> String {
        self.zone.to_datetime(at).to_string()
    }
}

fn datetime(day: Date, seconds: u32) -> DateTime {
    let part = |divisor: u32, modulus: u32| (seconds / divisor % modulus) as i8;
    day.to_datetime(Time::constant(part(3600, 24), part(60, 60), part(1, 60), 0))
}
