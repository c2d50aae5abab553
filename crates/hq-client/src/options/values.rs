//! The values of single options: how each is written, and what is said when it is written wrongly.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::num::{IntErrorKind, ParseIntError};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hq_model::OnClose;
use hq_model::compression::{Compression, CompressionError};
use hq_model::dependency::After;
use hq_model::ids::digits_of;
use hq_model::job::Share;
use hq_model::request::{self, CPUS, GPUS, MEM, WEIGHT_NEUTRAL};
use hq_model::result::ResultFrom;
use hq_model::task::{CrashLimit, EndBy, OnWalltime, RetryOn, SpeculateFactor, Warning};
use hq_model::{AmountRequest, ByteString, IdSet, JobId, ResourceRequest, Timestamp, signal};
use jiff::Zoned;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

/// A duration: `1h 30m`, `90s`, `HH:MM:SS`, `MM:SS` or seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    hq_model::duration::parse(text).map_err(|e| e.to_string())
}

/// The value of `--end-by`: a moment, or how long after the submit that is.
pub fn end_by(text: &str) -> Result<EndBy, String> {
    end_by_at(text, &Zoned::now())
}

fn end_by_at(text: &str, now: &Zoned) -> Result<EndBy, String> {
    let text = text.trim();
    if !text.contains(':') && !text.contains('T') {
        return match text.parse::<Date>() {
            Ok(date) => Err(format!("`{text}` is a date without a time: add one, as in `{date} 18:00`")),
            Err(_) if is_like_a_day(text) => Err(format!("`{text}` is not a valid date: {END_BY_FORMS}")),
            Err(_) => {
                let within = duration(text).map_err(|error| format!("{error}; or {END_BY_FORMS}"))?;
                match within.is_zero() {
                    true => Err(format!("`{text}` leaves no time: {END_BY_FORMS}")),
                    false => Ok(EndBy::Within(within)),
                }
            }
        };
    }
    let bad = |error: jiff::Error| format!("`{text}` is not a valid time ({error}): {END_BY_FORMS}");
    let moment = |time: jiff::Timestamp| {
        let micros = u64::try_from(time.as_microsecond()).unwrap_or(0);
        if time <= now.timestamp() {
            return Err(format!("`{text}` has passed: it is {} now", now.strftime("%Y-%m-%d %H:%M:%S %:z")));
        }
        Ok(EndBy::At(Timestamp(micros)))
    };
    let zone = now.time_zone();
    let tell = |error: String| format!("{error}: {END_BY_FORMS}");
    if !text.contains(['-', 'T', 'Z', 'z', '+']) {
        let Ok(time) = text.parse::<Time>() else {
            return Err(format!("`{text}` is not a time of day: {END_BY_FORMS}"));
        };
        let today = now.date().to_datetime(time).to_zoned(zone.clone()).map_err(bad)?;
        if today > *now {
            return moment(today.timestamp());
        }
        let tomorrow = now.date().tomorrow().and_then(|day| day.to_datetime(time).to_zoned(zone.clone()));
        return moment(tomorrow.map_err(bad)?.timestamp());
    }
    moment(date_and_time(text, zone).map_err(tell)?)
}

// A moment; in the zone that is given, unless the text says which.
fn date_and_time(text: &str, zone: &TimeZone) -> Result<jiff::Timestamp, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time);
    }
    let Ok(time) = text.parse::<DateTime>() else { return Err(format!("`{text}` is not a date and time")) };
    let zoned = time.to_zoned(zone.clone());
    zoned.map(|zoned| zoned.timestamp()).map_err(|error| format!("`{text}` is not a valid time ({error})"))
}

// Numbers and what separates them in a date.
fn is_like_a_day(text: &str) -> bool {
    text.contains('-')
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
}

/// How moments are written.
const END_BY_FORMS: &str =
    "use a time of day (`18:00`), a date and time (`2026-12-24 18:00`), or a duration (`8h`)";

/// Where a part of the past begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So long after the beginning of all of it.
    After(Duration),
    /// At this moment.
    At(Timestamp),
}

impl When {
    /// The moment, of a past that begins then.
    pub fn of(self, begin: Timestamp) -> Timestamp {
        match self {
            When::After(time) => begin.after(time),
            When::At(at) => at,
        }
    }
}

/// The value of `--start-time` and `--end-time`: a date and a time, or how long after the first start of the server that is. A clock
/// without a date is a duration, as in all options that take one.
pub fn when(text: &str) -> Result<When, String> {
    when_in(text, &TimeZone::system())
}

fn when_in(text: &str, zone: &TimeZone) -> Result<When, String> {
    let text = text.trim();
    let error = match duration(text) {
        Ok(time) => return Ok(When::After(time)),
        Err(error) => error,
    };
    if let (Ok(date), false) = (text.parse::<Date>(), text.contains(':')) {
        return Err(format!("`{text}` is a date without a time: add one, as in `{date} 18:00`"));
    }
    if !is_like_a_date(text) {
        return Err(format!("{error}; or {WHEN_FORMS}"));
    }
    let at = date_and_time(text, zone).map_err(|error| format!("{error}: {WHEN_FORMS}"))?;
    Ok(When::At(Timestamp(u64::try_from(at.as_microsecond()).unwrap_or(0))))
}

// It begins as the year of a date.
fn is_like_a_date(text: &str) -> bool {
    let year = text.bytes().take_while(u8::is_ascii_digit).count();
    year > 0 && text.as_bytes().get(year) == Some(&b'-')
}

/// How places in the past are written.
const WHEN_FORMS: &str =
    "use a date and time (`2026-12-24 18:00`), or a duration since the first start of the server (`8h`)";

/// A number that counts something.
pub trait Count: FromStr<Err = ParseIntError> + Display {
    /// The largest one.
    const MAX: Self;
}

impl Count for u32 {
    const MAX: u32 = u32::MAX;
}

impl Count for u64 {
    const MAX: u64 = u64::MAX;
}

/// A whole number from 0.
pub fn count<N: Count>(text: &str) -> Result<N, String> {
    whole(text, 0)
}

/// A count of something that must be there.
pub fn at_least_one(text: &str) -> Result<u32, String> {
    match whole(text, 1)? {
        0 => Err("it must be at least 1".into()),
        some => Ok(some),
    }
}

fn whole<N: Count>(text: &str, least: u8) -> Result<N, String> {
    let wrong = || format!("`{text}` is not a valid number: use a whole number from {least}");
    digits_of(text.trim()).ok_or_else(wrong)?.parse::<N>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => format!("`{text}` is too large: the maximum is {}", N::MAX),
        _ => wrong(),
    })
}

/// The value of `--priority`.
pub fn priority(text: &str) -> Result<i32, String> {
    let range = format!("{} to {}", i32::MIN, i32::MAX);
    text.trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a valid priority: use a whole number from {range}"))
}

/// A set of task ids: `1-10,20,30-40:5`.
pub fn ids(text: &str) -> Result<IdSet, String> {
    text.parse::<IdSet>().map_err(|e| e.to_string())
}

/// Task ids in the order in which they are written: parts of them, each in the order of ids.
pub fn ids_in_order(text: &str) -> Result<IdsInOrder, String> {
    let mut all = IdsInOrder { ids: ids(text)?, parts: Vec::new() };
    for part in text.split(',') {
        let part = ids(part)?;
        match all.parts.last_mut() {
            // Most write them in order.
            Some(before) if before.last() < part.first() => before.union_with(&part),
            _ => all.parts.push(part),
        }
    }
    Ok(all)
}

/// What [`ids_in_order`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdsInOrder {
    /// All of them.
    pub ids: IdSet,
    /// They, as they are written.
    pub parts: Vec<IdSet>,
}

/// A set of task ids with at least one in it.
pub fn ids_some(text: &str) -> Result<IdSet, String> {
    let set = ids(text)?;
    if set.is_empty() { Err("it contains no task id".into()) } else { Ok(set) }
}

/// Reads the id of a job, or `last`, which [`After::LAST`] stands for.
///
/// # Errors
/// When it is neither.
pub fn job(text: &str) -> Result<JobId, String> {
    match text {
        "last" => Ok(After::LAST),
        _ => text.parse().map_err(|_| {
            format!("`{text}` is not a valid id: use a number from 1 to {}, or `last`", u32::MAX)
        }),
    }
}

/// The value of `--compress`.
pub fn compression(text: &str) -> Result<Compression, String> {
    text.trim().parse().map_err(|error: CompressionError| error.to_string())
}

/// The value of `--result`.
pub fn result(text: &str) -> Result<ResultFrom, String> {
    text.parse()
}

/// The value of `--cpus`.
pub fn cpus(text: &str) -> Result<AmountRequest, String> {
    request::parse_amount(CPUS, text).map_err(|e| e.to_string())
}

/// The value of `--gpus` and `--gpus-per-rank`.
pub fn gpus(text: &str) -> Result<AmountRequest, String> {
    request::parse_amount(GPUS, text).map_err(|e| e.to_string())
}

/// The value of `--mem`.
pub fn mem(text: &str) -> Result<AmountRequest, String> {
    request::parse_amount(MEM, text).map_err(|e| e.to_string())
}

/// The value of `--resource`: `NAME=AMOUNT [POLICY]`.
pub fn resource(text: &str) -> Result<ResourceRequest, String> {
    let Some((name, amount)) = text.split_once('=') else {
        return Err(format!("`{text}` has no '=': use NAME=AMOUNT, for example mem=4GiB or gpus=1"));
    };
    let name = name.trim();
    request::check_name(name).map_err(|e| e.to_string())?;
    let amount = amount.trim();
    let amount =
        request::parse_amount(name, amount).map_err(|error| match request::parse_amount(MEM, amount) {
            Ok(_) => {
                format!("`{amount}` is not an amount of {name}: only mem can have units, as in mem={amount}")
            }
            Err(_) => error.to_string(),
        })?;
    Ok(ResourceRequest { name: name.into(), amount })
}

/// The value of `--weight`: a number above zero, in 1/10000.
pub fn weight(text: &str) -> Result<u32, String> {
    let value: f64 = text.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    let units = (value * f64::from(WEIGHT_NEUTRAL)).round();
    if !(units >= 1.0 && units <= f64::from(u32::MAX)) {
        return Err(format!("a weight must be between 0.0001 and {}", u32::MAX / WEIGHT_NEUTRAL));
    }
    Ok(units as u32)
}

/// A number of node hours.
///
/// # Errors
/// When it is none.
pub fn node_hours(text: &str) -> Result<Duration, String> {
    hq_model::allocation::parse_node_hours(text).map_err(|error| error.to_string())
}

/// The value of `--share`.
pub fn share(text: &str) -> Result<Share, String> {
    text.parse::<Share>().map_err(|e| e.to_string())
}

/// The value of `--crash-limit`.
pub fn crash_limit(text: &str) -> Result<CrashLimit, String> {
    text.parse::<CrashLimit>().map_err(|e| e.to_string())
}

/// The value of `--on-walltime`.
pub fn on_walltime(text: &str) -> Result<OnWalltime, String> {
    text.parse::<OnWalltime>().map_err(|e| e.to_string())
}

/// The value of `--speculate`.
pub fn speculate(text: &str) -> Result<SpeculateFactor, String> {
    text.parse::<SpeculateFactor>().map_err(|e| e.to_string())
}

/// The value of `--time-limit` of a task, which gets some time.
pub fn time_limit(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => {
            Err("with a time limit of zero, a task would be ended at once; omit the option for no \
            limit"
                .into())
        }
        limit => Ok(limit),
    }
}

/// The value of `--expect`: a run time is longer than nothing.
pub fn expect(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a task takes longer than that; omit the option if you do not know".into()),
        expected => Ok(expected),
    }
}

/// The value of `--retry-on`.
pub fn retry_on(text: &str) -> Result<RetryOn, String> {
    text.parse::<RetryOn>().map_err(|e| e.to_string())
}

/// The value of `--signal`: `NAME@DURATION`.
pub fn warning(text: &str) -> Result<Warning, String> {
    let Some((name, before)) = text.split_once('@') else {
        return Err(format!("`{text}` has no '@': use NAME@DURATION, for example USR1@60s"));
    };
    let signal = signal_number(name)?;
    let before = duration(before)?;
    if before.is_zero() {
        return Err("the signal must be sent some time before the limit, for example USR1@60s".into());
    }
    Ok(Warning { signal, before })
}

fn signal_number(name: &str) -> Result<u8, String> {
    const UNCATCHABLE: [u8; 2] = [9, 19];
    match signal::parse(name) {
        Some(number) if !UNCATCHABLE.contains(&number) => Ok(number),
        Some(number) => {
            Err(format!("{} cannot be used to warn a task: no program can catch it", signal::name(number)))
        }
        None => Err(format!("`{name}` is not a signal; use a name such as USR1, INT or TERM, or a number")),
    }
}

/// The value of `--name`.
pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the name is empty; omit the option to use the default name".into());
    }
    if text.contains(['\n', '\t', '\r', '\0']) {
        return Err("a name must not contain a newline or a tab".into());
    }
    Ok(text.into())
}

/// The value of `--cwd`, `--after-file` and other options that take a path.
pub fn path(text: OsString) -> Result<OsString, String> {
    if text.is_empty() { Err("the path is empty".into()) } else { Ok(text) }
}

/// The value of `--locality`.
pub fn locality(text: OsString) -> Result<OsString, String> {
    if text.is_empty() { Err("the key is empty; omit the option for no key".into()) } else { Ok(text) }
}

/// The value of `--launcher`.
pub fn launcher(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the name is empty; omit the option to use a detected launcher".into()),
        name => Ok(name.into()),
    }
}

/// A command for a shell, such as the value of `--on-notify`.
pub fn shell_command(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the command is empty".into()),
        _ => Ok(text.into()),
    }
}

/// The value of `--env`: `KEY[=VALUE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvArg {
    /// Name of the variable.
    pub key: ByteString,
    /// Its value.
    pub value: ByteString,
}

const NAMELESS: &str = "the name of the variable is missing; use KEY=VALUE";

/// Parses [`EnvArg`].
pub fn env(text: OsString) -> Result<EnvArg, String> {
    let bytes = text.into_vec();
    let (key, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (bytes[..at].to_vec(), bytes[at + 1..].to_vec()),
        None => {
            let name = OsStr::from_bytes(&bytes);
            let Some(value) = std::env::var_os(name).filter(|_| !bytes.is_empty()) else {
                return Err(unset(&name.to_string_lossy()));
            };
            (bytes, value.into_vec())
        }
    };
    if key.is_empty() {
        return Err(NAMELESS.into());
    }
    Ok(EnvArg { key, value })
}

fn unset(name: &str) -> String {
    if name.is_empty() {
        return NAMELESS.into();
    }
    format!("{name} is not set; use {name}= for an empty value")
}

/// The value of `--stdout` and `--stderr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputArg {
    /// `none`.
    None,
    /// `PATH`, or with `:rm-if-finished` or `:rm-if-empty` after it, or these alone.
    File {
        /// The path; the default one when missing.
        path: Option<ByteString>,
        /// What becomes of it when the task has ended.
        on_close: OnClose,
    },
}

/// Parses [`OutputArg`].
pub fn output(text: OsString) -> Result<OutputArg, String> {
    let bytes = text.as_os_str().as_bytes();
    if bytes == b"none" {
        return Ok(OutputArg::None);
    }
    let suffixed = |on_close: OnClose| {
        let path = bytes.strip_suffix(on_close.word()?.as_bytes())?.strip_suffix(b":")?;
        Some((path, on_close))
    };
    let (path, on_close) = OnClose::REMOVING.into_iter().find_map(suffixed).unwrap_or((bytes, OnClose::Keep));
    let misspelled = bytes.rsplit(|byte| *byte == b':').next().filter(|rest| {
        on_close == OnClose::Keep && rest.len() < bytes.len() && (*rest == b"rm" || rest.starts_with(b"rm-"))
    });
    if let Some(word) = misspelled {
        let word = String::from_utf8_lossy(word);
        return Err(format!("`:{word}` is neither :rm-if-finished nor :rm-if-empty"));
    }
    if path.is_empty() && on_close == OnClose::Keep {
        return Err("the path is empty; use `none` to discard the output".into());
    }
    if path == b"-" {
        return Err("`-` is no standard output here, as each task writes to a file: give its path, `none` to discard \
                    the output, or `./-` for a file of this name"
            .into());
    }
    let path = (!path.is_empty()).then(|| path.to_vec());
    Ok(OutputArg::File { path, on_close })
}

/// The value of `--stdin[=FILE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StdinArg {
    /// Standard input of the submitting process.
    Inherited,
    /// A file.
    File(PathBuf),
}

/// Parses [`StdinArg`]; `-` is standard input.
pub fn stdin(text: OsString) -> Result<StdinArg, String> {
    let text = path(text)?;
    Ok(if text == OsStr::new("-") { StdinArg::Inherited } else { StdinArg::File(text.into()) })
}

/// The words of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python(pub(super) Vec<String>);

impl Python {
    pub(super) fn parse(text: &str) -> Result<Python, String> {
        super::function::python(text).map(Python)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_the_zone_of_the_reader() {
        let now: Zoned = "2026-11-25T14:00:00+01:00[Europe/Prague]".parse().expect("a time");
        let check = |text: &str, expected: &str| {
            let told = end_by_at(text, &now).map(|end_by| match end_by {
                EndBy::At(at) => format!("{at:#}"),
                EndBy::Within(time) => format!("after {}s", time.as_secs()),
            });
            assert_eq!(told.unwrap_or_else(|error| error), expected, "{text}");
        };
        check("18:00", "2026-11-25T17:00:00Z");
        check("09:30:15", "2026-11-26T08:30:15Z");
        check("14:00", "2026-11-26T13:00:00Z");
        check("2026-12-24 18:00", "2026-12-24T17:00:00Z");
        check("2026-12-24T18:00:30", "2026-12-24T17:00:30Z");
        check("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z");
        check("2026-12-24 18:00:00+05:00", "2026-12-24T13:00:00Z");
        check("8h", "after 28800s");
        check("90", "after 90s");
        check("2026-11-24 18:00", "`2026-11-24 18:00` has passed: it is 2026-11-25 14:00:00 +01:00 now");
        check("2026-12-24", "`2026-12-24` is a date without a time: add one, as in `2026-12-24 18:00`");
        for (wrong, why) in [
            ("0s", "leaves no time"),
            ("0", "leaves no time"),
            ("25:00", "`25:00` is not a time of day"),
            ("soon", "`soon` is not a duration"),
            ("18:00 h", "`18:00 h` is not a time of day"),
            ("2026-13-40", "`2026-13-40` is not a valid date"),
            ("2026-13-01 10:00", "`2026-13-01 10:00` is not a date and time"),
            ("2026-12-01T25:00", "`2026-12-01T25:00` is not a date and time"),
            ("-5", "is not a duration"),
            ("", "is not a duration"),
        ] {
            let error = end_by_at(wrong, &now).expect_err(wrong);
            assert!(error.contains(why) && error.contains("use a time of day (`18:00`)"), "{error}");
        }
    }

    #[test]
    fn places_in_the_past_are_moments_or_durations() {
        let zone = TimeZone::get("Europe/Prague").expect("a zone");
        let check = |text: &str, expected: &str| {
            let told = when_in(text, &zone).map(|when| match when {
                When::At(at) => format!("{at:#}"),
                When::After(time) => format!("after {}s", time.as_secs()),
            });
            assert_eq!(told.unwrap_or_else(|error| error), expected, "{text}");
        };
        check("2020-12-24 18:00", "2020-12-24T17:00:00Z");
        check(" 2026-07-24T18:00:30", "2026-07-24T16:00:30Z");
        check("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z");
        check("2026-12-24 18:00:00+05:00", "2026-12-24T13:00:00Z");
        check("8h", "after 28800s");
        check("90", "after 90s");
        check("0", "after 0s");
        check("18:00", "after 1080s");
        check("18:00:00", "after 64800s");
        check("2026-12-24", "`2026-12-24` is a date without a time: add one, as in `2026-12-24 18:00`");
        for (wrong, why) in [
            ("soon", "`soon` is not a duration"),
            ("-5", "is not a duration"),
            ("", "is not a duration"),
            ("2026-13-01 10:00", "`2026-13-01 10:00` is not a date and time"),
            ("2026-13-40", "`2026-13-40` is not a date and time"),
            ("2026-12-01T25:00", "`2026-12-01T25:00` is not a date and time"),
        ] {
            let error = when_in(wrong, &zone).expect_err(wrong);
            assert!(error.contains(why) && error.contains("use a date and time (`2026"), "{error}");
        }
        let begin = Timestamp(5_000_000);
        assert_eq!(When::After(Duration::from_secs(2)).of(begin), Timestamp(7_000_000));
        assert_eq!(When::At(Timestamp(9)).of(begin), Timestamp(9));
    }

    #[test]
    fn signals_have_names_and_numbers() {
        let usr1 = |s| Warning { signal: 10, before: Duration::from_secs(s) };
        assert_eq!(warning("USR1@60s"), Ok(usr1(60)));
        assert_eq!(warning("sigusr1@1:30"), Ok(usr1(90)));
        assert_eq!(warning("10@2m"), Ok(usr1(120)));
        for bad in ["USR1", "KILL@1s", "9@1s", "FOO@1s", "USR1@0s", "USR1@soon"] {
            assert!(warning(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_say_what_is_wrong_with_them() {
        let said = |error: Result<u32, String>| error.expect_err("no count");
        assert_eq!((count("1_000"), at_least_one("1"), count(" 7 ")), (Ok(1000u32), Ok(1), Ok(7u64)));
        assert_eq!(said(count("9999999999")), "`9999999999` is too large: the maximum is 4294967295");
        assert_eq!(said(count("-1")), "`-1` is not a valid number: use a whole number from 0");
        assert_eq!(said(count("17_5")), "`17_5` is not a valid number: use a whole number from 0");
        assert_eq!(said(at_least_one("-1")), "`-1` is not a valid number: use a whole number from 1");
        assert_eq!(said(at_least_one("0")), "it must be at least 1");
        assert!(count::<u64>("9999999999").is_ok() && count::<u64>("99999999999999999999").is_err());
    }

    #[test]
    fn output_forms() {
        let file = |path: Option<&str>, on_close| {
            Ok(OutputArg::File { path: path.map(|p| p.as_bytes().to_vec()), on_close })
        };
        assert_eq!(output("none".into()), Ok(OutputArg::None));
        assert_eq!(output("a/b".into()), file(Some("a/b"), OnClose::Keep));
        assert_eq!(output("a/b:rm-if-finished".into()), file(Some("a/b"), OnClose::RemoveIfFinished));
        assert_eq!(output(":rm-if-finished".into()), file(None, OnClose::RemoveIfFinished));
        assert_eq!(output("a:rm-if-empty".into()), file(Some("a"), OnClose::RemoveIfEmpty));
        assert_eq!(output(":rm-if-empty".into()), file(None, OnClose::RemoveIfEmpty));
        assert_eq!(output("rm-if-empty".into()), file(Some("rm-if-empty"), OnClose::Keep));
        for (text, word) in [("out:rm-if-finishd", "rm-if-finishd"), (":rm", "rm")] {
            let error = format!("`:{word}` is neither :rm-if-finished nor :rm-if-empty");
            assert_eq!(output(text.into()), Err(error), "{text}");
        }
        assert!(output("".into()).is_err());
        for text in ["-", "-:rm-if-empty"] {
            let error = output(text.into()).expect_err("no standard output");
            assert!(error.starts_with("`-` is no standard output here"), "{error}");
        }
        assert_eq!(output("./-".into()), file(Some("./-"), OnClose::Keep));
    }

    #[test]
    fn environment_needs_a_name_only() {
        let var = |key: &str, value: &str| Ok(EnvArg { key: key.into(), value: value.into() });
        assert_eq!(env("A=b=c".into()), var("A", "b=c"));
        assert_eq!(env("HQ_NOT_THERE=".into()), var("HQ_NOT_THERE", ""));
        let unset = "HQ_NOT_THERE is not set; use HQ_NOT_THERE= for an empty value";
        assert_eq!(env("HQ_NOT_THERE".into()), Err(unset.into()));
        assert_eq!(env("".into()), Err(NAMELESS.into()));
        let path = std::env::var("PATH").expect("a path");
        assert_eq!(env("PATH".into()), var("PATH", &path));
        assert!(env("=x".into()).is_err());
    }

    #[test]
    fn crash_limits_and_weights() {
        assert_eq!(crash_limit("3"), Ok(CrashLimit::Times(3)));
        assert_eq!(crash_limit("never-restart"), Ok(CrashLimit::NeverRestart));
        assert_eq!(crash_limit("unlimited"), Ok(CrashLimit::Unlimited));
        assert!(crash_limit("0").is_err());
        assert_eq!(weight("1.5"), Ok(15_000));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(weight(bad).is_err(), "{bad}");
        }
    }
}
