//! Copies a store, even while a recorder writes to it.
//!
//! The journals are opened before the catalog is copied, and the copied catalog says which of them are sealed. So the
//! copy has each window once, like a query that begins at that time. Segments never change, so they are linked where
//! possible. Files that may grow are copied up to their last complete part. The copy is made under a temporary name,
//! and gets its name when it is complete and durable.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};
use trackiops_threads::fail_point;

use crate::beneath;
use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::glob_view;
use crate::imports;
use crate::journal::end::{EndWriter, Extent};
use crate::journal::file::JournalFile;
use crate::journal::scan::JournalScan;
use crate::layout::{self, Dataset, Series};
use crate::requests::RequestsScan;
use crate::snapshot::check_is_store;

/// Limit of attempts. An attempt fails if the recorder deletes a segment in the meantime.
const ATTEMPTS: usize = 32;

/// Result of [`copy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Segments in the copy.
    pub segments: u64,
    /// Segments that share their file with the store.
    pub linked: u64,
    /// Unsealed journals in the copy.
    pub journals: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Copies a store to a directory, which must be new or empty. A recorder may be running.
pub fn copy(store: &Path, to: &Path) -> Result<Copied, StoreError> {
    check_is_store(store)?;
    let target = Target::create(store, to)?;
    for _ in 1..ATTEMPTS {
        match Copy::new(store, &target.path).make() {
            // The catalog of the next attempt does not list the deleted segment.
            Err(StoreError::Io { path, source, .. })
                if source.kind() == io::ErrorKind::NotFound && !is_listed(store, &path) =>
            {
                target.clear()?;
            }
            made => return made.and_then(|copied| target.finish(to).map(|()| copied)),
        }
    }
    let made = Copy::new(store, &target.path).make();
    made.and_then(|copied| target.finish(to).map(|()| copied))
}

/// Whether the store's catalog lists a segment now.
fn is_listed(store: &Path, path: &Path) -> bool {
    let listed = CatalogView::open(store).and_then(|catalog| segments(&catalog, store));
    listed.is_ok_and(|listed| listed.iter().any(|segment| store.join(segment) == *path))
}

/// All segments that a catalog lists, relative to the store.
fn segments(catalog: &CatalogView, store: &Path) -> Result<Vec<String>, StoreError> {
    let mut all = Vec::new();
    for dataset in Dataset::ALL {
        for segment in catalog.segments(dataset, None)? {
            let relative = segment.path.strip_prefix(store).unwrap_or(&segment.path);
            all.push(relative.to_string_lossy().into_owned());
        }
    }
    let requests = catalog.requests_segments()?.into_iter();
    all.extend(requests.map(|segment| segment.path));
    Ok(all)
}

/// The open imports and the closed imports.
fn imports(store: &Path) -> Result<(Vec<String>, Vec<String>), StoreError> {
    Ok((layout::open_imports(store)?, layout::closed_imports(store)?))
}

/// The directory in which a copy is made. It is removed unless it is finished.
struct Target {
    path: PathBuf,
    is_finished: std::cell::Cell<bool>,
}

impl Target {
    fn create(store: &Path, to: &Path) -> Result<Self, StoreError> {
        let refused = |why| StoreError::CopyTarget {
            path: to.to_owned(),
            why,
        };
        let name = to.file_name().ok_or_else(|| refused("it has no name"))?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let parent = parent
            .canonicalize()
            .map_err(StoreError::io("open", parent))?;
        let own = store
            .canonicalize()
            .map_err(StoreError::io("open", store))?;
        if parent.starts_with(own) {
            return Err(refused("it is in the store"));
        }
        match fs::read_dir(to).map(|entries| entries.count()) {
            Ok(1..) => return Err(refused("it is not empty")),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(refused("it is not a directory"));
            }
            _ => {}
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".copy-{}", std::process::id()));
        let target = Self {
            path: parent.join(hidden),
            is_finished: false.into(),
        };
        target.make()?;
        Ok(target)
    }

    fn make(&self) -> Result<(), StoreError> {
        use std::os::unix::fs::DirBuilderExt;
        let made = fs::DirBuilder::new()
            .mode(beneath::DIRECTORY_MODE)
            .create(&self.path);
        made.map_err(StoreError::io("create directory", &self.path))
    }

    fn clear(&self) -> Result<(), StoreError> {
        fs::remove_dir_all(&self.path).map_err(StoreError::io("delete", &self.path))?;
        self.make()
    }

    /// Gives the copy its name.
    fn finish(&self, to: &Path) -> Result<(), StoreError> {
        sync_all(&self.path)?;
        fail_point::hit("copy: written");
        fs::rename(&self.path, to).map_err(StoreError::io("rename the copy to", to))?;
        self.is_finished.set(true);
        let parent = self.path.parent().unwrap_or(Path::new("."));
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(StoreError::io("sync directory", parent))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_finished.get() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes the names in a directory and below it durable.
fn sync_all(dir: &Path) -> Result<(), StoreError> {
    let io = |error| StoreError::io("sync directory", dir)(error);
    for entry in fs::read_dir(dir).map_err(io)? {
        let entry = entry.map_err(io)?;
        if entry.file_type().map_err(io)?.is_dir() {
            sync_all(&entry.path())?;
        }
    }
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)
}

/// An attempt to copy a store.
struct Copy<'s> {
    store: &'s Path,
    to: &'s Path,
    copied: Copied,
}

/// An open journal: its series, number and path.
type Opened = (Series, u64, PathBuf, Result<JournalFile, StoreError>);

impl<'s> Copy<'s> {
    fn new(store: &'s Path, to: &'s Path) -> Self {
        Self {
            store,
            to,
            copied: Copied::default(),
        }
    }

    fn make(mut self) -> Result<Copied, StoreError> {
        let journal_dir = layout::journal_dir(self.to);
        layout::create_dir(self.to, &journal_dir)?;
        // Before the journals: `.end` files without a journal show that it is missing, in the copy, too.
        for path in layout::orphaned_ends(self.store)? {
            self.file(&path)?;
        }
        let (open, closed) = self.imports()?;
        let mut opened = self.opened()?;
        fail_point::hit("copy: journals opened");
        self.file(&layout::catalog(self.store))?;
        // Imports that began in the meantime. The catalog may count them.
        let (open_now, closed_now) = imports(self.store)?;
        let new = open_now.iter().filter(|id| !open.contains(id));
        let over = closed_now
            .iter()
            .filter(|id| !open.contains(id) && !closed.contains(id));
        for id in new.chain(over) {
            imports::write_unknown(self.to, id)?;
        }
        let catalog = CatalogView::open(self.to)?;
        for series in Series::ALL {
            let begun = catalog.last_begun(series)?;
            // A journal that was opened before its first append has windows now.
            opened.retain(|(of, number, _, journal)| {
                let has_content = |journal: &JournalFile| journal.extent.is_some();
                (*of, Some(*number)) != (series, begun) || journal.as_ref().is_ok_and(has_content)
            });
            let is_open = |number| {
                opened
                    .iter()
                    .any(|known| (known.0, known.1) == (series, number))
            };
            let begun = begun.filter(|number| !is_open(*number));
            opened.extend(
                begun
                    .map(|number| self.begun(series, number, &catalog))
                    .transpose()?
                    .flatten(),
            );
        }
        let ids = catalog.ids()?;
        for (series, number, path, journal) in opened {
            let journal = journal.map(|journal| journal.of_store(&ids));
            let is_sealed = catalog.sealed(series)?.contains(&number);
            if !is_sealed {
                self.journal(series, &path, journal)?;
            }
        }
        for path in layout::quarantined_journals(self.store)? {
            self.file(&path)?;
            self.file_if_any(&layout::journal_end(&path))?;
        }
        // In this order, because readers read them in this order.
        self.file_if_any(&layout::marks_sum(self.store))?;
        self.file_if_any(&layout::marks(self.store))?;
        for segment in segments(&catalog, self.to)? {
            self.segment(&segment)?;
        }
        Ok(self.copied)
    }

    /// Copies the progress of imports. This comes before the journals: opening the copy counts windows that the
    /// journals have in excess.
    fn imports(&mut self) -> Result<(Vec<String>, Vec<String>), StoreError> {
        layout::create_dir(self.to, &layout::imports_dir(self.to))?;
        let (open, closed) = imports(self.store)?;
        for id in &open {
            self.file_if_any(&layout::open_import(self.store, id))?;
        }
        // An import that ends in the meantime is closed before its open file is deleted.
        for id in closed.iter().chain(&open) {
            self.file_if_any(&layout::import(self.store, id))?;
        }
        Ok((open, closed))
    }

    /// Opens a journal that the catalog names, but that was begun after the others were listed.
    fn begun(
        &self,
        series: Series,
        number: u64,
        catalog: &CatalogView,
    ) -> Result<Option<Opened>, StoreError> {
        if catalog.sealed(series)?.contains(&number) {
            return Ok(None);
        }
        let path = series.journal(self.store, number);
        let journal = JournalFile::open(&path).transpose();
        if journal.is_none()
            && CatalogView::open(self.store)?
                .sealed(series)?
                .contains(&number)
        {
            // The journal was sealed in the meantime: the next attempt has its segments.
            return Err(StoreError::io("open journal", &path)(
                io::ErrorKind::NotFound.into(),
            ));
        }
        Ok(journal.map(|journal| (series, number, path, journal)))
    }

    fn opened(&self) -> Result<Vec<Opened>, StoreError> {
        let mut opened = Vec::new();
        for series in Series::ALL {
            for number in series.journals(self.store)? {
                let path = series.journal(self.store, number);
                let journal = JournalFile::open(&path).transpose();
                opened.extend(journal.map(|journal| (series, number, path, journal)));
            }
        }
        Ok(opened)
    }

    /// Copies a journal up to its last complete frame, and its `.end` file.
    fn journal(
        &mut self,
        series: Series,
        path: &Path,
        journal: Result<JournalFile, StoreError>,
    ) -> Result<(), StoreError> {
        let Ok(journal) = journal else {
            return self.damaged_journal(path);
        };
        let (bytes, extent) = (journal.bytes, journal.extent);
        let is_damaged = journal.is_end_damaged;
        let scanned = match series {
            Series::Windows => JournalScan::new(journal).map(|scan| {
                scan.map(|scan| (scan.torn_bytes, !scan.damage.is_empty(), scan.span()))
            }),
            Series::Requests => RequestsScan::new(journal)
                .map(|scan| scan.map(|scan| (scan.torn_bytes, scan.damaged_bytes > 0, None))),
        };
        let (torn_bytes, span) = match scanned {
            // Bytes that may have been durable are copied as well, so that the copy notes them, too.
            Ok(Some((torn_bytes, false, span)))
                if !is_damaged && (torn_bytes == 0 || !Extent::is_unknown(path)) =>
            {
                (torn_bytes, span)
            }
            // The journal was never used.
            Ok(None) => return Ok(()),
            _ => return self.damaged_journal(path),
        };
        let copy = self.place(path);
        let mut end = EndWriter::create(&copy)?;
        let bytes = bytes - torn_bytes;
        self.write(path, bytes)?;
        let spans = extent.map(|extent| extent.span).into_iter().chain(span);
        if let Some(span) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            end.note(bytes, span);
        }
        self.copied.journals += 1;
        Ok(())
    }

    /// Copies a journal unchanged, so that its damage is noticed in the copy as well.
    fn damaged_journal(&mut self, path: &Path) -> Result<(), StoreError> {
        // In this order: without its `.end` file, the journal might not look damaged.
        self.file_if_any(&layout::journal_end(path))?;
        self.file_if_any(path)?;
        self.copied.journals += 1;
        Ok(())
    }

    /// Links or copies a segment. A missing segment is missing in the copy, too.
    fn segment(&mut self, relative: &str) -> Result<(), StoreError> {
        let path = self.store.join(relative);
        let file = match glob_view::open(self.store, &path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && is_listed(self.store, &path) => {
                return Ok(());
            }
            file => file.map_err(StoreError::io("open", &path))?,
        };
        let copy = self.to.join(relative);
        if let Some(dir) = copy.parent() {
            layout::create_dir(self.to, dir)?;
        }
        self.copied.segments += 1;
        if link(&file, &copy).is_ok() {
            self.copied.linked += 1;
            return Ok(());
        }
        let bytes = file
            .metadata()
            .map_err(StoreError::io("read", &path))?
            .len();
        self.write_from(file, &copy, bytes)
    }

    /// The path in the copy.
    fn place(&self, path: &Path) -> PathBuf {
        self.to.join(path.strip_prefix(self.store).unwrap_or(path))
    }

    fn file_if_any(&mut self, path: &Path) -> Result<(), StoreError> {
        match self.file(path) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(())
            }
            copied => copied,
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), StoreError> {
        self.write(path, u64::MAX)
    }

    /// Copies the first `bytes` bytes of a file.
    fn write(&mut self, path: &Path, bytes: u64) -> Result<(), StoreError> {
        let file = beneath::read(self.store, path).map_err(StoreError::io("open", path))?;
        self.write_from(file, &self.place(path), bytes)
    }

    fn write_from(&mut self, file: File, copy: &Path, bytes: u64) -> Result<(), StoreError> {
        use std::io::Read;
        let mut to = beneath::create(self.to, copy).map_err(StoreError::io("create", copy))?;
        let written = io::copy(&mut file.take(bytes), &mut to).and_then(|written| {
            beneath::finished(&to)?;
            to.sync_all()?;
            Ok(written)
        });
        self.copied.bytes += written.map_err(StoreError::io("write", copy))?;
        Ok(())
    }
}

/// Gives an open file another name. Fails across file systems, and if the user lacks permission.
fn link(file: &File, to: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
}
