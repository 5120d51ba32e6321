//! Removing old versions and the files that only they use (format chapter 31, 9).
//!
//! A version goes if every condition of the policy holds for it and nothing protects it: the version of the handle and
//! all newer ones, tagged versions, and those that a branch starts from. A file goes if it belongs to a removed version
//! and to no kept one, or if no version names it and it is old enough that its writer cannot still be about to commit.
//!
//! Manifests go first, the oldest first, and files after them: a cleanup that is interrupted leaves files too many,
//! never a version that opens and lacks one.

mod automatic;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use glaive_file::io::Entry;
use glaive_file::{Error, ErrorKind, Result};

pub(crate) use automatic::after_commit;
pub use automatic::{AutoCleanup, format_duration, parse_duration};
use references::References;

use crate::dataset::Dataset;
use crate::manifest::{DETACHED, Naming, VERSIONS};
use crate::refs::{History, MAIN};

/// Age of a file that no version names at which no writer can still be about to commit it.
const UNVERIFIED_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Files between two reports of progress.
const BATCH: usize = 100;

/// Which versions go. All conditions that are given must hold; without any, versions older than two weeks go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Versions from before this time.
    pub before: Option<DateTime<Utc>>,
    /// All but so many of the newest. At least 1.
    pub retain_versions: Option<u64>,
    /// Exactly these.
    pub versions: Option<Vec<u64>>,
    /// Also removes files that no version names and that are younger than a week. A writer that is at work loses its
    /// files.
    pub delete_unverified: bool,
    /// A tagged version that would go is an error; else it is kept silently.
    pub error_if_tagged_old_versions: bool,
    /// Cleans the branches that start from this one first, by the same policy.
    pub clean_referenced_branches: bool,
    /// Files per second.
    pub delete_rate_limit: Option<u64>,
}

/// The time so long ago. An age beyond the calendar is its first or last moment: left out, it would be no condition at all.
pub fn time_before(age: TimeDelta) -> DateTime<Utc> {
    let limit = match age < TimeDelta::zero() {
        true => DateTime::<Utc>::MAX_UTC,
        false => DateTime::<Utc>::MIN_UTC,
    };
    Utc::now().checked_sub_signed(age).unwrap_or(limit)
}

impl Default for CleanupPolicy {
    fn default() -> Self {
        Self {
            before: None,
            retain_versions: None,
            versions: None,
            delete_unverified: false,
            error_if_tagged_old_versions: true,
            clean_referenced_branches: false,
            delete_rate_limit: None,
        }
    }
}

/// What a cleanup removed, or would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CleanupStats {
    /// Bytes of all files.
    pub bytes_removed: u64,
    /// Versions.
    pub old_versions: u64,
    /// Data files and their blob files.
    pub data_files_removed: u64,
    /// Transaction files.
    pub transaction_files_removed: u64,
    /// Files of indices.
    pub index_files_removed: u64,
    /// Deletion files.
    pub deletion_files_removed: u64,
    /// Files that could not be removed.
    pub failed_deletes: u64,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A version.
    Manifest,
    /// A data file or a blob file beside it.
    Data,
    /// A transaction.
    Transaction,
    /// A file of an index.
    Index,
    /// A list of deleted rows.
    Deletion,
    /// What an interrupted write left.
    Temporary,
}

impl FileKind {
    /// The name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Data => "data",
            Self::Transaction => "transaction",
            Self::Index => "index",
            Self::Deletion => "deletion",
            Self::Temporary => "temporary",
        }
    }
}

/// Why a file goes or stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Goes: the version does.
    OldVersion,
    /// Goes: only versions that go name it.
    OnlyOldVersions,
    /// Goes: no version names it, and it is a week old or the policy does not mind.
    Unverified,
    /// Stays: a kept version names it.
    InUse,
    /// Stays: no version names it, but a writer may be about to.
    TooYoung,
    /// Stays: the version is not old by the policy, or not older than that of the handle.
    Current,
    /// Stays: the version has a tag.
    Tagged(String),
    /// Stays: a branch starts from the version.
    BranchStart(String),
}

impl Reason {
    /// Whether the file goes.
    pub fn is_removed(&self) -> bool {
        matches!(self, Self::OldVersion | Self::OnlyOldVersions | Self::Unverified)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OldVersion => f.write_str("the version is old"),
            Self::OnlyOldVersions => f.write_str("only old versions use it"),
            Self::Unverified => f.write_str("no version uses it"),
            Self::InUse => f.write_str("a version that stays uses it"),
            Self::TooYoung => f.write_str("no version uses it, but it is younger than 7 days"),
            Self::Current => f.write_str("the version is not old"),
            Self::Tagged(tag) => write!(f, "the version has the tag {tag}"),
            Self::BranchStart(branch) => write!(f, "the branch {branch} starts from the version"),
        }
    }
}

/// A file and what happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Below the root of the table.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub kind: FileKind,
    /// Why it goes or stays.
    pub reason: Reason,
}

/// What a cleanup would do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupPlan {
    /// Version of the handle.
    pub read_version: u64,
    /// Versions that go, ascending.
    pub versions: Vec<u64>,
    /// Every file that was judged: manifests first, by version.
    pub files: Vec<PlannedFile>,
    /// Branches whose files were taken into account.
    pub branches: Vec<String>,
}

impl CleanupPlan {
    /// The files that go, in the order in which they do.
    pub fn removed(&self) -> impl Iterator<Item = &PlannedFile> {
        self.files.iter().filter(|file| file.reason.is_removed())
    }

    /// What would be removed.
    pub fn stats(&self) -> CleanupStats {
        let mut stats = CleanupStats::default();
        self.removed().for_each(|file| stats.add(file));
        stats
    }
}

impl CleanupStats {
    fn add(&mut self, file: &PlannedFile) {
        self.bytes_removed = self.bytes_removed.saturating_add(file.size);
        match file.kind {
            FileKind::Manifest => self.old_versions += 1,
            FileKind::Data => self.data_files_removed += 1,
            FileKind::Transaction => self.transaction_files_removed += 1,
            FileKind::Index => self.index_files_removed += 1,
            FileKind::Deletion => self.deletion_files_removed += 1,
            FileKind::Temporary => {}
        }
    }
}

/// Hears of the files removed so far and of all that go, after each batch. An error ends the cleanup, which leaves a
/// whole table.
pub type CleanupListener<'a> = dyn FnMut(u64, u64) -> Result<()> + 'a;

impl Dataset {
    /// What [`Dataset::cleanup`] would do. Removes nothing.
    ///
    /// # Errors
    /// As [`Dataset::cleanup`].
    pub fn plan_cleanup(&self, policy: &CleanupPolicy) -> Result<CleanupPlan> {
        policy.check()?;
        Planner::new(self, policy)?.plan()
    }

    /// Removes old versions of this branch, and files that nothing needs. Never the version of this handle or a newer
    /// one, and nothing that a version of this table or of one of its branches names. Shallow clones in other places
    /// are not known: they lose their files with the versions that they were made from.
    ///
    /// # Errors
    /// Invalid input for the policy, or for tagged versions if it says so; any error of a manifest that cannot be read,
    /// before anything is removed. A file that cannot be removed is counted.
    pub fn cleanup(
        &self,
        policy: &CleanupPolicy,
        listener: &mut CleanupListener<'_>,
    ) -> Result<CleanupStats> {
        policy.check()?;
        if policy.clean_referenced_branches {
            self.clean_branches(policy)?;
        }
        let plan = self.plan_cleanup(policy)?;
        let storage = &self.store().storage;
        let total = plan.removed().count() as u64;
        let mut remover = Remover {
            dataset: self,
            policy,
            listener,
            total,
            done: 0,
            started: Instant::now(),
            stats: CleanupStats::default(),
        };
        let (manifests, files): (Vec<_>, Vec<_>) =
            plan.removed().partition(|file| file.kind == FileKind::Manifest);
        remover.remove_all(manifests.iter().copied(), &References::default())?;
        if !manifests.is_empty() {
            // After a power loss, no manifest may come back whose files are gone.
            storage.sync_directory(VERSIONS)?;
        }
        let added = self.references_since(plan.read_version)?;
        remover.remove_all(files.iter().copied(), &added)?;
        remove_empty_directories(self, &files);
        Ok(remover.stats)
    }

    /// Cleans the branches that start from this one, and those that start from them.
    fn clean_branches(&self, policy: &CleanupPolicy) -> Result<()> {
        for history in self.branches()?.histories()? {
            if let Some(latest) = history.versions.last()
                && history.branch.parent_branch.as_deref() == self.branch()
            {
                let file = history.store.load(*latest)?;
                let branch = Self::new(history.store, file.manifest, file.indices);
                branch.cleanup(policy, &mut |_, _| Ok(()))?;
            }
        }
        Ok(())
    }

    /// The files of versions that came while the cleanup was planned; one may restore a version that goes.
    fn references_since(&self, version: u64) -> Result<References> {
        let mut references = References::default();
        for number in self
            .store()
            .list()?
            .into_iter()
            .filter(|number| *number >= version)
        {
            match self.store().load(number) {
                Ok(file) => references.add(&self.store().storage, &file, true)?,
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(references)
    }
}

impl CleanupPolicy {
    fn check(&self) -> Result<()> {
        if self.retain_versions == Some(0) {
            return Err(Error::invalid_input(
                "retain_versions must be greater than 0, got 0",
            ));
        }
        if self.delete_rate_limit == Some(0) {
            return Err(Error::invalid_input(
                "delete_rate_limit must be greater than 0, got 0",
            ));
        }
        if self.versions.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid_input("versions must not be empty when specified"));
        }
        Ok(())
    }

    /// With what holds if nothing was said.
    fn with_default(&self) -> Self {
        let mut policy = self.clone();
        if self.before.is_none() && self.retain_versions.is_none() && self.versions.is_none() {
            policy.before = Some(time_before(TimeDelta::days(14)));
        }
        policy
    }
}

/// Gathers what protects versions and files.
struct Planner<'a> {
    dataset: &'a Dataset,
    policy: CleanupPolicy,
    now: SystemTime,
    /// Names of tags by version of this branch.
    tags: BTreeMap<u64, String>,
    /// Names of branches by the version of this branch that they start from.
    starts: BTreeMap<u64, String>,
    kept: References,
    removed: References,
    branches: Vec<String>,
}

impl<'a> Planner<'a> {
    fn new(dataset: &'a Dataset, policy: &CleanupPolicy) -> Result<Self> {
        let own = dataset.branch();
        let tags = dataset.tags()?.list()?.into_iter();
        let tags = tags.filter(|(_, tag)| tag.branch.as_deref().filter(|name| *name != MAIN) == own);
        let mut planner = Self {
            dataset,
            policy: policy.with_default(),
            now: SystemTime::now(),
            tags: tags.map(|(name, tag)| (tag.version, name)).collect(),
            starts: BTreeMap::new(),
            kept: References::default(),
            removed: References::default(),
            branches: Vec::new(),
        };
        planner.read_branches()?;
        Ok(planner)
    }

    /// What other branches use of this one.
    fn read_branches(&mut self) -> Result<()> {
        let storage = &self.dataset.store().storage;
        let own = self.dataset.branch();
        for history in self.dataset.branches()?.histories()? {
            let History {
                name,
                branch,
                store,
                versions,
            } = history;
            if Some(name.as_str()) == own {
                continue;
            }
            if branch.parent_branch.as_deref() == own {
                self.starts.insert(branch.parent_version, name.clone());
            }
            for version in versions {
                self.kept.add(storage, &store.load(version)?, false)?;
            }
            self.branches.push(name);
        }
        Ok(())
    }

    fn plan(mut self) -> Result<CleanupPlan> {
        let (versions, mut files) = self.judge_versions()?;
        self.keep_detached()?;
        files.extend(self.judge_files()?);
        Ok(CleanupPlan {
            read_version: self.dataset.version(),
            versions,
            files,
            branches: self.branches,
        })
    }

    /// The versions that go, and all manifests with what happens to them.
    fn judge_versions(&mut self) -> Result<(Vec<u64>, Vec<PlannedFile>)> {
        let store = self.dataset.store();
        let all = store.list()?;
        let (mut removed, mut files, mut tagged) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (position, version) in all.iter().enumerate() {
            let newer = (all.len() - position - 1) as u64;
            let file = store.load(*version)?;
            let reason = self.judge_version(*version, newer, file.manifest.timestamp);
            let references = match reason.is_removed() {
                true => &mut self.removed,
                false => &mut self.kept,
            };
            references.add(&store.storage, &file, true)?;
            if let Reason::Tagged(tag) = &reason {
                tagged.insert(tag.clone(), *version);
            }
            if reason.is_removed() {
                removed.push(*version);
            }
            let path = store.naming.path(*version);
            let size = store.storage.size(&path)?;
            files.push(planned(path, size, FileKind::Manifest, reason));
        }
        match self.policy.error_if_tagged_old_versions && !tagged.is_empty() {
            true => Err(old_tags(&tagged)),
            false => Ok((removed, files)),
        }
    }

    /// `newer`: how many versions are.
    fn judge_version(&self, version: u64, newer: u64, timestamp: DateTime<Utc>) -> Reason {
        let policy = &self.policy;
        let is_old = version < self.dataset.version()
            && newer > 0
            && policy.before.is_none_or(|before| timestamp < before)
            && policy.retain_versions.is_none_or(|retained| newer >= retained)
            && policy
                .versions
                .as_ref()
                .is_none_or(|list| list.contains(&version));
        if !is_old {
            return Reason::Current;
        }
        if let Some(tag) = self.tags.get(&version) {
            return Reason::Tagged(tag.clone());
        }
        match self.starts.get(&version) {
            Some(branch) => Reason::BranchStart(branch.clone()),
            None => Reason::OldVersion,
        }
    }

    /// Detached versions are never removed, and keep their files.
    fn keep_detached(&mut self) -> Result<()> {
        let store = self.dataset.store();
        for name in store.storage.list_names(VERSIONS)? {
            if let Some((_, version)) = Naming::parse(&name).filter(|(_, version)| version & DETACHED != 0) {
                self.kept.add(&store.storage, &store.load(version)?, true)?;
            }
        }
        Ok(())
    }

    fn judge_files(&self) -> Result<Vec<PlannedFile>> {
        let storage = &self.dataset.store().storage;
        let mut files = Vec::new();
        for directory in ["_transactions", "data", "_deletions", "_indices", VERSIONS] {
            for entry in storage.list(directory)? {
                if let Some((kind, owner)) = owner_of(&entry.path) {
                    let reason = self.judge_file(&entry, &owner);
                    files.push(planned(entry.path, entry.size, kind, reason));
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    fn judge_file(&self, entry: &Entry, owner: &str) -> Reason {
        if self.kept.contains(owner) {
            return Reason::InUse;
        }
        if self.removed.contains(owner) {
            return Reason::OnlyOldVersions;
        }
        // A file from the future has no age.
        let age = self.now.duration_since(entry.modified).unwrap_or_default();
        match self.policy.delete_unverified || age > UNVERIFIED_AGE {
            true => Reason::Unverified,
            false => Reason::TooYoung,
        }
    }
}

fn old_tags(tagged: &BTreeMap<String, u64>) -> Error {
    Error::invalid_input(format!(
        "Cleanup error: {} tagged version(s) have been marked for cleanup. Either set \
         `error_if_tagged_old_versions=false` or delete the following tag(s) to enable cleanup: {tagged:?}",
        tagged.len()
    ))
}

fn planned(path: String, size: u64, kind: FileKind, reason: Reason) -> PlannedFile {
    PlannedFile {
        path,
        size,
        kind,
        reason,
    }
}

/// What a file is, and the path or directory by which versions name it; `None` for files that cleanup leaves alone.
fn owner_of(path: &str) -> Option<(FileKind, String)> {
    let (directory, rest) = path.split_once('/')?;
    let name = rest.rsplit('/').next().unwrap_or(rest);
    let own = |kind| Some((kind, path.to_owned()));
    match directory {
        _ if name.starts_with(".tmp") && directory != "_indices" => own(FileKind::Temporary),
        "data" if name.ends_with(".lance") => own(FileKind::Data),
        "data" if name.ends_with(".blob") => {
            let (data_file, _) = path.rsplit_once('/')?;
            Some((FileKind::Data, format!("{data_file}.lance")))
        }
        "_transactions" if name.ends_with(".txn") => own(FileKind::Transaction),
        "_deletions" if name.ends_with(".arrow") || name.ends_with(".bin") => own(FileKind::Deletion),
        "_indices" => {
            let (uuid, _) = rest.split_once('/')?;
            Some((FileKind::Index, format!("_indices/{uuid}")))
        }
        _ => None,
    }
}

struct Remover<'a, 'b> {
    dataset: &'a Dataset,
    policy: &'a CleanupPolicy,
    listener: &'a mut CleanupListener<'b>,
    total: u64,
    done: u64,
    started: Instant,
    stats: CleanupStats,
}

impl Remover<'_, '_> {
    fn remove_all<'f>(
        &mut self,
        files: impl Iterator<Item = &'f PlannedFile>,
        added: &References,
    ) -> Result<()> {
        let files: Vec<_> = files.collect();
        for batch in files.chunks(BATCH) {
            for file in batch {
                self.remove(file, added);
            }
            (self.listener)(self.done, self.total)?;
        }
        Ok(())
    }

    fn remove(&mut self, file: &PlannedFile, added: &References) {
        self.done += 1;
        let owner = owner_of(&file.path);
        if owner.is_some_and(|(_, owner)| added.contains(&owner)) {
            return;
        }
        match self.dataset.store().storage.delete(&file.path) {
            Ok(()) => self.stats.add(file),
            // Another cleanup was faster.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(_) => self.stats.failed_deletes += 1,
        }
        if let Some(limit) = self.policy.delete_rate_limit {
            let due = Duration::from_secs_f64(self.done as f64 / limit as f64);
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
    }
}

/// Directories of indices and blob files that have become empty.
fn remove_empty_directories(dataset: &Dataset, files: &[&PlannedFile]) {
    let mut directories = BTreeSet::new();
    for file in files {
        let parents = file.path.match_indices('/').skip(1);
        directories.extend(parents.filter_map(|(at, _)| file.path.get(..at)));
    }
    for directory in directories.into_iter().rev() {
        // Fails where something is left.
        let _ = dataset.store().storage.remove_empty_directory(directory);
    }
}
