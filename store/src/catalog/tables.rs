//! The SQLite catalog's tables.

/// `PRAGMA application_id` of a catalog: "TIOP".
pub const APPLICATION_ID: i32 = 0x5449_4F50;

/// Creates the tables. Times are ms since the Unix epoch, UTC; `PRAGMA user_version`
/// holds [`trackiops_schemas::columns::FORMAT_VERSION`].
///
/// `file_key` and `fileid` are the signed numbers that segments have.
pub const CREATE: &str = "
-- The ids that the store has had: it takes a new one where a copy of it is written to.
CREATE TABLE store (
  generation  INTEGER PRIMARY KEY,      -- the largest is the present one
  id          TEXT NOT NULL UNIQUE
);
CREATE TABLE host (
  id    INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE
);
CREATE TABLE mount (
  id    INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE            -- server:/export
);
-- Which device number stood for which mounts on which host, and when it was first and last seen so.
CREATE TABLE mount_period (
  host      INTEGER NOT NULL REFERENCES host(id),
  dev       INTEGER NOT NULL,           -- major << 20 | minor
  mount     INTEGER REFERENCES mount(id),
  first_ms  INTEGER NOT NULL,
  last_ms   INTEGER NOT NULL
);
CREATE INDEX mount_period_dev ON mount_period (dev);
-- What was mounted where, as it was seen in mount namespaces, and when.
CREATE TABLE mount_point (
  id        INTEGER PRIMARY KEY,
  host      INTEGER NOT NULL REFERENCES host(id),
  dev       INTEGER NOT NULL,           -- major << 20 | minor
  mount     INTEGER NOT NULL REFERENCES mount(id),
  source    TEXT NOT NULL,              -- server:/export, with the path from there to where it begins
  path      TEXT NOT NULL,              -- where it is mounted
  version   TEXT,                       -- of NFS
  options   TEXT NOT NULL,
  foreign_namespace INTEGER NOT NULL,   -- 0: the recorder's own; 1: another one
  volume    TEXT,                       -- what the kubelet or a container engine calls it
  claim     TEXT,
  first_ms  INTEGER NOT NULL,
  last_ms   INTEGER NOT NULL
);
CREATE TABLE file (
  file_key     INTEGER PRIMARY KEY,
  mount        INTEGER REFERENCES mount(id),
  dev          INTEGER,                 -- of a file of no known mount: its device
  fileid       INTEGER NOT NULL,
  first_ms     INTEGER NOT NULL,
  last_ms      INTEGER NOT NULL
);
CREATE INDEX file_fileid ON file (fileid);
-- The names that a file was seen under, and when.
CREATE TABLE file_name (
  file_key  INTEGER NOT NULL REFERENCES file(file_key),
  path      TEXT NOT NULL,
  first_ms  INTEGER NOT NULL,
  last_ms   INTEGER NOT NULL,
  PRIMARY KEY (file_key, path)
) WITHOUT ROWID;
CREATE INDEX file_name_path ON file_name (path);
CREATE TABLE segment (
  id              INTEGER PRIMARY KEY,
  dataset         TEXT NOT NULL,        -- rollup, health, ops
  granularity_ms  INTEGER NOT NULL,
  host            INTEGER NOT NULL REFERENCES host(id),
  journal         INTEGER NOT NULL,     -- number of the first journal that its rows are from
  last_journal    INTEGER NOT NULL,     -- and of the last one, of those of the host
  start_ms        INTEGER NOT NULL,     -- start of its first window
  end_ms          INTEGER NOT NULL,     -- end of its last window
  rows            INTEGER NOT NULL,
  bytes           INTEGER NOT NULL,
  crc32c          INTEGER NOT NULL,     -- that of its metadata, trackiops.crc32c
  path            TEXT NOT NULL UNIQUE, -- relative to the store
  files           BLOB                  -- rollup: file keys and row counts in row order, zstd
);
CREATE INDEX segment_time ON segment (dataset, granularity_ms, start_ms);
CREATE INDEX segment_journal ON segment (journal);
-- Journals whose segments are all in this catalog: the journal file is no longer needed. From the start of the first
-- to the end of the last window of the finest granularity; null without a window.
CREATE TABLE sealed_journal (
  journal   INTEGER PRIMARY KEY,
  previous  INTEGER,                    -- the journal before it; null if none is expected here
  host      INTEGER REFERENCES host(id),
  start_ms  INTEGER,
  end_ms    INTEGER
);
-- The last journal that was known to have windows: it is sealed, or its file exists. Other rows are:
-- marks: the length of `marks.jsonl` times 2^32, plus its checksum
-- imports: how many imports the store has the progress of
-- rebuilt: the catalog was rebuilt without an earlier one; the first journal of requests that was found, or 0
-- mounts: the last journal with unknown mounts, because the catalog was rebuilt without those of an earlier one
-- machine: a number of the machine that the store was last written on
CREATE TABLE begun (
  series   TEXT PRIMARY KEY,            -- windows, requests
  journal  INTEGER NOT NULL
) WITHOUT ROWID;
-- Segments of single requests.
CREATE TABLE requests_segment (
  path      TEXT PRIMARY KEY,           -- relative to the store
  journal   INTEGER NOT NULL,           -- number of the journal of requests that its rows are from
  start_ms  INTEGER NOT NULL,           -- time of its first completion
  end_ms    INTEGER NOT NULL,           -- after its last completion
  rows      INTEGER NOT NULL,
  bytes     INTEGER NOT NULL,
  crc32c    INTEGER NOT NULL            -- that of its metadata, trackiops.crc32c
) WITHOUT ROWID;
-- Journals of single requests whose segments are all in this catalog.
CREATE TABLE sealed_requests (
  journal   INTEGER PRIMARY KEY,
  previous  INTEGER                     -- the journal before it; null if none is expected here
);
-- Files that are no segments, or not any more, and from when on they may be deleted.
CREATE TABLE removed (
  path   TEXT PRIMARY KEY,              -- relative to the store
  at_ms  INTEGER NOT NULL
) WITHOUT ROWID;
";
