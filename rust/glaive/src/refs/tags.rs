//! Tags: `_refs/tags/{tag}.json` (format chapter 30, 14.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use glaive_file::io::Storage;
use glaive_file::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::{Reference, branch_storage, check_tag_name, encode, load, load_all, resolve};
use crate::dataset::Dataset;
use crate::versions::VersionStore;

const TAGS: &str = "_refs/tags";

/// A name for a version, which cleanup keeps as long as the tag is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tag {
    /// Branch of the version; `None` for main.
    #[serde(default)]
    pub branch: Option<String>,
    /// The version.
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    /// Bytes of the manifest.
    pub manifest_size: u64,
    /// Free text.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

impl Tag {
    /// When the tag was made; early writers did not say.
    pub fn created_at(&self) -> Option<DateTime<Utc>> {
        parse(self.created_at.as_deref())
    }

    /// When the tag was last moved.
    pub fn updated_at(&self) -> Option<DateTime<Utc>> {
        parse(self.updated_at.as_deref())
    }
}

fn parse(time: Option<&str>) -> Option<DateTime<Utc>> {
    let time = DateTime::parse_from_rfc3339(time?).ok()?;
    Some(time.with_timezone(&Utc))
}

/// The tags of a table.
#[derive(Debug, Clone)]
pub struct Tags {
    dataset: Dataset,
    root: Arc<dyn Storage>,
}

impl Tags {
    pub(super) fn new(dataset: Dataset, root: Arc<dyn Storage>) -> Self {
        Self { dataset, root }
    }

    /// All tags by name.
    pub fn list(&self) -> Result<BTreeMap<String, Tag>> {
        load_all(self.root.as_ref(), TAGS, |stem| Some(stem.to_owned()))
    }

    /// One tag.
    ///
    /// # Errors
    /// Not found.
    pub fn get(&self, name: &str) -> Result<Tag> {
        check_tag_name(name)?;
        load(self.root.as_ref(), &path(name))?
            .ok_or_else(|| Error::not_found(format!("Ref not found error: tag {name} does not exist")))
    }

    /// Makes a tag.
    ///
    /// # Errors
    /// Invalid input for the name; already exists; not found for the version.
    pub fn create(&self, name: &str, reference: &Reference) -> Result<()> {
        check_tag_name(name)?;
        let (branch, version, manifest_size) = resolve(&self.dataset, reference)?;
        let now = Some(Utc::now().to_rfc3339_opts(SecondsFormat::Nanos, true));
        let tag = Tag {
            branch,
            version,
            created_at: now.clone(),
            updated_at: now,
            manifest_size,
            metadata: BTreeMap::new(),
        };
        let created = self.root.put_if_absent(&path(name), &encode(&tag)?);
        created.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => {
                Error::already_exists(format!("Ref conflict error: tag {name} already exists"))
            }
            _ => e,
        })?;
        self.check_still_there(name, &tag)
    }

    /// A cleanup may have removed the version before it could see the tag.
    fn check_still_there(&self, name: &str, tag: &Tag) -> Result<()> {
        let storage = branch_storage(&self.root, tag.branch.as_deref())?;
        let versions = VersionStore::find(&storage)?.map_or_else(Vec::new, |(_, versions)| versions);
        if versions.contains(&tag.version) || tag.version & crate::manifest::DETACHED != 0 {
            return Ok(());
        }
        self.root.delete(&path(name))?;
        Err(Error::not_found(format!(
            "Version not found error: version {} was removed while tag {name} was made",
            tag.version
        )))
    }

    /// Moves a tag to another version.
    ///
    /// # Errors
    /// Not found for the tag or the version.
    pub fn update(&self, name: &str, reference: &Reference) -> Result<()> {
        let tag = self.get(name)?;
        let (branch, version, manifest_size) = resolve(&self.dataset, reference)?;
        let updated_at = Some(Utc::now().to_rfc3339_opts(SecondsFormat::Nanos, true));
        self.store(
            name,
            &Tag {
                branch,
                version,
                updated_at,
                manifest_size,
                ..tag
            },
        )
    }

    /// Replaces the metadata of a tag.
    ///
    /// # Errors
    /// Not found.
    pub fn replace_metadata(&self, name: &str, metadata: BTreeMap<String, String>) -> Result<()> {
        let tag = self.get(name)?;
        self.store(name, &Tag { metadata, ..tag })
    }

    fn store(&self, name: &str, tag: &Tag) -> Result<()> {
        self.root.put(&path(name), &encode(tag)?)
    }

    /// Removes a tag. The version stays.
    ///
    /// # Errors
    /// Not found.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.get(name)?;
        self.root.delete(&path(name))
    }
}

fn path(name: &str) -> String {
    format!("{TAGS}/{name}.json")
}
