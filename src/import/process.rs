//! The process of an import: its signals and its progress.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use trackiops_import::{CutShort, Notice, Process, Source, bytes_to_read};
use trackiops_process::output::say;
use trackiops_process::progress::begin_reading;
use trackiops_process::signals;
use trackiops_render::units::plural;

/// This process.
pub struct OwnProcess;

impl Process for OwnProcess {
    fn was_ended(&self) -> bool {
        signals::was_asked()
    }

    fn asked_to_end(&self) -> io::Result<BorrowedFd<'static>> {
        signals::asked_to_end()
    }

    fn say(&self, notice: Notice) {
        match notice {
            Notice::Store(warning) => say(format_args!("warning: {warning}")),
            Notice::Unused(columns) => say(format_args!(
                "note: columns that are not imported: {columns}; --map FIELD=COLUMN says what one has"
            )),
            Notice::CaptureCutShort(CutShort { name, why, packets }) => {
                let packets = plural(packets, "packet");
                say(format_args!(
                    "warning: {name}: {why}; what comes before it was imported, {packets}"
                ));
            }
            Notice::TextCutShort { name, line, why } => say(format_args!(
                "warning: {name} cannot be read after line {line}: {why}; what comes before was imported"
            )),
            Notice::LeftOut(rows) => {
                let rows = plural(rows, "row");
                say(format_args!(
                    "warning: {rows} left out: their times are before 1970 or after 2262-04-11"
                ));
            }
        }
    }
}

/// The sources of an import. From now on, the progress of reading them is shown.
pub fn sources(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let sources = Source::all(paths)?;
    begin_reading("importing", bytes_to_read(&sources));
    Ok(sources)
}
