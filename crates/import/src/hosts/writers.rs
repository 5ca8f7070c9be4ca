//! Writes an import to its store.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use trackiops_store::{Import, Options, RequestsWriter, StoreError, Warning, Writer};

use crate::process::{Notice, Process};

/// Interval of checks whether everything is sealed, or a signal has come.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The destination of an import.
pub struct Target {
    /// The store.
    pub store: PathBuf,
    /// Its options; the host is filled in later.
    pub options: Options,
    /// Room for single requests, bytes; `None` keeps no single requests.
    pub requests_bytes: Option<u64>,
    /// The id of the import, if its source can be read again from the beginning; see [`crate::id`].
    pub import: Option<String>,
}

/// Writes to the store; opened with the first window.
pub struct Writers {
    pub windows: Writer,
    pub requests: Option<RequestsWriter>,
    pub import: Option<Import>,
    process: &'static dyn Process,
}

impl Writers {
    pub fn open(
        target: &Target,
        host: &str,
        process: &'static dyn Process,
    ) -> Result<Self, StoreError> {
        let options = Options {
            host: host.to_owned(),
            ..target.options.clone()
        };
        let warn = move |warning: Warning| process.say(Notice::Store(warning));
        let mut windows = Writer::open_after(&target.store, options, None, warn)?;
        let requests = target.requests_bytes;
        let requests = requests.map(|most_bytes| windows.requests(most_bytes, warn));
        let mut requests = requests.transpose()?;
        let import = target.import.as_deref();
        let import = import.map(|id| Import::begin(id, &mut windows, requests.as_mut()));
        Ok(Self {
            import: import.transpose()?,
            requests,
            windows,
            process,
        })
    }

    /// Commits the written data, so that the same import does not write them again.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        let process = self.process;
        if let Some(import) = &mut self.import {
            let was_ended = || process.was_ended();
            import.commit(&mut self.windows, self.requests.as_mut(), was_ended)?;
        }
        Ok(())
    }

    /// Seals everything. A signal ends the wait for sealing and leaves the rest in journals. Returns whether everything is sealed.
    pub fn end(&mut self) -> Result<bool, StoreError> {
        let process = self.process;
        if let Some(import) = self.import.take() {
            import.finish()?;
        }
        self.windows.end()?;
        if let Some(requests) = &mut self.requests {
            requests.end(|| process.was_ended())?;
        }
        let have_ended = |own: &Self| {
            let requests = own.requests.as_ref();
            own.windows.has_ended() && requests.is_none_or(RequestsWriter::has_ended)
        };
        while !have_ended(self) && !process.was_ended() {
            thread::sleep(LOOK_EVERY);
        }
        Ok(have_ended(self))
    }

    pub fn finish(self) -> Result<(), StoreError> {
        self.requests.map_or(Ok(()), RequestsWriter::finish)?;
        self.windows.finish()
    }
}
