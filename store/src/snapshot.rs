//! Reads a store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use trackiops_schemas::identity::{Dev, FileAttributes, FileKey};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::OperationRow;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::catalog::CatalogView;
use crate::catalog::mounts::MountSeen;
use crate::chain::{self, Link};
use crate::error::StoreError;
use crate::exported::Exported;
use crate::identity::{Ids, StoreId, StoreIds};
use crate::journal::cursor;
use crate::journal::end::Extent;
use crate::journal::file::JournalFile;
use crate::journal::removal::deleted_unsealed;
use crate::journal::scan::{Damage, JournalScan};
use crate::layout::{self, Dataset, Series};
use crate::live::{LiveWindow, Position};
use crate::mount_roots::MountRoots;
use crate::mount_times;
use crate::names::{FileHistory, NameSeen, Names};
use crate::newer;
use crate::segment::metadata::JournalSpan;
use crate::segment::{Segment, StoreIndex};
use crate::unread::Unread;

/// Above this number of files, reading all names is faster than looking them up.
const FEW_FILES: usize = 1000;

/// A consistent view of one or several stores. Recorders may be running.
///
/// It holds every window that was durable when it was opened, each exactly once. Journals are opened before the catalog
/// is read. So a journal that is sealed in between is in the catalog, and journals that the catalog lists as sealed are
/// not read.
#[derive(Debug, Default)]
pub struct Snapshot {
    catalogs: Vec<CatalogView>,
    /// Ids of the stores, and then of the stores that each export is of.
    ids: Vec<Ids>,
    tails: Vec<JournalTail>,
    unread: Vec<Unread>,
    left_out: HashSet<PathBuf>,
    granularities: Vec<Granularity>,
    span: Option<(UtcMs, UtcMs)>,
    /// The last window of the first store.
    position: Position,
    /// Mounts of a view without a store.
    mounts: Vec<MountSeen>,
}

/// A sealed journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedJournal {
    /// Its store. Each store numbers its journals from one.
    pub store: StoreIndex,
    /// The recording host.
    pub host: String,
    /// Its number, and the time range of its windows.
    pub span: JournalSpan,
}

/// The windows of an unsealed journal, or of one host in an export.
#[derive(Debug)]
pub struct JournalTail {
    /// Its store. Exports follow the stores.
    pub store: StoreIndex,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Journal(Box<JournalScan>),
    Export(Exported),
}

impl Snapshot {
    /// Opens a view of a store.
    pub fn open(store: &Path) -> Result<Self, StoreError> {
        Self::open_all(std::iter::once(store))
    }

    /// Opens a view of several stores. A store that is named twice counts once.
    pub fn open_all<'p>(stores: impl IntoIterator<Item = &'p Path>) -> Result<Self, StoreError> {
        let mut snapshot = Self::default();
        let mut known = HashSet::new();
        let mut exports = Vec::new();
        for store in stores {
            let is_file = store.is_file();
            if !is_file {
                check_is_store(store)?;
            }
            let metadata = store.metadata().map_err(StoreError::io("open", store))?;
            if !known.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            match is_file {
                true => exports.push(store),
                false => snapshot.add(store)?,
            }
        }
        for export in exports.into_iter().zip(snapshot.catalogs.len()..) {
            snapshot.add_export(export)?;
        }
        snapshot.granularities.sort_unstable();
        snapshot.granularities.dedup();
        Ok(snapshot)
    }

    /// A view of windows that a recorder has sent. `path` is the socket. `mounts` has the mount points of their files.
    pub fn of_windows(
        windows: &[LiveWindow],
        mounts: &[MountPoint],
        path: &Path,
    ) -> Result<Self, StoreError> {
        let mut snapshot = Self::default();
        for window in windows {
            let scan = window.scan(path)?;
            snapshot.position = snapshot.position.max(window.position);
            snapshot.add_tail(JournalTail {
                store: 0,
                source: Source::Journal(Box::new(scan)),
            });
        }
        if let (Some(seen), Some(tail)) = (snapshot.span, snapshot.tails.first()) {
            let host = tail.host().to_owned();
            let mounts = mounts.iter().map(|mount| MountSeen {
                host: host.clone(),
                mount: mount.clone(),
                seen,
            });
            snapshot.mounts = mounts.collect();
        }
        snapshot.granularities.sort_unstable();
        snapshot.granularities.dedup();
        Ok(snapshot)
    }

    /// Where the last window of the view ends, if it has one store. Later windows from a recorder have later positions.
    pub fn position(&self) -> Position {
        self.position
    }

    fn add(&mut self, store: &Path) -> Result<(), StoreError> {
        let opened = open_journals(store)?;
        let ends = layout::orphaned_ends(store)?;
        let catalog = CatalogView::open(store)?;
        let (sealed, ids) = (catalog.sealed_journals()?, catalog.ids()?);
        let index = self.catalogs.len();
        let mut tails = Vec::new();
        let numbers = opened.iter().map(|(number, ..)| *number);
        let known = sealed.iter().copied().chain(numbers).collect();
        self.unread
            .extend(newer::than_catalog(store, &catalog, &known)?);
        let last_sealed = sealed.iter().max().map(|number| Position {
            journal: *number,
            offset: u64::MAX,
        });
        self.position = self.position.max(last_sealed.unwrap_or_default());
        let mut links = Vec::new();
        for (number, path, journal) in opened {
            if sealed.contains(&number) {
                // The journal is about to be removed or set aside.
                let scan = journal.and_then(|journal| JournalScan::new(journal.of_store(&ids)));
                if scan.is_ok_and(|scan| scan.is_some_and(|scan| !scan.damage.is_empty())) {
                    self.unread.push(Unread::sealed(path, []));
                }
                continue;
            }
            match journal.and_then(|journal| JournalScan::new(journal.of_store(&ids))) {
                Ok(Some(scan)) => {
                    links.push(Link::of(&scan.header, scan.span().map(|(start, _)| start)));
                    let last = scan.windows.last().map(|window| Position {
                        journal: number,
                        offset: window.end,
                    });
                    self.position = self.position.max(last.unwrap_or_default());
                    // A journal whose windows are all gone is reported by the chain of journals.
                    let may_lack = scan.torn_bytes > 0 && !scan.windows.is_empty();
                    if may_lack && Extent::is_unknown(&path) {
                        self.unread.push(Unread::torn(path, scan.torn_bytes));
                    }
                    tails.push(JournalTail {
                        store: index,
                        source: Source::Journal(Box::new(scan)),
                    });
                }
                Ok(None) => links.push(Link::unused(number)),
                Err(error) => {
                    links.push(Link::unreadable(number));
                    self.unread.push(Unread::journal(path, error)?);
                }
            }
        }
        for end in ends {
            let lost = deleted_unsealed(store, &end, |number| Ok(sealed.contains(&number)))?;
            self.unread.extend(lost.map(Unread::lost));
        }
        for gone in chain::missing(store, Series::Windows, &catalog, &links)? {
            // The entry from its `.end` file has more detail.
            if !self.unread.iter().any(|known| known.path == gone.path) {
                self.unread.push(gone);
            }
        }
        self.unread.extend(quarantined(store, &catalog)?);
        self.granularities.extend(catalog.granularities()?);
        self.add_span(catalog.span()?);
        self.catalogs.push(catalog);
        self.ids.push(ids);
        tails.into_iter().for_each(|tail| self.add_tail(tail));
        Ok(())
    }

    /// An export has no catalog. Like a journal, it is read completely for each query.
    fn add_export(&mut self, (path, store): (&Path, StoreIndex)) -> Result<(), StoreError> {
        let (exported, stores) = Exported::open(path)?;
        self.ids.push(stores);
        let exported = exported.into_iter().map(Source::Export);
        let tails = exported.map(|source| JournalTail { store, source });
        tails.for_each(|tail| self.add_tail(tail));
        Ok(())
    }

    fn add_tail(&mut self, tail: JournalTail) {
        self.granularities.push(tail.granularity());
        self.add_span(tail.span());
        self.tails.push(tail);
    }

    fn add_span(&mut self, span: Option<(UtcMs, UtcMs)>) {
        let spans = self.span.into_iter().chain(span);
        self.span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }

    /// The view without the segments and journals at these paths.
    pub fn without(mut self, paths: &HashSet<PathBuf>) -> Self {
        self.tails.retain(|tail| !paths.contains(tail.path()));
        self.left_out = paths.clone();
        self
    }

    /// Journals that cannot be read completely.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// The segments of a dataset that overlap the half-open `range`, from fine to coarse, by start.
    pub fn segments(
        &self,
        dataset: Dataset,
        range: Option<(UtcMs, UtcMs)>,
    ) -> Result<Vec<Segment>, StoreError> {
        let mut segments = self.all_segments(dataset, range)?;
        segments.retain(|segment| !self.left_out.contains(&segment.path));
        Ok(segments)
    }

    /// Segments of a dataset that [`Self::without`] excluded.
    pub fn left_out(&self, dataset: Dataset) -> Result<Vec<Segment>, StoreError> {
        if self.left_out.is_empty() {
            return Ok(Vec::new());
        }
        let mut segments = self.all_segments(dataset, None)?;
        segments.retain(|segment| self.left_out.contains(&segment.path));
        Ok(segments)
    }

    fn all_segments(
        &self,
        dataset: Dataset,
        range: Option<(UtcMs, UtcMs)>,
    ) -> Result<Vec<Segment>, StoreError> {
        let mut all = Vec::new();
        for (store, catalog) in self.catalogs.iter().enumerate() {
            let segments = catalog.segments(dataset, range)?.into_iter();
            all.extend(segments.map(|segment| Segment { store, ..segment }));
        }
        all.sort_by_key(|segment| (segment.granularity, segment.start));
        Ok(all)
    }

    /// All granularities of segments, and the finest of each unsealed journal, ascending.
    pub fn granularities(&self) -> Vec<Granularity> {
        self.granularities.clone()
    }

    /// Sealed journals, by store, host and number. Expired journals are missing.
    pub fn journals(&self) -> Result<Vec<SealedJournal>, StoreError> {
        let mut all = Vec::new();
        for (store, catalog) in self.catalogs.iter().enumerate() {
            let journals = catalog.journals()?.into_iter();
            all.extend(journals.map(|(host, span)| SealedJournal { store, host, span }));
        }
        Ok(all)
    }

    /// Unsealed journals, by store and number, then the hosts of exports.
    pub fn tails(&self) -> &[JournalTail] {
        &self.tails
    }

    /// The ids that a store has had, or the ids of the stores that an export is of. Empty if unknown.
    pub fn ids(&self, store: StoreIndex) -> &[StoreId] {
        self.ids.get(store).map(|ids| &**ids).unwrap_or_default()
    }

    /// Whether the view contains an export.
    pub fn has_exports(&self) -> bool {
        self.tails.iter().any(JournalTail::is_export)
    }

    /// Start of the first and end of the last window of the finest granularity, including windows
    /// without rows. `None` if nothing was recorded yet.
    pub fn span(&self) -> Option<(UtcMs, UtcMs)> {
        self.span
    }

    /// Passes on names with their files. A file comes once more for each unsealed journal with it, and for each of its
    /// users there.
    pub fn names(
        &self,
        names: Names<'_>,
        each: &mut dyn FnMut(NameSeen),
    ) -> Result<(), StoreError> {
        for catalog in &self.catalogs {
            catalog.names(names, each)?;
        }
        for file in self.defined() {
            if let Some(path) = file.path.as_ref().filter(|path| names.contain(path)) {
                each(NameSeen {
                    key: file.key,
                    path: path.clone(),
                    seen: None,
                });
            }
        }
        Ok(())
    }

    /// All names of these files. `files` must ascend.
    pub fn names_of(&self, files: &[FileKey]) -> Result<Vec<NameSeen>, StoreError> {
        let mut names = Vec::new();
        if files.len() <= FEW_FILES {
            for (catalog, key) in self.each_catalog(files) {
                catalog.names_of(*key, &mut names)?;
            }
        } else {
            for catalog in &self.catalogs {
                catalog.names(Names::All, &mut |name| {
                    if files.binary_search(&name.key).is_ok() {
                        names.push(name);
                    }
                })?;
            }
        }
        for file in self.defined() {
            if let Some(path) = &file.path
                && files.binary_search(&file.key).is_ok()
            {
                names.push(NameSeen {
                    key: file.key,
                    path: path.clone(),
                    seen: None,
                });
            }
        }
        Ok(names)
    }

    /// The history of files, from the catalog and unsealed journals.
    pub fn histories(
        &self,
        files: &[FileKey],
    ) -> Result<HashMap<FileKey, FileHistory>, StoreError> {
        let mut histories: HashMap<FileKey, Option<FileHistory>> =
            HashMap::with_capacity(files.len());
        for (catalog, key) in self.each_catalog(files) {
            let history = histories.entry(*key).or_default();
            match (catalog.history(*key)?, history) {
                (Some(more), Some(known)) => known.merge(more),
                (Some(more), none) => *none = Some(more),
                (None, _) => {}
            }
        }
        for tail in &self.tails {
            tail.windows(&mut |window| {
                let seen = (window.start, window.start.plus(tail.granularity()));
                for row in window.rows {
                    if let Some(history) = histories.get_mut(&row.file.key) {
                        let history = history.get_or_insert_with(|| FileHistory::new(seen));
                        history.add(row.file.path.as_deref(), seen);
                    }
                }
            })?;
        }
        let known = histories.into_iter().filter_map(|(key, history)| {
            let mut history = history?;
            history.sort();
            Some((key, history))
        });
        Ok(known.collect())
    }

    /// All pairs of a catalog and a file.
    fn each_catalog<'f>(
        &self,
        files: &'f [FileKey],
    ) -> impl Iterator<Item = (&CatalogView, &'f FileKey)> {
        let catalogs = self.catalogs.iter();
        catalogs.flat_map(move |catalog| files.iter().map(move |key| (catalog, key)))
    }

    /// All mount points that were ever seen, in order of appearance. Their last times may be too early: see
    /// [`Self::mount_history`].
    pub fn mounts(&self) -> Result<Vec<MountSeen>, StoreError> {
        self.each_mount(|_, _| Ok(()))
    }

    /// As [`Self::mounts`], with the last time at which each mount was there. Unsealed journals count.
    pub fn mount_history(&self) -> Result<Vec<MountSeen>, StoreError> {
        self.each_mount(|store, mounts| {
            let sealed = self.catalogs[store].journals()?.into_iter();
            let sealed = sealed.map(|(host, span)| (host, (span.start, span.end)));
            let tails = self.tails.iter().filter(|tail| tail.store == store);
            let unsealed = tails.filter_map(|tail| Some((tail.host().to_owned(), tail.span()?)));
            let journals: Vec<_> = sealed.chain(unsealed).collect();
            mount_times::complete(mounts, &journals);
            Ok(())
        })
    }

    /// The mount points of all stores, after `change` has seen the mount points of each.
    fn each_mount(
        &self,
        change: impl Fn(StoreIndex, &mut [MountSeen]) -> Result<(), StoreError>,
    ) -> Result<Vec<MountSeen>, StoreError> {
        let mut all = self.mounts.clone();
        for (store, catalog) in self.catalogs.iter().enumerate() {
            let mut mounts = catalog.mounts()?;
            change(store, &mut mounts)?;
            all.extend(mounts);
        }
        if self.catalogs.len() > 1 {
            all.sort_by_key(|mount: &MountSeen| mount.seen.0);
        }
        Ok(all)
    }

    /// Whether mount points of earlier data may be unknown, because a catalog was rebuilt without an earlier one.
    pub fn may_lack_mounts(&self) -> Result<bool, StoreError> {
        for catalog in &self.catalogs {
            if catalog.may_lack_mounts()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The mount points of each mount, and the common directory of its files' names.
    pub fn mount_roots(&self) -> Result<MountRoots, StoreError> {
        let mut mount_roots = MountRoots::default();
        for catalog in &self.catalogs {
            catalog.mount_roots(&mut mount_roots)?;
        }
        for MountSeen { mount, .. } in self.mounts()? {
            mount_roots.add_mount_point(&mount.mount, &mount.path);
        }
        for file in self.defined() {
            if let Some(path) = &file.path {
                mount_roots.add(file.mount.as_deref(), path);
            }
        }
        Ok(mount_roots)
    }

    /// Files with this fileid on a mount that ever had this device number, ascending.
    pub fn files_with_id(&self, dev: Dev, fileid: u64) -> Result<Vec<FileKey>, StoreError> {
        let mut known = Vec::new();
        for catalog in &self.catalogs {
            known.extend(catalog.files_with_id(dev, fileid)?);
        }
        Ok(self.with_tails(known, |file| file.id.dev == dev && file.id.fileid == fileid))
    }

    fn with_tails(
        &self,
        known: Vec<FileKey>,
        matches: impl Fn(&FileAttributes) -> bool,
    ) -> Vec<FileKey> {
        let mut keys: BTreeSet<_> = known.into_iter().collect();
        keys.extend(self.defined().filter(|file| matches(file)).map(|f| f.key));
        keys.into_iter().collect()
    }

    /// The files of unsealed journals.
    fn defined(&self) -> impl Iterator<Item = &FileAttributes> {
        self.tails.iter().flat_map(JournalTail::files)
    }
}

impl JournalTail {
    /// The recording host.
    pub fn host(&self) -> &str {
        match &self.source {
            Source::Journal(scan) => &scan.header.host,
            Source::Export(exported) => &exported.host,
        }
    }

    /// Length of its windows.
    pub fn granularity(&self) -> Granularity {
        match &self.source {
            Source::Journal(scan) => scan.header.granularities.finest(),
            Source::Export(exported) => exported.granularity,
        }
    }

    /// Whether it is part of an export. Exports do not contain gaps.
    pub fn is_export(&self) -> bool {
        matches!(self.source, Source::Export(_))
    }

    /// Passes on the windows, without operations, in the order in which they were closed. A window may come again with
    /// late rows: add these up.
    pub fn windows(&self, each: &mut dyn FnMut(ClosedWindow)) -> Result<(), StoreError> {
        match &self.source {
            Source::Export(exported) => exported.windows(each)?,
            Source::Journal(scan) => {
                for frame in &scan.windows {
                    each(cursor::window(scan, frame)?);
                }
            }
        }
        Ok(())
    }

    /// Passes on the operations of the windows, in the same order.
    pub fn operations(
        &self,
        each: &mut dyn FnMut(UtcMs, Vec<OperationRow>),
    ) -> Result<(), StoreError> {
        let Source::Journal(scan) = &self.source else {
            return Ok(());
        };
        for frame in scan.windows.iter().filter(|frame| frame.has_ops()) {
            each(frame.head.start, scan.ops(frame)?);
        }
        Ok(())
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        match &self.source {
            Source::Journal(scan) => &scan.journal.path,
            Source::Export(exported) => &exported.path,
        }
    }

    /// Damaged parts.
    pub fn damage(&self) -> &[Damage] {
        match &self.source {
            Source::Journal(scan) => &scan.damage,
            Source::Export(_) => &[],
        }
    }

    /// Length of its file, bytes, and number of the rows of files in it. `None` for an export.
    pub fn size(&self) -> Option<(u64, u64)> {
        match &self.source {
            Source::Journal(scan) => {
                let rows = scan.windows.iter().map(|window| window.head.rows);
                Some((scan.journal.bytes, rows.fold(0, u64::saturating_add)))
            }
            Source::Export(_) => None,
        }
    }

    /// Start of the first and end of the last window, including windows without rows. `None`
    /// without windows.
    pub fn span(&self) -> Option<(UtcMs, UtcMs)> {
        match &self.source {
            Source::Journal(scan) => scan.span(),
            Source::Export(exported) => Some(exported.span),
        }
    }

    /// Its files, once per user.
    fn files(&self) -> Box<dyn Iterator<Item = &FileAttributes> + '_> {
        match &self.source {
            Source::Journal(scan) => Box::new(scan.files().map(|(_, file)| &**file)),
            Source::Export(exported) => Box::new(exported.files.iter().map(|file| &**file)),
        }
    }
}

/// The ids of a store. A recorder may be running.
pub fn store_ids(store: &Path) -> Result<StoreIds, StoreError> {
    check_is_store(store)?;
    CatalogView::open(store)?.store_ids()
}

pub(crate) fn check_is_store(store: &Path) -> Result<(), StoreError> {
    let not_a_store = |why| StoreError::NotAStore {
        path: store.to_owned(),
        why,
    };
    match store.metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing(store.to_owned())),
        Err(e) => Err(StoreError::io("open", store)(e)),
        Ok(metadata) if !metadata.is_dir() => Err(not_a_store("it is not a directory")),
        Ok(_) => match layout::catalog(store).metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => match layout::has_files(store)? {
                true => Err(StoreError::NoCatalog(store.to_owned())),
                false => Err(not_a_store("it holds no catalog.db")),
            },
            _ => Ok(()),
        },
    }
}

/// Opens the journals. Returns numbers, paths and files. A journal that was sealed and removed in the meantime is in
/// the catalog by then.
#[allow(clippy::type_complexity)]
fn open_journals(
    store: &Path,
) -> Result<Vec<(u64, PathBuf, Result<JournalFile, StoreError>)>, StoreError> {
    let mut opened = Vec::new();
    for number in layout::journals(store)? {
        let path = layout::journal(store, number);
        let journal = JournalFile::open(&path).transpose();
        opened.extend(journal.map(|journal| (number, path, journal)));
    }
    Ok(opened)
}

/// Journals of windows that were set aside. Their readable part is in segments, and only the journals show that
/// something is missing.
fn quarantined(store: &Path, catalog: &CatalogView) -> Result<Vec<Unread>, StoreError> {
    let mut quarantined = layout::quarantined_journals(store)?;
    quarantined.retain(|path| layout::number_of_journal(path).is_some());
    if quarantined.is_empty() {
        return Ok(Vec::new());
    }
    let sealed = catalog.journals()?;
    let unread = quarantined.into_iter().map(|path| {
        let number = layout::number_of_journal(&path);
        let spans = sealed
            .iter()
            .filter(|(_, span)| Some(span.number) == number);
        let spans = spans.map(|(_, span)| (span.start, span.end));
        Unread::sealed(path, spans)
    });
    Ok(unread.collect())
}
