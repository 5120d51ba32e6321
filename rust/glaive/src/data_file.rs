//! The seam to the file crate: opening the data files of a fragment and reading rows of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use glaive_file::batches::{Readahead, Windows};
use glaive_file::blob::{BlobFiles, side_file_directory, side_file_name};
use glaive_file::io::{LocalStorage, ReadAt, Storage};
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
        let reader = FileReader::open(storage.open_reader(&path)?).context(|| path.as_str())?;
        let reader = Arc::new(reader.with_blob_files(Arc::new(BlobFilesOf {
            storages: storages.clone(),
            storage,
            path,
        })));
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

/// Opens what holds the blobs of a data file besides the file itself.
#[derive(Debug)]
struct BlobFilesOf {
    storages: Storages,
    /// Where the data file is.
    storage: Arc<dyn Storage>,
    path: String,
}

impl BlobFiles for BlobFilesOf {
    fn side_file(&self, id: u32) -> Result<Arc<dyn ReadAt>> {
        let directory = side_file_directory(&self.path)?;
        self.storage
            .open_reader(&format!("{directory}/{}", side_file_name(id)))
    }

    fn external(&self, base: u32, uri: &str) -> Result<Arc<dyn ReadAt>> {
        match base {
            0 => LocalStorage::open_location(uri),
            base => self.storages.base(base)?.0.open_reader(uri),
        }
    }
}

impl OpenFiles {
    /// The file that holds a field.
    pub(crate) fn reader_of(&self, field: i32) -> Option<&Arc<FileReader>> {
        let mut sources = self.sources.iter();
        sources
            .find(|(_, columns)| columns.contains_key(&field))
            .map(|(reader, _)| reader)
    }

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
        readahead: Readahead,
    ) -> Result<Windows> {
        Windows::new(&self.sources(), fields, total, wanted, size, readahead)
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

#[cfg(test)]
mod tests {
    use glaive_file::ErrorKind;

    use super::*;
    use crate::proto::lance::table::BasePath;

    #[test]
    fn blobs_stay_below_their_base() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in [
            "secret",
            "base/x",
            "table/data/f/10000000000000000000000000000000.blob",
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"text").unwrap();
        }
        let uri = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::from_uri(&uri("table")).unwrap());
        let base = BasePath {
            id: 1,
            path: uri("base"),
            ..BasePath::default()
        };
        let files = BlobFilesOf {
            storages: Storages::new(storage.clone(), vec![base]),
            storage,
            path: "data/f.lance".to_owned(),
        };
        assert_eq!(files.side_file(1).unwrap().len(), 4);
        assert_eq!(files.side_file(2).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(files.external(1, "x").unwrap().len(), 4);
        for outside in ["../secret", "/secret", "a/../../secret", "./x", ""] {
            assert!(files.external(1, outside).is_err(), "{outside}");
        }
        assert_eq!(files.external(0, &uri("secret")).unwrap().len(), 4);
        assert_eq!(files.external(2, "x").unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
