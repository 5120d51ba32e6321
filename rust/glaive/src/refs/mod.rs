//! Names for versions: tags and branches (format chapter 30, 14).
//!
//! ```text
//! {main root}/_refs/tags/{tag}.json                       a version of main or of a branch
//! {main root}/_refs/branches/{branch, '/' as %2F}.json    where a branch starts
//! {main root}/tree/{branch}/                              the branch itself: a table
//! ```
//!
//! A branch is a shallow clone of the version that it starts from: its first manifest has the same version number and
//! names the files of its parent through a base path.

mod branches;
mod names;
mod tags;

use std::collections::BTreeMap;
use std::sync::Arc;

use glaive_file::io::Storage;
use glaive_file::{Context, Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use branches::History;
pub use branches::{Branch, Branches};
pub use names::{check_branch_name, check_tag_name};
pub use tags::{Tag, Tags};

use crate::dataset::{Dataset, OpenOptions};
use crate::versions::VersionStore;

/// Largest ref file that is read.
const MAX_REF_BYTES: u64 = 1 << 20;

/// The branch that every table has.
pub const MAIN: &str = "main";

/// A way to name a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A version of the branch that the snapshot is on.
    Version(u64),
    /// What a tag says.
    Tag(String),
    /// A version of a branch, `None` for main; without number the latest.
    Branch(Option<String>, Option<u64>),
}

impl Dataset {
    /// The branch of this snapshot; `None` for main.
    pub fn branch(&self) -> Option<&str> {
        self.manifest().branch.as_deref()
    }

    /// The tags of the table, those of all branches.
    ///
    /// # Errors
    /// Corrupt if the snapshot is of a branch but does not lie where a branch does.
    pub fn tags(&self) -> Result<Tags> {
        Ok(Tags::new(self.clone(), main_root(self)?))
    }

    /// The branches of the table.
    ///
    /// # Errors
    /// As of [`Dataset::tags`].
    pub fn branches(&self) -> Result<Branches> {
        Ok(Branches::new(self.clone(), main_root(self)?))
    }

    /// Another version of this table, by any of its names.
    ///
    /// # Errors
    /// Not found.
    pub fn checkout(&self, reference: &Reference) -> Result<Self> {
        match reference {
            Reference::Version(version) => self.checkout_version(*version),
            Reference::Tag(name) => {
                let tag = self.tags()?.get(name)?;
                self.checkout_branch(tag.branch.as_deref(), Some(tag.version))
            }
            Reference::Branch(branch, version) => self.checkout_branch(branch.as_deref(), *version),
        }
    }

    fn checkout_branch(&self, branch: Option<&str>, version: Option<u64>) -> Result<Self> {
        let branch = branch.filter(|name| *name != MAIN);
        if branch == self.branch() {
            return match version {
                Some(version) => self.checkout_version(version),
                None => self.checkout_latest(),
            };
        }
        let storage = branch_storage(&main_root(self)?, branch)?;
        let options = OpenOptions {
            version,
            ..OpenOptions::default()
        };
        let opened = Self::open_storage(&storage, options)?;
        match opened.branch() == branch {
            true => opened.with_settings(None, self.store().lock.clone()),
            false => Err(Error::corrupt(format!(
                "{} holds branch {}, not {}",
                storage.uri(),
                opened.branch().unwrap_or(MAIN),
                branch.unwrap_or(MAIN)
            ))),
        }
    }
}

/// The storage of the main branch, which has the refs of the table.
fn main_root(dataset: &Dataset) -> Result<Arc<dyn Storage>> {
    let storage = &dataset.store().storage;
    let Some(branch) = dataset.branch() else {
        return Ok(storage.clone());
    };
    // A relative location may begin below the root.
    let (place, location) = (storage.uri().trim_end_matches('/'), storage.location());
    let suffix = format!("/tree/{branch}");
    let root = place.strip_suffix(&suffix).or(location.strip_suffix(&suffix));
    let root = root.ok_or_else(|| {
        Error::corrupt(format!(
            "the manifest says branch {branch}, but {place} does not end with tree/{branch}"
        ))
    })?;
    storage.sibling(root)
}

/// The storage of a branch.
fn branch_storage(root: &Arc<dyn Storage>, branch: Option<&str>) -> Result<Arc<dyn Storage>> {
    let Some(branch) = branch else {
        return Ok(root.clone());
    };
    check_branch_name(branch)?;
    root.sibling(&format!("{}/tree/{branch}", root.uri().trim_end_matches('/')))
}

/// The version that a reference names, its branch, and the size of its manifest in bytes.
fn resolve(dataset: &Dataset, reference: &Reference) -> Result<(Option<String>, u64, u64)> {
    let (branch, version) = match reference {
        Reference::Version(version) => (dataset.branch().map(str::to_owned), Some(*version)),
        Reference::Tag(name) => {
            let tag = dataset.tags()?.get(name)?;
            (tag.branch, Some(tag.version))
        }
        Reference::Branch(branch, version) => (branch.clone().filter(|name| name != MAIN), *version),
    };
    let storage = branch_storage(&main_root(dataset)?, branch.as_deref())?;
    let missing = |version: Option<u64>| {
        let version = version.map_or_else(|| "latest".to_owned(), |number| number.to_string());
        let name = branch.as_deref().unwrap_or(MAIN);
        Error::not_found(format!(
            "Version not found error: version {name}:{version} does not exist"
        ))
    };
    let (store, versions) = VersionStore::find(&storage)?.ok_or_else(|| missing(version))?;
    let number = version
        .or(versions.last().copied())
        .ok_or_else(|| missing(version))?;
    match storage.size(&store.naming.path(number)) {
        Ok(size) => Ok((branch.clone(), number, size)),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(missing(Some(number))),
        Err(e) => Err(e),
    }
}

/// Reads a ref file; `None` if there is none.
fn load<T: DeserializeOwned>(root: &dyn Storage, path: &str) -> Result<Option<T>> {
    let bytes = match root.read(path, MAX_REF_BYTES) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed
        .map(Some)
        .map_err(|e| Error::corrupt(format!("not a ref: {e}")).context(path.to_owned()))
}

/// The stored form: JSON with an indent of two spaces.
fn encode<T: Serialize>(stored: &T) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(stored)
        .map_err(|e| Error::invalid_input(format!("a ref cannot be stored: {e}")))
}

/// The refs of a directory by name. One that disappears meanwhile is left out.
fn load_all<T: DeserializeOwned>(
    root: &dyn Storage,
    directory: &str,
    name_of: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, T>> {
    let mut refs = BTreeMap::new();
    for file in root.list_names(directory)? {
        let Some(name) = file.strip_suffix(".json").and_then(&name_of) else {
            continue;
        };
        if let Some(stored) =
            load(root, &format!("{directory}/{file}")).context(|| format!("ref '{name}'"))?
        {
            refs.insert(name, stored);
        }
    }
    Ok(refs)
}
