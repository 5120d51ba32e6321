//! The seam to the file crate: opening the data files of a fragment and reading rows of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use glaive_file::batches::Windows;
use glaive_file::{
    BatchSize, Context, Error, Field, FieldSource, FileReader, FileVersion, ReadOptions, Result, Rows, json,
    read_fields,
};

use crate::deletion::DeletionVector;
use crate::manifest::{DataFile, Fragment};
use crate::storages::Storages;

/// Open files that a dataset keeps. Each holds a file descriptor.
const MAX_OPEN_FILES: usize = 128;

/// Largest deletion file that is read: a bitmap of 2^32 rows has 512 MiB, an Arrow file four bytes a row.
const MAX_DELETION_BYTES: u64 = 17 << 30;

/// Base path and path of a data file.
type FileKey = (Option<u32>, String);

/// Open files and decoded deletion files of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct FileCache {
    readers: Mutex<HashMap<FileKey, Arc<FileReader>>>,
    deletions: Mutex<HashMap<u32, Arc<DeletionVector>>>,
}

impl FileCache {
    fn reader(&self, storages: &Storages, file: &DataFile) -> Result<Arc<FileReader>> {
        let key = (file.base_id, file.path.clone());
        if let Some(reader) = self
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
        {
            return Ok(reader.clone());
        }
        let (storage, path) = storages.of_data_file(file)?;
        let reader = Arc::new(FileReader::open(storage.open_reader(&path)?).context(|| path)?);
        check_version(file, reader.version()).context(|| file.path.as_str())?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() >= MAX_OPEN_FILES {
            readers.clear();
        }
        readers.insert(key, reader.clone());
        Ok(reader)
    }

    /// The deleted rows of a fragment; `None` if it has no deletion file.
    pub(crate) fn deletions(
        &self,
        storages: &Storages,
        fragment: &Fragment,
        physical_rows: u64,
    ) -> Result<Option<Arc<DeletionVector>>> {
        let Some(file) = &fragment.deletion_file else {
            return Ok(None);
        };
        if let Some(known) = self
            .deletions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&fragment.id)
        {
            return Ok(Some(known.clone()));
        }
        let (storage, path) = storages.of_deletion_file(file, fragment.id)?;
        let decode =
            || DeletionVector::decode(file, &storage.read(&path, MAX_DELETION_BYTES)?, physical_rows);
        let vector = Arc::new(decode().context(|| path.as_str())?);
        let mut deletions = self.deletions.lock().unwrap_or_else(PoisonError::into_inner);
        deletions.insert(fragment.id, vector.clone());
        Ok(Some(vector))
    }

    /// Rows of a data file.
    pub(crate) fn rows_of(&self, storages: &Storages, file: &DataFile) -> Result<u64> {
        self.reader(storages, file)?.num_rows()
    }

    /// Rows in each data file of a fragment, from the manifest or else from a file.
    pub(crate) fn physical_rows(&self, storages: &Storages, fragment: &Fragment) -> Result<u64> {
        match (fragment.physical_rows, fragment.files.first()) {
            (Some(rows), _) => Ok(rows),
            (None, Some(file)) => self.reader(storages, file)?.num_rows(),
            (None, None) => Ok(0),
        }
    }

    /// Opens the files of a fragment that hold some of the fields.
    pub(crate) fn open(
        &self,
        storages: &Storages,
        fragment: &Fragment,
        fields: &[Arc<Field>],
    ) -> Result<OpenFiles> {
        let mut wanted = Vec::new();
        fields
            .iter()
            .for_each(|field| field.walk(&mut |node| wanted.push(node.id)));
        let mut sources = Vec::new();
        for file in &fragment.files {
            let columns = columns_of(file);
            if wanted.iter().any(|id| columns.contains_key(id)) {
                sources.push((self.reader(storages, file)?, columns));
            }
        }
        Ok(OpenFiles { sources })
    }
}

/// The open files of a fragment and where they hold which field.
pub(crate) struct OpenFiles {
    sources: Vec<(Arc<FileReader>, HashMap<i32, u32>)>,
}

impl OpenFiles {
    /// Reads rows of fields, JSON as text. A field in no file is null. 0 threads: as many as pay.
    pub(crate) fn read(
        &self,
        fields: &[Arc<Field>],
        rows: Rows<'_>,
        threads: usize,
    ) -> Result<Vec<ArrayRef>> {
        let arrays = read_fields(&self.sources(), fields, rows.clone(), &ReadOptions { threads })?;
        let pairs = fields.iter().zip(arrays);
        pairs
            .map(|(field, array)| json::decode_column(field, array, &rows))
            .collect()
    }

    /// How to cut a scan of `wanted` of the `total` rows into reads.
    pub(crate) fn windows(
        &self,
        fields: &[Arc<Field>],
        total: u64,
        wanted: u64,
        size: BatchSize,
    ) -> Result<Windows> {
        Windows::new(&self.sources(), fields, total, wanted, size)
    }

    fn sources(&self) -> Vec<FieldSource<'_>> {
        let sources = self.sources.iter();
        sources
            .map(|(reader, columns)| FieldSource { reader, columns })
            .collect()
    }
}

/// Column of each live field.
fn columns_of(file: &DataFile) -> HashMap<i32, u32> {
    let pairs = file.fields.iter().zip(&file.column_indices);
    pairs
        .filter(|(id, _)| **id >= 0)
        .filter_map(|(id, column)| Some((*id, u32::try_from(*column).ok()?)))
        .collect()
}

/// A file is read by its own version, which the manifest must agree with.
fn check_version(file: &DataFile, version: FileVersion) -> Result<()> {
    if file.version == version {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the file has version {version}, but the manifest says {}",
        file.version
    )))
}
