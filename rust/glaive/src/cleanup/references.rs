//! Which files of a table its versions name.

use std::collections::HashSet;
use std::sync::Arc;

use glaive_file::Result;
use glaive_file::io::Storage;

use crate::manifest::{DataFile, ManifestFile};
use crate::proto::lance::table as pb;
use crate::transaction::transaction_path;

/// Paths below the root of one table; of an index its directory.
#[derive(Debug, Default)]
pub(super) struct References {
    paths: HashSet<String>,
}

impl References {
    pub(super) fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Adds what a version names of the table at `root`. `is_own`: the version belongs to that table; else only files
    /// count that it reaches through a base path.
    pub(super) fn add(&mut self, root: &Arc<dyn Storage>, file: &ManifestFile, is_own: bool) -> Result<()> {
        let manifest = &file.manifest;
        let places = Places::new(root.as_ref(), &manifest.base_paths, is_own);
        for fragment in &manifest.fragments {
            self.paths
                .extend(fragment.files.iter().filter_map(|file| places.data_file(file)));
            let overlays = fragment
                .rest
                .overlays
                .iter()
                .filter_map(|overlay| overlay.data_file.as_ref());
            self.paths
                .extend(overlays.filter_map(|file| places.data_path(&file.path, file.base_id)));
            let deletions = fragment.deletion_file.iter();
            self.paths.extend(
                deletions.filter_map(|file| places.below_root(&file.path(fragment.id), file.base_id)),
            );
        }
        if is_own && !manifest.transaction_file.is_empty() {
            self.paths.insert(transaction_path(&manifest.transaction_file)?);
        }
        let indices = file.indices.entries.iter().filter_map(|index| {
            let directory = format!("_indices/{}", index.uuid().hyphenated());
            places.below_root(&directory, index.metadata().base_id)
        });
        self.paths.extend(indices);
        Ok(())
    }
}

/// Which base paths lie in the table.
struct Places {
    is_own: bool,
    /// Id, path below the root of the table (empty: the root itself), whether it is the root of a table.
    bases: Vec<(u32, String, bool)>,
}

impl Places {
    fn new(root: &dyn Storage, bases: &[pb::BasePath], is_own: bool) -> Self {
        let inside = |base: &pb::BasePath| {
            let below = relative(root, &base.path)?;
            Some((base.id, below, base.is_dataset_root))
        };
        Self {
            is_own,
            bases: bases.iter().filter_map(inside).collect(),
        }
    }

    fn data_file(&self, file: &DataFile) -> Option<String> {
        self.data_path(&file.path, file.base_id)
    }

    fn data_path(&self, path: &str, base: Option<u32>) -> Option<String> {
        let Some(id) = base else {
            return self.is_own.then(|| format!("data/{path}"));
        };
        let (_, below, is_root) = self.bases.iter().find(|(known, ..)| *known == id)?;
        Some(match is_root {
            true => join(below, &format!("data/{path}")),
            false => join(below, path),
        })
    }

    /// A path below the root of the table that a base is.
    fn below_root(&self, path: &str, base: Option<u32>) -> Option<String> {
        let Some(id) = base else {
            return self.is_own.then(|| path.to_owned());
        };
        let (_, below, _) = self.bases.iter().find(|(known, ..)| *known == id)?;
        Some(join(below, path))
    }
}

fn join(directory: &str, path: &str) -> String {
    match directory {
        "" => path.to_owned(),
        _ => format!("{directory}/{path}"),
    }
}

/// The path of a location below the root, as far up as a table's own directories go; `None` if it lies elsewhere.
fn relative(root: &dyn Storage, location: &str) -> Option<String> {
    let mut rest = location.trim_end_matches('/');
    let mut below = String::new();
    loop {
        if root.is_at(rest) {
            return Some(below);
        }
        let (parent, name) = rest.rsplit_once('/')?;
        if parent.is_empty() || parent.ends_with('/') {
            return None;
        }
        below = match below.is_empty() {
            true => name.to_owned(),
            false => format!("{name}/{below}"),
        };
        rest = parent;
    }
}
