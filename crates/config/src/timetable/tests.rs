use proptest::prelude::*;

use super::*;
use crate::document::Document;
use crate::keys::Layout;
use crate::section::Section;

static LAYOUT: Layout =
    Layout { keys: &[ZONE, START, DAYS, DATES, EXCEPT, FROM, TO], repeated: &["timetable"], flat: &[] };

fn read(text: &str) -> Result<(Timetable, Option<Timestamp>), String> {
    let document = Document::parse("a.toml", text, &LAYOUT).expect("a document");
    let top = Section::top(&document).expect("declared keys");
    let read = Timetable::read(&top).and_then(|(timetable, _)| Ok((timetable.start(&top)?, timetable)));
    read.map(|(start, timetable)| (timetable, start)).map_err(|error| error.to_string())
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// A second implementation: the calendar by arithmetic on days, and the rule of the European Union
/// for summer time (the last Sundays of March and October, 01:00 UTC).
mod simple {
    /// Returns the year, month and day of a number of days after 1970-01-01, by counting.
    pub fn date(days: i64) -> (i64, i64, i64) {
        let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let (mut year, mut left) = (1970, days);
        while left >= 365 + i64::from(is_leap(year)) {
            left -= 365 + i64::from(is_leap(year));
            year += 1;
        }
        let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while left >= lengths[month] {
            left -= lengths[month];
            month += 1;
        }
        (year, month as i64 + 1, left + 1)
    }

    /// Returns the day of the week, Monday first; 1970-01-01 was a Thursday.
    pub fn weekday(days: i64) -> usize {
        (days + 3).rem_euclid(7) as usize
    }

    /// Returns the offset of Lisbon at a second after 1970.
    pub fn lisbon(second: i64) -> i64 {
        let (year, ..) = date(second.div_euclid(86_400));
        let last_sunday = |month: i64| {
            let of_month = |day: &i64| date(*day).1 == month && date(*day).0 == year && weekday(*day) == 6;
            let first = (year - 1970) * 365;
            // Leap years have moved the year by less than 30 days so far.
            (first + month * 30 - 20..first + month * 30 + 45).filter(of_month).max().expect("a Sunday") * 86_400
                + 3_600
        };
        if (last_sunday(3)..last_sunday(10)).contains(&second) { 3_600 } else { 0 }
    }

    /// An entry: days of the week, seconds of beginning and end, and the days without it.
    pub struct Entry {
        pub days: Vec<usize>,
        pub from: i64,
        pub to: i64,
        pub except: Vec<(i64, i64, i64)>,
    }

    pub fn is_active(entry: &Entry, second: i64, offset: i64) -> bool {
        let (day, time) = ((second + offset).div_euclid(86_400), (second + offset).rem_euclid(86_400));
        let begins = |day: i64| entry.days.contains(&weekday(day)) && !entry.except.contains(&date(day));
        if entry.from < entry.to {
            begins(day) && entry.from <= time && time < entry.to
        } else {
            (begins(day) && time >= entry.from) || (begins(day - 1) && time < entry.to)
        }
    }
}

fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

/// Returns a file with one entry, and the same entry for the second implementation.
fn one(zone: &str, days: &[usize], (from, to): (i64, i64), except: &[(i64, i64, i64)]) -> (Timetable, simple::Entry) {
    const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let names: Vec<String> = days.iter().map(|day| format!("\"{}\"", NAMES[*day])).collect();
    let dates: Vec<String> = except.iter().map(|(y, m, d)| format!("\"{y}-{m:02}-{d:02}\"")).collect();
    let text = format!(
        "[calendar]\nzone = \"{zone}\"\n[[timetable]]\ndays = [{}]\nexcept = [{}]\nfrom = \"{}\"\nto = \"{}\"\n",
        names.join(", "),
        dates.join(", "),
        clock(from),
        clock(to)
    );
    let (timetable, _) = read(&text).expect("a timetable");
    (timetable, simple::Entry { days: days.to_vec(), from, to, except: except.to_vec() })
}

/// Every minute of 2026 and 2028 (a leap year), in a zone with two changes of the clock a year and
/// in UTC: midnights, ends of months, of February and of years are among them.
#[test]
fn every_minute_of_two_years_agrees_with_a_second_implementation() {
    let all: Vec<usize> = (0..7).collect();
    let cases: [(&[usize], (i64, i64)); 5] = [
        (&all, (30 * 60, 90 * 60)),
        (&[6], (1800, 3600 * 2 + 1800)),
        (&[4, 5], (22 * 3600, 6 * 3600)),
        (&[0, 1, 2, 3, 4], (8 * 3600, 18 * 3600)),
        (&[2], (0, 86_400)),
    ];
    let except = [(2026, 1, 31), (2026, 3, 29), (2028, 2, 29), (2026, 12, 31)];
    for (days, times) in cases {
        for zone in ["UTC", "Europe/Lisbon"] {
            let (timetable, entry) = one(zone, days, times, &except);
            for (first, minutes) in [(1_767_225_600, 525_600), (1_830_297_600, 527_040)] {
                let (mut offset, mut check) = (0, first);
                let mut active = None;
                for minute in 0..minutes {
                    let second = first + minute * 60;
                    // The offset changes on whole hours.
                    if second % 3600 == 0 && zone != "UTC" {
                        offset = simple::lisbon(second);
                    }
                    let now = Timestamp::from_second(second).expect("in range");
                    let expected = simple::is_active(&entry, second, offset);
                    assert_eq!(timetable.active(now).is_some(), expected, "{zone} {now}");
                    if second >= check {
                        check = timetable.next_check(now).expect("more time").as_second();
                        active = Some(expected);
                    }
                    assert_eq!(active, Some(expected), "{zone} {now}: changes before the next check");
                }
            }
        }
    }
}

proptest! {
    /// Any entry, at any minute of the days around both changes of the clock and at year ends.
    #[test]
    fn any_entry_agrees_with_a_second_implementation(
        days in proptest::collection::btree_set(0usize..7, 1..7),
        from in 0i64..1440,
        to in 0i64..=1440,
        day in prop::sample::select(vec![20_541i64, 20_540, 20_751, 20_750, 20_818, 20_819, 20_453]),
        minute in 0i64..1440,
    ) {
        prop_assume!(from != to);
        let days: Vec<usize> = days.into_iter().collect();
        let (timetable, entry) = one("Europe/Lisbon", &days, (from * 60, to * 60), &[]);
        let second = day * 86_400 + minute * 60;
        let now = Timestamp::from_second(second).expect("in range");
        let expected = |second: i64| simple::is_active(&entry, second, simple::lisbon(second));
        prop_assert_eq!(timetable.active(now).is_some(), expected(second));
        let next = timetable.next_check(now).expect("more time");
        prop_assert!(next > now && next.duration_since(now) <= SignedDuration::from_hours(26));
        for between in (second..next.as_second()).step_by(60) {
            prop_assert_eq!(expected(between), expected(second));
        }
    }

    /// Two entries are refused exactly if some minute of three weeks is in both.
    #[test]
    fn overlaps_are_found_exactly(
        a in (0u8..127, 0i64..24, 1i64..=24), b in (0u8..127, 0i64..24, 1i64..=24), listed in any::<bool>(),
    ) {
        let days = |bits: u8| (0..7).filter(|day| (bits + 1) >> day & 1 == 1).collect::<Vec<usize>>();
        prop_assume!(a.1 != a.2 && b.1 != b.2);
        let names = |days: &[usize]| days.iter().map(|day| format!("\"{}\"", ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][*day])).collect::<Vec<_>>().join(", ");
        // 1970-01-05 was a Monday.
        let dates = |days: &[usize]| days.iter().map(|day| format!("\"1970-01-{:02}\"", day + 12)).collect::<Vec<_>>().join(", ");
        let entry = |(days, from, to): (&[usize], i64, i64), key: &str, items: String| {
            (format!("[[timetable]]\n{key} = [{items}]\nfrom = \"{from:02}:00\"\nto = \"{to:02}:00\"\n"),
             simple::Entry { days: days.to_vec(), from: from * 3600, to: to * 3600, except: Vec::new() })
        };
        let (a_days, b_days) = (days(a.0), days(b.0));
        let (first, one) = entry((&a_days, a.1, a.2), "days", names(&a_days));
        let (second, other) = match listed {
            true => entry((&b_days, b.1, b.2), "dates", dates(&b_days)),
            false => entry((&b_days, b.1, b.2), "days", names(&b_days)),
        };
        let week = if listed { 7 * 86_400..17 * 86_400 } else { 4 * 86_400..25 * 86_400 };
        // Listed entries begin in one week only.
        let in_week = |second: i64| !listed || {
            let begin = if other.from < other.to || second % 86_400 >= other.from { second } else { second - 86_400 };
            (11..18).contains(&begin.div_euclid(86_400))
        };
        let is_common = |second: &i64| simple::is_active(&one, *second, 0) && simple::is_active(&other, *second, 0) && in_week(*second);
        let week = if listed { 11 * 86_400..20 * 86_400 } else { week };
        let expected = week.step_by(1800).any(|second| is_common(&second));
        let found = read(&format!("{first}{second}"));
        prop_assert_eq!(found.is_err(), expected, "{}{}{:?}", first, second, found);
    }
}

#[test]
fn an_hour_shown_twice_counts_twice_and_a_skipped_one_does_not_occur() {
    let (timetable, _) = one("Europe/Lisbon", &[6], (3600 + 600, 3600 + 1200), &[]);
    // 2026-10-25: 01:10 is shown at 00:10 UTC, and again at 01:10 UTC.
    for (instant, is_active) in [
        ("2026-10-25T00:10:00Z", true),
        ("2026-10-25T00:20:00Z", false),
        ("2026-10-25T01:10:00Z", true),
        ("2026-10-25T01:20:00Z", false),
        // 2026-03-29: the clock goes from 01:00 to 02:00.
        ("2026-03-29T00:59:59Z", false),
        ("2026-03-29T01:00:00Z", false),
        ("2026-03-29T01:15:00Z", false),
    ] {
        assert_eq!(timetable.active(at(instant)).is_some(), is_active, "{instant}");
    }
}

#[test]
fn starts_are_times_of_the_zone() {
    let text = |start: &str| format!("[calendar]\nzone = \"Europe/Lisbon\"\nstart = \"{start}\"\n[[timetable]]\n");
    assert_eq!(read(&text("2026-07-01T08:00:00")).unwrap().1, Some(at("2026-07-01T07:00:00Z")));
    assert_eq!(read(&text("2026-10-25T01:30:00")).unwrap().1, Some(at("2026-10-25T00:30:00Z")), "the first of two");
    assert!(read(&text("2026-03-29T01:30:00")).unwrap_err().contains("never shows"));
    assert!(read(&text("tomorrow")).unwrap_err().contains("is not a date and time"));
}

#[test]
fn dates_and_times_of_toml_are_the_same_as_text() {
    let text = "[calendar]\nstart = 2026-11-27T07:59:50\n[[timetable]]\nfrom = 08:00:00\ndates = [2026-11-27]\n";
    let (timetable, start) = read(text).expect("a timetable");
    assert_eq!(start, Some(at("2026-11-27T07:59:50Z")));
    let active = |instant| timetable.active(at(instant));
    assert_eq!((active("2026-11-27T07:59:59Z"), active("2026-11-27T08:00:00Z")), (None, Some(0)));
}

#[test]
fn errors_name_line_and_key() {
    let entry = "[[timetable]]\n";
    for (text, expected) in [
        (
            "[calendar]\nzone = \"Lisbon\"\n[[timetable]]\n".to_owned(),
            "a.toml:2: calendar.zone: `Lisbon` is not a time zone",
        ),
        (
            "[calendar]\nstart = \"2026-01-01T00:00:00\"\n".to_owned(),
            "a.toml:2: calendar.start: has no effect without [[timetable]]",
        ),
        (format!("{entry}from = \"8:00\"\n"), "a.toml:2: timetable.0.from: `8:00` is not a time of day"),
        (format!("{entry}to = \"24:01\"\n"), "a.toml:2: timetable.0.to: `24:01` is not a time of day"),
        (format!("{entry}from = \"08:00\"\nto = \"08:00\"\n"), "a.toml:3: timetable.0.to: the entry covers no time"),
        (format!("{entry}days = [\"mon\", \"fry\"]\n"), "a.toml:2: timetable.0.days: `fry` is not a day of the week"),
        (format!("{entry}days = []\n"), "a.toml:2: timetable.0.days: the entry covers no day"),
        (format!("{entry}dates = [\"2026-02-29\"]\n"), "a.toml:2: timetable.0.dates: `2026-02-29` is not a date"),
        (
            format!("{entry}dates = [\"2026-11-28\"]\ndays = [\"mon-fri\"]\n"),
            "a.toml:2: timetable.0.dates: the entry covers no day",
        ),
        (format!("{entry}{entry}"), "a.toml:2: timetable.1: this entry covers a time that entry 1"),
    ] {
        let error = read(&text).expect_err(&text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
    }
}
