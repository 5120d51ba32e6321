//! A table at one version.

mod commit;
mod delete;
mod evolve;
mod fragment;
mod settings;
mod versions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use glaive_file::io::{Durability, IoStats, LocalStorage, Storage};
use glaive_file::{Error, FileVersion, Result, Schema};

pub use delete::{Deleted, RetryOptions};
pub use evolve::ColumnAlteration;
pub use fragment::FragmentHandle;
pub use versions::{VersionInfo, VersionSummary};

use crate::data_file::FileCache;
use crate::lock::CommitLock;
use crate::manifest::{IndexSection, Manifest, ManifestFile, Naming, feature_flags};
use crate::storages::Storages;
use crate::transaction::Transaction;
use crate::versions::{VersionStore, migrate_to_v2, not_found};

/// Which version to open. The latest by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// This version. Detached versions have the top bit set.
    pub version: Option<u64>,
    /// The newest version from before this time. Ignored if `version` is given.
    pub as_of: Option<DateTime<Utc>>,
}

/// An immutable snapshot of a table: cheap to clone, safe to share. Other writers do not change it.
#[derive(Clone)]
pub struct Dataset {
    inner: Arc<Inner>,
}

struct Inner {
    store: VersionStore,
    storages: Storages,
    manifest: Manifest,
    indices: IndexSection,
    cache: FileCache,
}

impl Dataset {
    /// Opens a table.
    ///
    /// # Errors
    /// Not found (`Dataset at path ... was not found`) if there is no table or no such version; invalid input for a
    /// time before the first version; corrupt or unsupported by the manifest.
    pub fn open(uri: &str, options: OpenOptions) -> Result<Self> {
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::from_uri(uri)?);
        Self::open_storage(&storage, options)
    }

    /// Opens a table at a storage; see [`Dataset::open`].
    pub fn open_storage(storage: &Arc<dyn Storage>, options: OpenOptions) -> Result<Self> {
        Self::find(storage, options)?.ok_or_else(|| not_found(storage.as_ref()))
    }

    /// The table at a storage; `None` if there is no manifest.
    pub(crate) fn find(storage: &Arc<dyn Storage>, options: OpenOptions) -> Result<Option<Self>> {
        if let Some(version) = options.version {
            // By its name, without a listing: also where the listing is not in order.
            let named = VersionStore::new(storage.clone(), Naming::V2);
            let file = named.load(version)?;
            let naming = match storage.exists(&Naming::V2.path(version))? {
                true => Naming::V2,
                false => Naming::V1,
            };
            let store = VersionStore { naming, ..named };
            return Ok(Some(Self::new(store, file.manifest, file.indices)));
        }
        let Some((store, versions)) = VersionStore::find(storage)? else {
            return Ok(None);
        };
        let file = match options.as_of {
            Some(time) => versions::as_of(&store, &versions, time)?,
            None => match versions.last() {
                Some(version) => store.load(*version)?,
                None => return Ok(None),
            },
        };
        Ok(Some(Self::new(store, file.manifest, file.indices)))
    }

    pub(crate) fn new(store: VersionStore, manifest: Manifest, indices: IndexSection) -> Self {
        let storages = Storages::of(&store.storage, &manifest);
        let cache = FileCache::default();
        Self {
            inner: Arc::new(Inner {
                store,
                storages,
                manifest,
                indices,
                cache,
            }),
        }
    }

    /// This snapshot with other settings for what is written through it.
    ///
    /// # Errors
    /// Unsupported if the store cannot give the durability.
    pub fn with_settings(
        &self,
        durability: Option<Durability>,
        lock: Option<Arc<dyn CommitLock>>,
    ) -> Result<Self> {
        if durability.is_none() && lock.is_none() {
            return Ok(self.clone());
        }
        let store = self.inner.store.clone();
        let storage = with_durability(&store.storage, durability)?;
        let store = VersionStore {
            storage,
            lock: lock.or(store.lock),
            ..store
        };
        let indices = self.inner.indices.clone();
        Ok(Self::new(store, self.inner.manifest.clone(), indices))
    }

    /// Renames the manifests of a table that an early writer made, so that the newest sorts first. No writer may be at
    /// work; can be repeated.
    ///
    /// # Errors
    /// Corrupt if a version has two manifests that differ.
    pub fn migrate_manifest_paths_v2(&self) -> Result<Self> {
        migrate_to_v2(self.inner.store.storage.as_ref())?;
        self.checkout_version(self.version())
    }

    /// The numbers of all versions, ascending. Reads no manifest.
    pub fn version_numbers(&self) -> Result<Vec<u64>> {
        self.inner.store.list()
    }

    /// The location as it was given to [`Dataset::open`].
    pub fn uri(&self) -> &str {
        self.inner.store.storage.uri()
    }

    /// The version of this snapshot.
    pub fn version(&self) -> u64 {
        self.inner.manifest.version
    }

    /// The newest version that the storage has now.
    pub fn latest_version(&self) -> Result<u64> {
        self.inner.store.latest()
    }

    /// Another version of this table.
    ///
    /// # Errors
    /// Not found.
    pub fn checkout_version(&self, version: u64) -> Result<Self> {
        let ManifestFile {
            manifest, indices, ..
        } = self.inner.store.load(version)?;
        Ok(Self::new(self.inner.store.clone(), manifest, indices))
    }

    /// The newest version of this table.
    pub fn checkout_latest(&self) -> Result<Self> {
        self.checkout_version(self.latest_version()?)
    }

    /// The schema with field ids.
    pub fn schema(&self) -> &Schema {
        &self.inner.manifest.schema
    }

    /// The manifest of this version.
    pub fn manifest(&self) -> &Manifest {
        &self.inner.manifest
    }

    /// The segments of the indices of this version.
    pub fn indices(&self) -> &IndexSection {
        &self.inner.indices
    }

    /// Table config.
    pub fn config(&self) -> &BTreeMap<String, String> {
        &self.inner.manifest.config
    }

    /// Format of new data files when a writer names none.
    pub fn data_storage_version(&self) -> FileVersion {
        self.inner.manifest.data_version
    }

    /// Whether rows keep their id when they move.
    pub fn has_stable_row_ids(&self) -> bool {
        self.inner.manifest.flags.reader & feature_flags::STABLE_ROW_IDS != 0
    }

    /// All versions that the storage has now, ascending.
    pub fn versions(&self) -> Result<Vec<VersionInfo>> {
        versions::list(&self.inner.store)
    }

    /// This version as [`Dataset::versions`] lists it. Reads nothing.
    pub fn version_info(&self) -> VersionInfo {
        VersionInfo::of(&self.inner.manifest)
    }

    /// The transaction that made a version; `None` if the version carries none.
    pub fn read_transaction(&self, version: u64) -> Result<Option<Transaction>> {
        let file = self.inner.store.load(version)?;
        if file.transaction_section.is_none() && file.manifest.transaction_file.is_empty() {
            return Ok(None);
        }
        self.inner.store.transaction_of(&file).map(Some)
    }

    /// The fragments in scan order.
    pub fn fragments(&self) -> Vec<FragmentHandle> {
        let fragments = self.inner.manifest.fragments.iter();
        fragments
            .map(|metadata| FragmentHandle::new(self.clone(), metadata.clone()))
            .collect()
    }

    /// The fragment of that id.
    pub fn fragment(&self, id: u32) -> Option<FragmentHandle> {
        let metadata = self.inner.manifest.fragment(id)?;
        Some(FragmentHandle::new(self.clone(), metadata.clone()))
    }

    /// Live rows. Reads only what the manifest does not say.
    pub fn count_rows(&self) -> Result<u64> {
        self.fragments().iter().try_fold(0u64, |sum, fragment| {
            Ok(sum.saturating_add(fragment.count_rows()?))
        })
    }

    /// Reads done through this handle and those made from it.
    pub fn io_stats(&self) -> IoStats {
        self.inner.store.storage.stats()
    }

    pub(crate) fn store(&self) -> &VersionStore {
        &self.inner.store
    }

    pub(crate) fn storages(&self) -> &Storages {
        &self.inner.storages
    }

    pub(crate) fn cache(&self) -> &FileCache {
        &self.inner.cache
    }

    /// Fails for row ids of a table whose ids are not addresses.
    pub(crate) fn check_row_ids_are_addresses(&self) -> Result<()> {
        match self.has_stable_row_ids() {
            true => Err(Error::unsupported(
                "_rowid of a table with stable row ids is not supported; use _rowaddr",
            )),
            false => Ok(()),
        }
    }
}

/// A storage with the durability asked for.
pub(crate) fn with_durability(
    storage: &Arc<dyn Storage>,
    durability: Option<Durability>,
) -> Result<Arc<dyn Storage>> {
    let changed = durability.filter(|wanted| *wanted != storage.durability());
    let Some(wanted) = changed else {
        return Ok(storage.clone());
    };
    storage
        .with_durability(wanted)
        .ok_or_else(|| Error::unsupported(format!("durability {wanted:?} at {}", storage.uri())))
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("uri", &self.uri())
            .field("version", &self.version())
            .finish()
    }
}
