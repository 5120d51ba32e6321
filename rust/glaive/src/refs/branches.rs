//! Branches: `_refs/branches/{branch}.json` and a table below `tree` (format chapter 30, 14.2 and 15.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::Utc;
use glaive_file::io::Storage;
use glaive_file::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::{Reference, branch_storage, check_branch_name, encode, load, load_all};
use crate::commit::{already_exists, commit_clone};
use crate::dataset::Dataset;
use crate::manifest::{DETACHED, IndexSection, Manifest, ManifestFile, Naming};
use crate::proto::lance::table as pb;
use crate::transaction::{Operation, Transaction};
use crate::versions::VersionStore;

const BRANCHES: &str = "_refs/branches";

/// Where a branch starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// The branch that it was made from; `None` for main.
    #[serde(default)]
    pub parent_branch: Option<String>,
    #[serde(default)]
    identifier: Option<Identifier>,
    /// Its first version, which is a copy of the parent's version of that number.
    pub parent_version: u64,
    /// Seconds since 1970.
    #[serde(rename = "createAt")]
    pub created_at: u64,
    /// Bytes of the manifest that it starts from.
    pub manifest_size: u64,
    /// Free text.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// The way from main to a branch: each start, and a random number of it in hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identifier {
    version_mapping: Vec<(u64, String)>,
}

impl Branch {
    /// The starts of all branches on the way from main to this one, each with a unique text.
    pub fn identifier(&self, name: &str) -> Vec<(u64, String)> {
        match &self.identifier {
            Some(identifier) => identifier.version_mapping.clone(),
            None => vec![(0, self.derived_identifier(name))],
        }
    }

    /// What stands for the identifier in files of early writers.
    fn derived_identifier(&self, name: &str) -> String {
        let text = format!(
            "branch_name={name}\nparent_branch={}\nparent_version={}\ncreate_at={}",
            self.parent_branch.as_deref().unwrap_or_default(),
            self.parent_version,
            self.created_at
        );
        let fnv = |basis: u64| {
            let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            text.bytes().fold(basis, step)
        };
        let basis = 0xcbf2_9ce4_8422_2325;
        format!("{:016x}{:016x}", fnv(basis), fnv(basis ^ 0x9e37_79b9_7f4a_7c15))
    }
}

/// A branch and its versions, ascending.
pub(crate) struct History {
    pub(crate) name: String,
    pub(crate) branch: Branch,
    pub(crate) store: VersionStore,
    pub(crate) versions: Vec<u64>,
}

/// The branches of a table.
#[derive(Debug, Clone)]
pub struct Branches {
    dataset: Dataset,
    root: Arc<dyn Storage>,
}

impl Branches {
    pub(super) fn new(dataset: Dataset, root: Arc<dyn Storage>) -> Self {
        Self { dataset, root }
    }

    /// All branches but main, by name.
    pub fn list(&self) -> Result<BTreeMap<String, Branch>> {
        load_all(self.root.as_ref(), BRANCHES, |stem| {
            Some(stem.replace("%2F", "/"))
        })
    }

    /// One branch.
    ///
    /// # Errors
    /// Not found.
    pub fn get(&self, name: &str) -> Result<Branch> {
        check_branch_name(name)?;
        load(self.root.as_ref(), &path(name))?
            .ok_or_else(|| Error::not_found(format!("Ref not found error: branch {name} does not exist")))
    }

    /// The versions of each branch but main.
    pub(crate) fn histories(&self) -> Result<Vec<History>> {
        let mut histories = Vec::new();
        for (name, branch) in self.list()? {
            let storage = branch_storage(&self.root, Some(&name))?;
            if let Some((store, versions)) = VersionStore::find(&storage)? {
                histories.push(History {
                    name,
                    branch,
                    store,
                    versions,
                });
            }
        }
        Ok(histories)
    }

    /// Makes a branch that starts from a version, and opens it.
    ///
    /// # Errors
    /// Invalid input for the name; already exists; not found for the version.
    pub fn create(&self, name: &str, reference: &Reference) -> Result<Dataset> {
        check_branch_name(name)?;
        if self.root.exists(&path(name))? {
            return Err(exists(name));
        }
        let source = self.dataset.checkout(reference)?;
        if source.version() & DETACHED != 0 {
            return Err(Error::unsupported(
                "a branch cannot start from a detached version",
            ));
        }
        let parent = match source.branch() {
            None => Vec::new(),
            Some(parent) => self.get(parent)?.identifier(parent),
        };
        let start = (source.version(), uuid::Uuid::new_v4().simple().to_string());
        let size = source.store().naming.path(source.version());
        let branch = Branch {
            parent_branch: source.branch().map(str::to_owned),
            identifier: Some(Identifier {
                version_mapping: parent.into_iter().chain([start]).collect(),
            }),
            parent_version: source.version(),
            created_at: u64::try_from(Utc::now().timestamp()).unwrap_or(0),
            manifest_size: source.store().storage.size(&size)?,
            metadata: BTreeMap::new(),
        };
        let cloned = self.clone_or_adopt(name, &source)?;
        let created = self.root.put_if_absent(&path(name), &encode(&branch)?);
        created.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => exists(name),
            _ => e,
        })?;
        Ok(cloned)
    }

    /// The first version of the branch; also one that an interrupted creation left.
    fn clone_or_adopt(&self, name: &str, source: &Dataset) -> Result<Dataset> {
        let storage = branch_storage(&self.root, Some(name))?;
        if let Some((store, versions)) = VersionStore::find(&storage)? {
            return adopt(store, &versions, source, name);
        }
        let (manifest, indices) = cloned_manifest(source, Some(name))?;
        let clone = pb::transaction::Clone {
            is_shallow: true,
            ref_name: source.branch().map(str::to_owned),
            ref_version: source.version(),
            ref_path: source.store().storage.location(),
            branch_name: Some(name.to_owned()),
        };
        let operation = Operation::Clone(clone);
        let transaction = Transaction::new(source.version(), operation);
        let store = VersionStore {
            lock: self.dataset.store().lock.clone(),
            ..VersionStore::new(storage, Naming::V2)
        };
        let flags = source.manifest().flags;
        match commit_clone(&store, manifest, indices, flags, &transaction) {
            Ok(committed) => Ok(Dataset::new(store, committed.manifest, committed.indices)),
            // Another creator of the same name was faster; the file of the branch decides.
            Err(failure) if failure.error.kind() == ErrorKind::AlreadyExists => Err(exists(name)),
            Err(failure) => Err(failure.error),
        }
    }

    /// Replaces the metadata of a branch.
    ///
    /// # Errors
    /// Not found.
    pub fn replace_metadata(&self, name: &str, metadata: BTreeMap<String, String>) -> Result<()> {
        let branch = Branch {
            metadata,
            ..self.get(name)?
        };
        self.root.put(&path(name), &encode(&branch)?)
    }

    /// Removes a branch with its versions and files.
    ///
    /// # Errors
    /// Not found; invalid input while a branch starts from it or a tag names a version of it.
    pub fn delete(&self, name: &str) -> Result<()> {
        let all = self.list()?;
        let branch = all
            .get(name)
            .ok_or_else(|| Error::not_found(format!("Ref not found error: Branch {name} does not exist")))?;
        check_branch_name(name)?;
        let own = branch.identifier(name);
        let children = all.iter().filter(|(other, child)| {
            *other != name && child.identifier.is_some() && child.identifier(other).starts_with(&own)
                || child.parent_branch.as_deref() == Some(name)
        });
        let children: Vec<_> = children
            .map(|(other, child)| (other, child.parent_version))
            .collect();
        if !children.is_empty() {
            return Err(in_use(name, &format!("{children:?} versions")));
        }
        let tags = self.dataset.tags()?.list()?;
        let tags = tags.iter().filter(|(_, tag)| tag.branch.as_deref() == Some(name));
        let tags: Vec<_> = tags.map(|(tag, stored)| (tag, stored.version)).collect();
        if !tags.is_empty() {
            return Err(in_use(name, &format!("tags {tags:?}")));
        }
        self.root.delete(&path(name))?;
        self.remove_table(name, all.keys())
    }

    /// Removes the files of a branch: manifests first, so that no version opens that lacks files.
    fn remove_table<'a>(&self, name: &str, others: impl Iterator<Item = &'a String>) -> Result<()> {
        let directory = format!("tree/{name}");
        let below = |other: &String| {
            other
                .starts_with(&format!("{name}/"))
                .then(|| format!("tree/{other}/"))
        };
        let kept: Vec<String> = others.filter_map(below).collect();
        let mut files = self.root.list(&directory)?;
        files.retain(|file| !kept.iter().any(|other| file.path.starts_with(other)));
        files.sort_by_key(|file| !file.path.starts_with(&format!("{directory}/_versions/")));
        let mut directories = BTreeSet::new();
        for file in files {
            self.root.delete(&file.path)?;
            let parents = file.path.match_indices('/').filter(|(at, _)| *at > "tree".len());
            directories.extend(
                parents
                    .filter_map(|(at, _)| file.path.get(..at))
                    .map(str::to_owned),
            );
        }
        for directory in directories.iter().rev() {
            // Fails where another branch lies below.
            let _ = self.root.remove_empty_directory(directory);
        }
        Ok(())
    }
}

fn path(name: &str) -> String {
    format!("{BRANCHES}/{}.json", name.replace('/', "%2F"))
}

fn exists(name: &str) -> Error {
    Error::already_exists(format!("Ref conflict error: branch {name} already exists"))
}

fn in_use(name: &str, by: &str) -> Error {
    Error::invalid_input(format!(
        "Ref conflict error: Branch {name} is referenced by {by}, can not delete"
    ))
}

/// Takes over the table of a creation that was interrupted before its branch file, if it is what would be made now.
fn adopt(store: VersionStore, versions: &[u64], source: &Dataset, name: &str) -> Result<Dataset> {
    let left_over = || {
        Error::new(
            already_exists(store.storage.uri()).kind(),
            format!(
                "{} holds versions of a branch that was not made completely, or not removed completely; remove this \
                 directory and make branch {name} again",
                store.storage.uri()
            ),
        )
    };
    let [version] = versions else {
        return Err(left_over());
    };
    let ManifestFile {
        manifest, indices, ..
    } = store.load(*version)?;
    let (expected, _) = cloned_manifest(source, Some(name))?;
    let same = manifest.version == expected.version
        && manifest.branch == expected.branch
        && manifest.fragments == expected.fragments
        && manifest.schema == expected.schema;
    match same {
        true => Ok(Dataset::new(store, manifest, indices)),
        false => Err(left_over()),
    }
}

/// The manifest of a shallow clone: own files of the source are reached through a new base path.
fn cloned_manifest(source: &Dataset, branch: Option<&str>) -> Result<(Manifest, IndexSection)> {
    let mut manifest = source.manifest().clone();
    let base = unused_base(&manifest.base_paths)?;
    for fragment in &mut manifest.fragments {
        let fragment = Arc::make_mut(fragment);
        for file in &mut fragment.files {
            file.base_id.get_or_insert(base);
        }
        if let Some(file) = &mut fragment.deletion_file {
            file.base_id.get_or_insert(base);
        }
    }
    let mut indices = source.indices().clone();
    for index in &mut indices.entries {
        *index = index.with_base(base)?;
    }
    manifest.base_paths.push(pb::BasePath {
        id: base,
        name: source.branch().map(str::to_owned),
        is_dataset_root: true,
        path: source.store().storage.location(),
    });
    manifest.branch = branch.map(str::to_owned);
    Ok((manifest, indices))
}

fn unused_base(bases: &[pb::BasePath]) -> Result<u32> {
    let used: BTreeSet<u32> = bases.iter().map(|base| base.id).collect();
    (0..u32::MAX)
        .find(|id| !used.contains(id))
        .ok_or_else(|| Error::invalid_input("the table has used up all base path ids"))
}
