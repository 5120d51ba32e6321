//! The local file system: `pread` on the calling thread, atomic creation by rename or hard link.
//!
//! No thread is started, so a process may fork with tables open.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

use super::{Durability, Entry, FileSink, IoCounter, IoStats, ReadAt, Storage, coalesce, fault};
use crate::{Context, Error, ErrorKind, Result};

/// Alignment of buffers in files, kept in memory.
const ALIGNMENT: usize = 64;

/// Bytes that a sink collects before it writes: pages are larger and pass through, small parts are joined.
const WRITE_BUFFER: usize = 256 * 1024;

/// A table in a local directory.
#[derive(Debug)]
pub struct LocalStorage {
    root: PathBuf,
    uri: String,
    counter: Arc<IoCounter>,
    syncer: Syncer,
}

impl LocalStorage {
    /// A storage at a directory, which need not exist yet.
    ///
    /// Plain paths are taken literally (`~` at the start is the home directory); `file://` URIs are percent-decoded.
    ///
    /// # Errors
    /// Unsupported for any other scheme.
    pub fn from_uri(uri: &str) -> Result<Self> {
        let root = match scheme_of(uri) {
            None => expand_home(uri)?,
            Some(("file" | "file-object-store" | "file+uring", path)) => path_of_file_uri(path)?,
            Some((scheme, _)) => {
                return Err(Error::unsupported(format!(
                    "No object store provider found for scheme: '{scheme}' in '{uri}'; use a local path or file://"
                )));
            }
        };
        if root.as_os_str().is_empty() {
            return Err(Error::invalid_input("the location of the table is empty"));
        }
        let root = std::path::absolute(&root).context(|| format!("location '{uri}'"))?;
        Ok(Self {
            root,
            uri: uri.to_string(),
            counter: Arc::default(),
            syncer: Syncer::default(),
        })
    }

    /// Opens one file by an absolute path or a `file://` URI.
    ///
    /// # Errors
    /// Not found; invalid input for a relative path; unsupported for any other scheme.
    pub fn open_location(location: &str) -> Result<Arc<dyn ReadAt>> {
        if scheme_of(location).is_none() && !Path::new(location).is_absolute() {
            return Err(Error::invalid_input(format!(
                "'{location}' is neither an absolute path nor a URI"
            )));
        }
        let mut storage = Self::from_uri(location)?;
        let name = storage.root.file_name().and_then(|name| name.to_str());
        let name = name
            .map(str::to_owned)
            .ok_or_else(|| Error::invalid_input(format!("'{location}' does not name a file")))?;
        storage.root.pop();
        storage.open_reader(&name)
    }

    /// Files and directories that were synced through this storage and those made from it.
    pub fn syncs(&self) -> u64 {
        self.syncer.count.load(Ordering::Relaxed)
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn resolve(&self, path: &str) -> Result<PathBuf> {
        let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
        if path.split('/').any(bad) {
            return Err(Error::corrupt(format!("'{path}' is not a path below the table")));
        }
        Ok(self.root.join(path))
    }

    /// A file beside `target` that is removed unless it is moved away.
    fn write_temporary(&self, target: &Path, bytes: &[u8]) -> Result<Temporary> {
        let directory = target.parent().unwrap_or(&self.root);
        self.syncer
            .create_directories(directory)
            .context(|| format!("create directory {}", directory.display()))?;
        let temporary = Temporary(directory.join(format!(".tmp_{}", unique_name())));
        let write = || -> std::io::Result<()> {
            fault::step();
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary.0)?;
            fault::step();
            file.write_all(bytes)?;
            self.syncer.sync_file(&file)
        };
        write().context(|| format!("write {}", temporary.0.display()))?;
        fault::step();
        Ok(temporary)
    }
}

/// Syncs where the durability asks for it.
#[derive(Debug, Clone, Default)]
struct Syncer {
    durability: Durability,
    /// Calls so far.
    count: Arc<AtomicU64>,
}

impl Syncer {
    fn sync_file(&self, file: &File) -> std::io::Result<()> {
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Disk => self.sync_now(file),
        }
    }

    /// Makes the entry of `path` in its directory durable.
    fn sync_entry(&self, path: &Path) -> std::io::Result<()> {
        match (self.durability, path.parent()) {
            (Durability::Disk, Some(directory)) => self.sync_now(&File::open(directory)?),
            _ => Ok(()),
        }
    }

    fn sync_now(&self, file: &File) -> std::io::Result<()> {
        self.count.fetch_add(1, Ordering::Relaxed);
        file.sync_all()
    }

    /// Creates a directory and what is missing above it, and makes their entries durable.
    fn create_directories(&self, path: &Path) -> std::io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        fault::step();
        fs::create_dir_all(path)?;
        missing.into_iter().try_for_each(|path| self.sync_entry(path))
    }
}

/// The path without links, where it exists.
fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

impl Storage for LocalStorage {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn location(&self) -> String {
        self.root.to_string_lossy().into_owned()
    }

    fn is_at(&self, location: &str) -> bool {
        Self::from_uri(location).is_ok_and(|other| canonical(&other.root) == canonical(&self.root))
    }

    fn sibling(&self, uri: &str) -> Result<Arc<dyn Storage>> {
        let syncer = self.syncer.clone();
        Ok(Arc::new(Self {
            syncer,
            ..Self::from_uri(uri)?
        }))
    }

    fn with_durability(&self, durability: Durability) -> Option<Arc<dyn Storage>> {
        Some(Arc::new(Self {
            root: self.root.clone(),
            uri: self.uri.clone(),
            counter: self.counter.clone(),
            syncer: Syncer {
                durability,
                count: self.syncer.count.clone(),
            },
        }))
    }

    fn durability(&self) -> Durability {
        self.syncer.durability
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        let sync = || {
            self.syncer
                .sync_now(&File::open(self.resolve(path).map_err(std::io::Error::other)?)?)
        };
        sync().context(|| format!("sync directory '{path}'"))
    }

    fn size(&self, path: &str) -> Result<u64> {
        Ok(fs::metadata(self.resolve(path)?).context(|| path)?.len())
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.resolve(path)?.try_exists().context(|| path)
    }

    fn list(&self, directory: &str) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut pending = vec![directory.to_string()];
        while let Some(directory) = pending.pop() {
            for (name, entry) in read_directory(&self.resolve(&directory)?)? {
                let path = format!("{directory}/{name}");
                if entry.file_type().context(|| path.as_str())?.is_dir() {
                    pending.push(path);
                } else if let Some(metadata) = if_found(entry.metadata())? {
                    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    entries.push(Entry {
                        path,
                        size: metadata.len(),
                        modified,
                    });
                }
            }
        }
        Ok(entries)
    }

    fn list_names(&self, directory: &str) -> Result<Vec<String>> {
        Ok(read_directory(&self.resolve(directory)?)?
            .into_iter()
            .map(|(name, _)| name)
            .collect())
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let target = self.resolve(path)?;
        let temporary = self.write_temporary(&target, bytes)?;
        let replace = || -> std::io::Result<()> {
            fs::rename(&temporary.0, &target)?;
            fault::step();
            self.syncer.sync_entry(&target)
        };
        replace().context(|| format!("write '{path}'"))
    }

    fn put_if_absent(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let target = self.resolve(path)?;
        let temporary = self.write_temporary(&target, bytes)?;
        let create = || -> std::io::Result<()> {
            move_if_absent(&temporary.0, &target)?;
            fault::step();
            self.syncer.sync_entry(&target)
        };
        create().context(|| format!("create '{path}'"))
    }

    fn delete(&self, path: &str) -> Result<()> {
        fault::step();
        fs::remove_file(self.resolve(path)?).context(|| format!("delete '{path}'"))
    }

    fn remove_empty_directory(&self, path: &str) -> Result<()> {
        fault::step();
        fs::remove_dir(self.resolve(path)?).context(|| format!("remove directory '{path}'"))
    }

    fn open_reader(&self, path: &str) -> Result<Arc<dyn ReadAt>> {
        let open = || -> std::io::Result<_> {
            let file = File::open(self.resolve(path).map_err(std::io::Error::other)?)?;
            let metadata = file.metadata()?;
            Ok((file, metadata))
        };
        let (file, metadata) = open().context(|| format!("open '{path}'"))?;
        if !metadata.is_file() {
            return Err(Error::invalid_input(format!("'{path}' is not a file")));
        }
        Ok(Arc::new(LocalReader {
            file,
            path: path.to_string(),
            len: metadata.len(),
            counter: IoCounter::default(),
            shared: self.counter.clone(),
        }))
    }

    fn create_writer(&self, path: &str) -> Result<Box<dyn FileSink>> {
        let target = self.resolve(path)?;
        let create = || -> std::io::Result<File> {
            let create_directories = |path| self.syncer.create_directories(path);
            target.parent().map_or(Ok(()), create_directories)?;
            fault::step();
            OpenOptions::new().write(true).create_new(true).open(&target)
        };
        let file = create().context(|| format!("create '{path}'"))?;
        let unfinished = Temporary(target);
        Ok(Box::new(LocalSink {
            file: BufWriter::with_capacity(WRITE_BUFFER, file),
            unfinished,
            syncer: self.syncer.clone(),
        }))
    }

    fn stats(&self) -> IoStats {
        self.counter.get()
    }
}

/// A path that is removed on drop, if something is there.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing can be done about a failure; such files are ignored by readers and removed by cleanup.
        let _ = fs::remove_file(&self.0);
    }
}

struct LocalSink {
    file: BufWriter<File>,
    unfinished: Temporary,
    syncer: Syncer,
}

impl FileSink for LocalSink {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        fault::step();
        self.file
            .write_all(bytes)
            .context(|| format!("write {}", self.unfinished.0.display()))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Self {
            mut file,
            mut unfinished,
            syncer,
        } = *self;
        fault::step();
        let mut complete = || -> std::io::Result<()> {
            file.flush()?;
            syncer.sync_file(file.get_ref())?;
            syncer.sync_entry(&unfinished.0)
        };
        complete().context(|| format!("write {}", unfinished.0.display()))?;
        fault::step();
        unfinished.0 = PathBuf::new();
        Ok(())
    }
}

/// An open local file.
#[derive(Debug)]
struct LocalReader {
    file: File,
    path: String,
    len: u64,
    counter: IoCounter,
    shared: Arc<IoCounter>,
}

impl LocalReader {
    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.len {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "'{}': bytes {}..{} are outside of the file, which has {}",
            self.path, range.start, range.end, self.len
        )))
    }

    /// Reads a checked range into memory with the alignment of the file.
    fn read(&self, range: &Range<u64>) -> Result<Bytes> {
        let too_large = || Error::corrupt(format!("'{}': range of more bytes than memory", self.path));
        let len = usize::try_from(range.end - range.start).map_err(|_| too_large())?;
        let mut memory: Vec<u8> = Vec::new();
        memory
            .try_reserve_exact(len.checked_add(ALIGNMENT).ok_or_else(too_large)?)
            .map_err(|_| too_large())?;
        let phase = (range.start % ALIGNMENT as u64) as usize;
        let pad = phase.wrapping_sub(memory.as_ptr() as usize) % ALIGNMENT;
        memory.resize(pad, 0);
        while memory.len() < pad + len {
            self.read_some(&mut memory, range.start, pad)?;
        }
        memory.truncate(pad + len);
        self.counter.add(len as u64);
        self.shared.add(len as u64);
        Ok(Bytes::from(memory).slice(pad..))
    }

    /// One `pread` into the spare capacity of `memory`, whose byte `pad` is file offset `start`.
    fn read_some(&self, memory: &mut Vec<u8>, start: u64, pad: usize) -> Result<()> {
        let offset = start + (memory.len() - pad) as u64;
        let place = || format!("'{}' at offset {offset}", self.path);
        match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(memory), offset) {
            Ok(0) => Err(Error::new(ErrorKind::Io, "the file ended; it was cut while open").context(place())),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::from(std::io::Error::from(errno)).context(place())),
        }
    }
}

impl ReadAt for LocalReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|range| self.check(range))?;
        let mut parts = vec![Bytes::new(); ranges.len()];
        for group in coalesce(ranges) {
            let bytes = self.read(&group.range)?;
            for at in group.members {
                if let (Some(part), Some(range)) = (parts.get_mut(at), ranges.get(at)) {
                    let offset = |position: u64| (position - group.range.start) as usize;
                    *part = bytes.slice(offset(range.start)..offset(range.end));
                }
            }
        }
        Ok(parts)
    }

    fn stats(&self) -> IoStats {
        self.counter.get()
    }
}

/// Splits `scheme://rest`.
fn scheme_of(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let starts_with_letter = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (starts_with_letter && scheme.chars().all(legal)).then_some((scheme, rest))
}

fn expand_home(path: &str) -> Result<PathBuf> {
    let rest = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => return Ok(PathBuf::from(path)),
    };
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home =
        home.ok_or_else(|| Error::invalid_input(format!("'{path}': the home directory is not known")))?;
    Ok(if rest.is_empty() { home } else { home.join(rest) })
}

/// The path of `file://{host}{path}`; the host must be empty or `localhost`.
fn path_of_file_uri(rest: &str) -> Result<PathBuf> {
    let path = rest
        .strip_prefix("localhost")
        .filter(|path| path.starts_with('/'))
        .unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::invalid_input(format!(
            "'file://{rest}' names a host; use file:///absolute/path"
        )));
    }
    let decoded = percent_decode(path);
    String::from_utf8(decoded)
        .map(PathBuf::from)
        .map_err(|_| Error::invalid_input(format!("'file://{rest}' is not UTF-8 after percent-decoding")))
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        let escaped = match (first, rest) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push(high << 4 | low);
                bytes = rest.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                bytes = rest;
            }
        }
    }
    out
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// The entries of a directory whose names are UTF-8; none if it does not exist.
fn read_directory(path: &Path) -> Result<Vec<(String, fs::DirEntry)>> {
    let Some(entries) = if_found(fs::read_dir(path)).context(|| format!("list {}", path.display()))? else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry.context(|| format!("list {}", path.display()))?;
        if let Ok(name) = entry.file_name().into_string() {
            out.push((name, entry));
        }
    }
    Ok(out)
}

/// `None` instead of "not found": another process may remove what was just listed. What lies below a file is not
/// found either.
fn if_found<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match result {
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => Ok(None),
        other => other.map(Some),
    }
}

/// Moves a file to a name that must be free. `AlreadyExists` otherwise.
///
/// A rename that refuses to replace is one step; file systems without it get a hard link, which fails likewise.
fn move_if_absent(from: &Path, to: &Path) -> std::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {}
            other => return Ok(other?),
        }
    }
    fs::hard_link(from, to)
}

/// A name that no other process or thread uses: 64 random bits and a counter.
fn unique_name() -> String {
    use std::hash::{BuildHasher, RandomState};
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let random = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!(
        "{random:016x}_{}_{}",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::Relaxed)
    )
}

#[cfg(test)]
mod tests {
    use super::super::read_range;
    use super::*;

    fn storage() -> (tempfile::TempDir, LocalStorage) {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::from_uri(directory.path().join("t").to_str().unwrap()).unwrap();
        (directory, storage)
    }

    #[test]
    fn bytes_keep_the_alignment_of_the_file() {
        let (_directory, storage) = storage();
        let content: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        storage.put("data/f", &content).unwrap();
        let reader = storage.open_reader("data/f").unwrap();
        let ranges = [64..128, 1..2, 50_003..60_000, 128..4000, 99_999..100_000, 7..7];
        for (bytes, range) in reader.read_ranges(&ranges).unwrap().iter().zip(&ranges) {
            assert_eq!(bytes, &content[range.start as usize..range.end as usize]);
            if !bytes.is_empty() {
                assert_eq!(bytes.as_ptr() as usize % 64, range.start as usize % 64);
            }
        }
        // 1..4000 is one read, and the two far ranges one each.
        assert_eq!(
            reader.stats(),
            IoStats {
                calls: 3,
                bytes: 3999 + 9997 + 1
            }
        );
        assert_eq!(storage.stats(), reader.stats());
    }

    #[test]
    fn ranges_outside_are_refused_before_reading() {
        let (_directory, storage) = storage();
        storage.put("f", b"0123456789").unwrap();
        let reader = storage.open_reader("f").unwrap();
        #[expect(clippy::reversed_empty_ranges, reason = "that is the fault")]
        for range in [0..11, 5..4, 11..11, u64::MAX - 1..u64::MAX] {
            let error = reader.read_ranges(&[0..1, range]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("'f'"), "{error}");
        }
        assert_eq!(reader.stats().calls, 0);
        assert_eq!(read_range(reader.as_ref(), 10..10).unwrap().len(), 0);
    }

    #[test]
    fn a_file_cut_while_open_is_an_error() {
        let (_directory, storage) = storage();
        storage.put("f", &[1; 1000]).unwrap();
        let reader = storage.open_reader("f").unwrap();
        File::options()
            .write(true)
            .open(storage.root().join("f"))
            .unwrap()
            .set_len(10)
            .unwrap();
        let error = read_range(reader.as_ref(), 0..20).unwrap_err();
        assert!(error.to_string().contains("'f' at offset 10"), "{error}");
    }

    #[test]
    fn one_of_many_creators_wins() {
        let (_directory, storage) = storage();
        let wins: Vec<usize> = std::thread::scope(|scope| {
            let create = |i: usize| {
                let storage = &storage;
                move || {
                    storage
                        .put_if_absent("_versions/1", format!("writer {i}").as_bytes())
                        .map(|()| i)
                }
            };
            let threads: Vec<_> = (0..8).map(|i| scope.spawn(create(i))).collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap().ok())
                .collect()
        });
        let [winner] = wins[..] else { panic!("{wins:?}") };
        assert_eq!(
            storage.read("_versions/1", 100).unwrap(),
            format!("writer {winner}")
        );
        let error = storage.put_if_absent("_versions/1", b"late").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            storage.list_names("_versions").unwrap(),
            ["1"],
            "no temporary file stays"
        );
    }

    #[test]
    fn the_fallback_without_rename_refuses_to_replace_too() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&from, b"a").unwrap();
        move_if_absent(&from, &to).unwrap();
        fs::write(&from, b"c").unwrap();
        assert_eq!(
            move_if_absent(&from, &to).unwrap_err().kind(),
            std::io::ErrorKind::AlreadyExists
        );
        assert_eq!(
            fs::hard_link(&from, &to).unwrap_err().kind(),
            std::io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&to).unwrap(), b"a");
    }

    #[test]
    fn an_unfinished_file_disappears() {
        let (_directory, storage) = storage();
        let mut sink = storage.create_writer("data/x.lance").unwrap();
        sink.write_all(b"abc").unwrap();
        drop(sink);
        assert!(!storage.exists("data/x.lance").unwrap());
        let mut sink = storage.create_writer("data/x.lance").unwrap();
        sink.write_all(b"abc").unwrap();
        sink.finish().unwrap();
        assert_eq!(storage.size("data/x.lance").unwrap(), 3);
        assert_eq!(
            storage.create_writer("data/x.lance").err().unwrap().kind(),
            ErrorKind::AlreadyExists
        );
    }

    #[test]
    fn listing_and_deleting() {
        let (_directory, storage) = storage();
        assert!(storage.list("_indices").unwrap().is_empty());
        assert!(storage.list_names("_versions").unwrap().is_empty());
        storage.put("_indices/u/a", b"1").unwrap();
        storage.put("_indices/u/v/b", b"22").unwrap();
        let mut found: Vec<_> = storage
            .list("_indices")
            .unwrap()
            .into_iter()
            .map(|e| (e.path, e.size))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [("_indices/u/a".to_string(), 1), ("_indices/u/v/b".to_string(), 2)]
        );
        storage.delete("_indices/u/a").unwrap();
        assert_eq!(
            storage.delete("_indices/u/a").unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            storage.open_reader("_indices/u/a").unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert!(storage.open_reader("_indices").is_err());
    }

    #[test]
    fn syncs_are_made_where_they_are_asked_for() {
        let (_directory, storage) = storage();
        let write = |storage: &dyn Storage, name: &str| {
            storage.put(&format!("{name}/put"), b"1").unwrap();
            storage.put_if_absent(&format!("{name}/new"), b"2").unwrap();
            let mut sink = storage.create_writer(&format!("{name}/file")).unwrap();
            sink.write_all(b"3").unwrap();
            sink.finish().unwrap();
        };
        write(&storage, "process");
        assert_eq!((storage.syncs(), storage.durability()), (0, Durability::Process));
        let disk = storage.with_durability(Durability::Disk).unwrap();
        write(disk.as_ref(), "disk");
        // The entry of the new directory, and for each of three files itself and its entry.
        assert_eq!((storage.syncs(), disk.durability()), (7, Durability::Disk));
        write(disk.sibling(&disk.location()).unwrap().as_ref(), "sibling");
        assert_eq!(storage.syncs(), 14);
        disk.sync_directory("disk").unwrap();
        assert_eq!(storage.syncs(), 15);
    }

    #[test]
    fn one_place_has_many_spellings() {
        let (_directory, storage) = storage();
        let location = storage.location();
        storage.put("a/b", b"1").unwrap();
        assert!(storage.is_at(&location) && storage.is_at(&format!("file://{location}/")));
        let link = storage.root().join("a/link");
        std::os::unix::fs::symlink(storage.root(), &link).unwrap();
        assert!(storage.is_at(link.to_str().unwrap()));
        assert!(!storage.is_at(&format!("{location}/a")) && !storage.is_at("s3://bucket/x"));
    }

    #[test]
    fn one_file_by_its_location() {
        let (_directory, storage) = storage();
        storage.put("a b", b"text").unwrap();
        let path = storage.root().join("a b");
        let path = path.to_str().unwrap();
        for location in [path.to_owned(), format!("file://{}", path.replace(' ', "%20"))] {
            assert_eq!(LocalStorage::open_location(&location).unwrap().len(), 4);
        }
        let kind = |location: &str| LocalStorage::open_location(location).unwrap_err().kind();
        assert_eq!(kind("a b"), ErrorKind::InvalidInput);
        assert_eq!(kind("~/a b"), ErrorKind::InvalidInput);
        assert_eq!(kind("/"), ErrorKind::InvalidInput);
        assert_eq!(kind("s3://bucket/a"), ErrorKind::Unsupported);
        assert_eq!(kind(&format!("{path}.lost")), ErrorKind::NotFound);
    }

    #[test]
    fn paths_stay_below_the_root() {
        let (_directory, storage) = storage();
        for path in ["../x", "/etc/passwd", "a/../../x", "a//b", "", ".", "a\0b"] {
            assert_eq!(
                storage.size(path).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "{path:?}"
            );
        }
    }

    #[test]
    fn locations() {
        let root = |uri: &str| {
            LocalStorage::from_uri(uri)
                .unwrap()
                .root()
                .to_str()
                .unwrap()
                .to_string()
        };
        assert_eq!(root("/a b/%20/\u{e9}.lance"), "/a b/%20/\u{e9}.lance");
        assert_eq!(root("file:///a%20b/c"), "/a b/c");
        assert_eq!(root("file://localhost/c%zz"), "/c%zz");
        assert_eq!(
            root("~/t"),
            std::env::home_dir().unwrap().join("t").to_str().unwrap()
        );
        assert!(root("rel/t").ends_with("/rel/t"));
        let error = LocalStorage::from_uri("foo://bucket/x").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("No object store provider found for scheme: 'foo'"),
            "{error}"
        );
        assert!(LocalStorage::from_uri("").is_err() && LocalStorage::from_uri("file://host/x").is_err());
    }
}
