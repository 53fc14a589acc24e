//! Reads `[calendar]` and the times of each `[[timetable]]`.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use super::{DAY_S, Period, Timetable};
use crate::diagnostic::FileError;
use crate::document::{Data, Value};
use crate::keys::{Key, Kind, key};
use crate::section::Section;

const DATE_LIST: Kind = Kind::List(&Kind::Text("date or dates"));
/// Maximum number of dates of an entry: ten years.
const DATES_MAX: usize = 3_660;
const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The zone of the calendar.
pub const ZONE: Key = key(
    "calendar",
    "zone",
    Kind::Text("time zone"),
    "\"UTC\"",
    "time zone of `[[timetable]]`: a name of the IANA time zone database, such as `Europe/Lisbon`; its rules are part of this program",
);
/// The date and time of the start.
pub const START: Key = key(
    "calendar",
    "start",
    Kind::Text("date and time"),
    "none",
    "date and time in the zone at the start, such as `2026-11-27T07:59:50`",
);
/// The days of the week of an entry.
pub const DAYS: Key = key(
    "timetable",
    "days",
    Kind::List(&Kind::Text("day or days")),
    "all days",
    "`[[timetable]]`: what is in effect at a time of day; days of the week on which it begins, such as [\"mon-fri\", \"sun\"]",
);
/// The dates of an entry.
pub const DATES: Key = key(
    "timetable",
    "dates",
    DATE_LIST,
    "all dates",
    "dates on which the entry begins, such as [\"2026-12-24\", \"2026-12-31..2027-01-02\"]",
);
/// The dates without an entry.
pub const EXCEPT: Key = key("timetable", "except", DATE_LIST, "none", "dates on which the entry does not begin");
/// The beginning of an entry.
pub const FROM: Key = key(
    "timetable",
    "from",
    Kind::Text("time of day"),
    "\"00:00\"",
    "time of day at which the entry begins, such as `08:00` or `08:00:30`",
);
/// The end of an entry.
pub const TO: Key = key(
    "timetable",
    "to",
    Kind::Text("time of day"),
    "\"24:00\"",
    "time of day at which the entry ends; on the next day if it is not after `from`",
);

impl Timetable {
    /// Reads the calendar and the times of its entries. Returns the entries of the file in the same
    /// order, for the content that depends on the kind of file.
    ///
    /// # Errors
    /// An unknown zone, an entry that covers no time, and two entries that overlap are errors.
    pub fn read<'a>(top: &Section<'a>) -> Result<(Timetable, Vec<Section<'a>>), FileError> {
        let calendar = top.section("calendar")?;
        let sections = top.sections("timetable")?;
        if sections.is_empty() && calendar.has(START.name) {
            return Err(calendar.error(START.name, "has no effect without [[timetable]]"));
        }
        let zone = calendar.text(ZONE.name)?.unwrap_or("UTC");
        let zone = TimeZone::get(zone).map_err(|_| {
            let error = calendar.error(ZONE.name, format!("`{zone}` is not a time zone"));
            error.with_hint("write a name of the IANA time zone database, such as \"UTC\" or \"Europe/Lisbon\"")
        })?;
        let entries: Vec<Period> = sections.iter().map(period).collect::<Result<_, _>>()?;
        for (later, entry) in entries.iter().enumerate() {
            if let Some(earlier) = entries[..later].iter().position(|other| other.overlaps(entry)) {
                let message =
                    format!("this entry covers a time that entry {} of [[timetable]] covers too", earlier + 1);
                let hint = "change `from`, `to`, `days` or `dates` of one of them, or exclude dates with `except`";
                return Err(sections[later].error("", message).with_hint(hint));
            }
        }
        Ok((Timetable { zone, entries }, sections))
    }

    /// Reads the date and time of the start as an instant; `None` without the key. Of two instants
    /// with the same time it is the first.
    ///
    /// # Errors
    /// A time that the clock skips is an error.
    pub fn start(&self, top: &Section<'_>) -> Result<Option<Timestamp>, FileError> {
        let calendar = top.section("calendar")?;
        let Some(text) = calendar.text(START.name)? else { return Ok(None) };
        let wrong = |message: String| {
            calendar.error(START.name, message).with_hint("write a date and a time, such as \"2026-11-27T07:59:50\"")
        };
        let shown: DateTime = text.parse().map_err(|_| wrong(format!("`{text}` is not a date and time")))?;
        let there = self.zone.to_ambiguous_timestamp(shown);
        if matches!(there.offset(), AmbiguousOffset::Gap { .. }) {
            return Err(wrong(format!("the clock of the zone never shows {text}: it skips this hour")));
        }
        there.earlier().map(Some).map_err(|_| wrong(format!("`{text}` is out of range")))
    }
}

fn period(section: &Section<'_>) -> Result<Period, FileError> {
    let from = time(section, FROM.name)?.unwrap_or(0);
    let to = time(section, TO.name)?.unwrap_or(DAY_S);
    if from == DAY_S {
        return Err(section.error(FROM.name, "24:00 is the end of a day").with_hint("write \"00:00\""));
    }
    if from == to {
        let error = section.error(TO.name, "the entry covers no time: it ends when it begins");
        return Err(error.with_hint("leave out `from` and `to` for whole days"));
    }
    let dates = section.has(DATES.name).then(|| dates(section, DATES.name)).transpose()?;
    let period = Period {
        days: days(section)?,
        dates,
        except: self::dates(section, EXCEPT.name)?,
        from,
        to: if to > from { to } else { to + DAY_S },
    };
    if period.is_empty() {
        let key = [DATES.name, DAYS.name].into_iter().find(|key| section.has(key)).unwrap_or_default();
        let error = section.error(key, "the entry covers no day: no date is on these days, or all are in `except`");
        return Err(error.with_hint("change `days`, `dates` or `except`, or remove the entry"));
    }
    Ok(period)
}

/// Reads a time of day as seconds after midnight.
fn time(section: &Section<'_>, key: &str) -> Result<Option<u32>, FileError> {
    let Some(text) = section.text(key)? else { return Ok(None) };
    let parts: Vec<Option<u32>> = text
        .split(':')
        .map(|part| {
            Some(part).filter(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
        })
        .collect();
    let seconds = match parts[..] {
        [Some(hour), Some(minute)] => Some((hour, minute, 0)),
        [Some(hour), Some(minute), Some(second)] => Some((hour, minute, second)),
        _ => None,
    };
    let seconds = seconds.filter(|(_, minute, second)| *minute < 60 && *second < 60);
    let seconds = seconds.map(|(hour, minute, second)| hour * 3600 + minute * 60 + second);
    let wrong =
        || section.error(key, format!("`{text}` is not a time of day")).with_hint("write \"00:00\" to \"24:00\"");
    seconds.filter(|seconds| *seconds <= DAY_S).map(Some).ok_or_else(wrong)
}

/// Returns an item of a list as text.
fn text<'a>(section: &Section<'_>, key: &str, value: &'a Value) -> Result<&'a str, FileError> {
    match &value.data {
        Data::Text(text) => Ok(text),
        _ => Err(section.document.error(
            &value.at,
            &section.dotted_key(key),
            format!("must be text, not {}", value.kind()),
        )),
    }
}

fn days(section: &Section<'_>) -> Result<[bool; 7], FileError> {
    if !section.has(DAYS.name) {
        return Ok([true; 7]);
    }
    let mut days = [false; 7];
    for value in section.list(DAYS.name) {
        let text = text(section, DAYS.name, value)?;
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let day = |name: &str| NAMES.iter().position(|known| *known == name.trim());
        let (Some(first), Some(last)) = (day(first), day(last)) else {
            let error = section.document.error(
                &value.at,
                &section.dotted_key(DAYS.name),
                format!("`{text}` is not a day of the week"),
            );
            return Err(error.with_hint("write days as \"mon\", or as \"mon-fri\""));
        };
        // From Saturday to Monday there are three days.
        (0..=(last + 7 - first) % 7).for_each(|step| days[(first + step) % 7] = true);
    }
    Ok(days)
}

fn dates(section: &Section<'_>, key: &str) -> Result<BTreeSet<Date>, FileError> {
    let mut dates = BTreeSet::new();
    for value in section.list(key) {
        let text = text(section, key, value)?;
        let error = |message: String| {
            let error = section.document.error(&value.at, &section.dotted_key(key), message);
            error.with_hint("write dates as \"2026-12-24\", or as \"2026-12-24..2026-12-26\"")
        };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let parse = |part: &str| part.trim().parse::<Date>().map_err(|_| error(format!("`{part}` is not a date")));
        let (mut date, last) = (parse(first)?, parse(last)?);
        if date > last {
            return Err(error(format!("`{text}` ends before it begins")));
        }
        while date <= last {
            dates.insert(date);
            if dates.len() > DATES_MAX {
                return Err(error(format!("has more than {DATES_MAX} dates")));
            }
            date = date.checked_add(Span::new().days(1)).map_err(|_| error(format!("`{text}` is out of range")))?;
        }
    }
    Ok(dates)
}
