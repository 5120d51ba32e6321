//! Names of manifest files (format chapter 30, 4.1).
//!
//! | scheme | name |
//! |---|---|
//! | V1 | `{version}.manifest` |
//! | V2 | `{u64::MAX - version, 20 digits}.manifest`: the newest version sorts first |
//! | detached | `d{version}.manifest`, the top bit of the version set; only in V2 tables |

use glaive_file::{Error, Result};

/// Directory of the manifests.
pub const VERSIONS: &str = "_versions";

/// Path of the version hint.
pub const HINT: &str = "_versions/latest_version_hint.json";

/// Bit that marks a detached version.
pub const DETACHED: u64 = 1 << 63;

/// Length of a V2 name: 20 digits and `.manifest`.
const V2_LEN: usize = 29;

/// How a table names its manifests. All of one table are named alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// The version in decimal.
    V1,
    /// The complement of the version, 20 digits.
    #[default]
    V2,
}

impl Naming {
    /// File name of a version.
    pub fn file_name(self, version: u64) -> String {
        match self {
            _ if version & DETACHED != 0 => format!("d{version}.manifest"),
            Self::V1 => format!("{version}.manifest"),
            Self::V2 => format!("{:020}.manifest", u64::MAX - version),
        }
    }

    /// The other scheme.
    pub fn other(self) -> Self {
        match self {
            Self::V1 => Self::V2,
            Self::V2 => Self::V1,
        }
    }

    /// Path of a version below the root of the table.
    pub fn path(self, version: u64) -> String {
        format!("{VERSIONS}/{}", self.file_name(version))
    }

    /// The scheme and version that a file name stands for; `None` for any other name.
    pub fn parse(name: &str) -> Option<(Self, u64)> {
        if let Some(detached) = name.strip_prefix('d') {
            let version = parse_number(detached.strip_suffix(".manifest")?)?;
            return (version & DETACHED != 0).then_some((Self::V2, version));
        }
        let number = parse_number(name.strip_suffix(".manifest")?)?;
        match name.len() {
            V2_LEN => Some((Self::V2, u64::MAX - number)),
            _ => Some((Self::V1, number)),
        }
        .filter(|(_, version)| version & DETACHED == 0)
    }
}

/// Digits only: `u64::from_str` would take a sign.
fn parse_number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// The attached versions among the names of a directory, ascending, and their scheme.
///
/// # Errors
/// Corrupt if both schemes occur, naming a file of each.
pub fn attached_versions<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Option<(Naming, Vec<u64>)>> {
    let mut versions = Vec::new();
    let mut first: Option<(Naming, &str)> = None;
    for name in names {
        let Some((naming, version)) = Naming::parse(name).filter(|(_, version)| version & DETACHED == 0)
        else {
            continue;
        };
        match first {
            Some((seen, other)) if seen != naming => return Err(mixed(other, name)),
            _ => first = Some((naming, name)),
        }
        versions.push(version);
    }
    versions.sort_unstable();
    Ok(first.map(|(naming, _)| (naming, versions)))
}

fn mixed(one: &str, other: &str) -> Error {
    Error::corrupt(format!(
        "Found multiple manifest naming schemes in the same directory: '{one}' and '{other}'. Open a version by its \
         number and use migrate_manifest_paths_v2 on it"
    ))
    .context(VERSIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions() {
        assert_eq!(Naming::V2.file_name(1), "18446744073709551614.manifest");
        assert_eq!(Naming::V1.file_name(12), "12.manifest");
        assert_eq!(
            Naming::V2.file_name(DETACHED | 5),
            "d9223372036854775813.manifest"
        );
        for version in [0, 1, 77, (1 << 63) - 1, DETACHED, u64::MAX] {
            assert_eq!(
                Naming::parse(&Naming::V2.file_name(version)),
                Some((Naming::V2, version))
            );
        }
        assert_eq!(Naming::parse("12.manifest"), Some((Naming::V1, 12)));
    }

    #[test]
    fn other_names_are_no_manifests() {
        for name in [
            "foo.manifest",
            "d12.manifest",
            ".tmp_x",
            "1.manifest-5f0c",
            "18446744073709551614.manifest-5f0c",
            "+1.manifest",
            "-1.manifest",
            ".manifest",
            "99999999999999999999999.manifest",
            "99999999999999999999.manifest",
            "latest_version_hint.json",
            "",
        ] {
            assert_eq!(Naming::parse(name), None, "{name}");
        }
    }

    #[test]
    fn mixed_schemes_are_refused() {
        let found = attached_versions(["3.manifest", "x", "1.manifest"]).unwrap();
        assert_eq!(found, Some((Naming::V1, vec![1, 3])));
        let v2 = Naming::V2.file_name(4);
        assert_eq!(
            attached_versions([v2.as_str()]).unwrap(),
            Some((Naming::V2, vec![4]))
        );
        let error = attached_versions([v2.as_str(), "1.manifest"]).unwrap_err();
        for part in [v2.as_str(), "'1.manifest'", "migrate_manifest_paths_v2"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        let detached = Naming::V2.file_name(DETACHED | 1);
        assert_eq!(attached_versions([detached.as_str()]).unwrap(), None);
    }
}
