//! Cleanup after commits, as the config of a table asks for it (format chapter 30, 13).

use std::collections::BTreeMap;
use std::time::Duration;

use glaive_file::{Error, Result};

use super::{CleanupPolicy, time_before};
use crate::dataset::Dataset;
use crate::manifest::Manifest;
use crate::versions::VersionStore;

const INTERVAL: &str = "lance.auto_cleanup.interval";
const OLDER_THAN: &str = "lance.auto_cleanup.older_than";
const RETAIN_VERSIONS: &str = "lance.auto_cleanup.retain_versions";
const REFERENCED_BRANCH: &str = "lance.auto_cleanup.referenced_branch";
const DELETE_RATE_LIMIT: &str = "lance.auto_cleanup.delete_rate_limit";

/// Cleanup after every so many versions of a new table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoCleanup {
    /// Versions from one cleanup to the next; 0 after every commit.
    pub interval: u64,
    /// Age at which a version goes.
    pub older_than: Duration,
}

impl AutoCleanup {
    /// The entries of the table's config.
    pub fn config(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (INTERVAL.to_owned(), self.interval.to_string()),
            (OLDER_THAN.to_owned(), format_duration(self.older_than)),
        ])
    }
}

/// Cleans up after a commit, if the config says so.
///
/// Runs as of the version before, so that one stays. Tagged versions are kept. A failure is none of the commit, which
/// stands: the next cleanup finds what this one left.
pub(crate) fn after_commit(store: &VersionStore, committed: &Manifest) {
    let _ = run(store, committed);
}

fn run(store: &VersionStore, committed: &Manifest) -> Result<()> {
    let Some(policy) = policy(&committed.config, committed.version)? else {
        return Ok(());
    };
    let Some(previous) = committed.version.checked_sub(1).filter(|version| *version > 0) else {
        return Ok(());
    };
    let file = store.load(previous)?;
    let dataset = Dataset::new(store.clone(), file.manifest, file.indices);
    dataset.cleanup(&policy, &mut |_, _| Ok(())).map(|_| ())
}

/// What to remove after a version; `None` if nothing is to be done.
fn policy(config: &BTreeMap<String, String>, version: u64) -> Result<Option<CleanupPolicy>> {
    let Some(interval) = number(config, INTERVAL)? else {
        return Ok(None);
    };
    if interval > 0 && !version.is_multiple_of(interval) {
        return Ok(None);
    }
    let older_than = config
        .get(OLDER_THAN)
        .map(|text| parse_duration(text))
        .transpose()?;
    let older_than = older_than.map(chrono::TimeDelta::from_std).transpose();
    let older_than = older_than.map_err(|e| Error::invalid_input(format!("{OLDER_THAN}: {e}")))?;
    Ok(Some(CleanupPolicy {
        before: older_than.map(time_before),
        retain_versions: number(config, RETAIN_VERSIONS)?,
        delete_rate_limit: number(config, DELETE_RATE_LIMIT)?,
        error_if_tagged_old_versions: false,
        clean_referenced_branches: config.get(REFERENCED_BRANCH).is_some_and(|text| text == "true"),
        ..CleanupPolicy::default()
    }))
}

fn number(config: &BTreeMap<String, String>, key: &str) -> Result<Option<u64>> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|_| Error::invalid_input(format!("config {key}: '{text}' is not a number")))
    };
    config.get(key).map(parse).transpose()
}

/// Units of the text form, in seconds: a month is a twelfth of a year of 365.25 days.
const UNITS: [(u64, &str); 6] = [
    (31_557_600, "year"),
    (2_630_016, "month"),
    (86_400, "day"),
    (3_600, "h"),
    (60, "m"),
    (1, "s"),
];

/// A duration as config values hold it: `14days`, `1h 1m 1s`. Parts of a second are dropped.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_secs();
    let mut parts = Vec::new();
    for (seconds, unit) in UNITS {
        let count = rest / seconds;
        rest %= seconds;
        let plural = if count > 1 && seconds >= 86_400 { "s" } else { "" };
        if count > 0 {
            parts.push(format!("{count}{unit}{plural}"));
        }
    }
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.join(" "),
    }
}

/// Reads [`format_duration`]'s form, and the other names of its units.
///
/// # Errors
/// Invalid input.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let bad = || Error::invalid_input(format!("'{text}' is not a duration like '14days' or '1h 30m'"));
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let count: u64 = number.parse().map_err(|_| bad())?;
        let part = nanoseconds(unit).and_then(|unit| unit.checked_mul(count.into()));
        let part = part.and_then(|nanos| u64::try_from(nanos / 1_000_000_000).ok().map(|s| (s, nanos)));
        let (seconds, nanos) = part.ok_or_else(bad)?;
        let part = Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).unwrap_or(0));
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = tail.trim_start();
    }
    Ok(total)
}

fn nanoseconds(unit: &str) -> Option<u128> {
    const SECOND: u128 = 1_000_000_000;
    Some(match unit {
        "ns" | "nsec" | "nanos" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" | "millis" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 7 * 86_400 * SECOND,
        "M" | "month" | "months" => 2_630_016 * SECOND,
        "y" | "year" | "years" => 31_557_600 * SECOND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_a_config() {
        let config = |entries: &[(&str, &str)]| {
            let owned =
                |(key, value): &(&str, &str)| (format!("lance.auto_cleanup.{key}"), (*value).to_owned());
            entries.iter().map(owned).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(policy(&config(&[("older_than", "1h")]), 3).unwrap(), None);
        let every_third = config(&[
            ("interval", "3"),
            ("retain_versions", "2"),
            ("referenced_branch", "true"),
            ("delete_rate_limit", "9"),
        ]);
        assert_eq!(policy(&every_third, 4).unwrap(), None);
        let found = policy(&every_third, 6).unwrap().unwrap();
        assert_eq!(
            (found.before, found.retain_versions, found.delete_rate_limit),
            (None, Some(2), Some(9))
        );
        assert!(found.clean_referenced_branches && !found.error_if_tagged_old_versions);
        let always = config(&[("interval", "0"), ("older_than", "1h")]);
        let before = policy(&always, 7).unwrap().unwrap().before.unwrap();
        assert!((chrono::Utc::now() - before).num_seconds().abs_diff(3600) < 5);
        for wrong in [("interval", "x"), ("interval", "-1")] {
            assert!(policy(&config(&[wrong]), 3).is_err());
        }
        for wrong in [
            ("older_than", "soon"),
            ("older_than", "99999999999years"),
            ("retain_versions", ""),
        ] {
            assert!(
                policy(&config(&[("interval", "1"), wrong]), 3).is_err(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn durations_as_pylance_writes_them() {
        for (seconds, text) in [
            (0, "0s"),
            (1, "1s"),
            (60, "1m"),
            (61, "1m 1s"),
            (3661, "1h 1m 1s"),
            (86_400, "1day"),
            (86_400 * 14, "14days"),
            (2_678_400, "1month 13h 26m 24s"),
            (34_560_000, "1year 1month 4days 7h 26m 24s"),
            (1_000_000_000, "31years 8months 7days 19h 17m 52s"),
        ] {
            assert_eq!(format_duration(Duration::from_secs(seconds)), text);
            assert_eq!(parse_duration(text).unwrap(), Duration::from_secs(seconds));
        }
        assert_eq!(
            parse_duration("2 weeks1500ms").unwrap(),
            Duration::from_millis(1_209_601_500)
        );
        for text in [
            "",
            " ",
            "5",
            "h",
            "5x",
            "-1s",
            "99999999999999999999s",
            "18446744073709551615years",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
