//! Imports text of nfsdump, which has a line for each call and each reply.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use trackiops_capture::{DumpDecoder, DumpMessage, DumpReport, NotUnderstood, read_lines};

use super::files::Files;
use crate::error::ImportError;
use crate::hosts::{Hosts, Target};
use crate::process::{Notice, Process};
use crate::source::Source;

/// Lines of all files.
#[derive(Default)]
pub struct Lines {
    /// All lines.
    pub read: u64,
    /// Empty lines and comments.
    pub comments: u64,
    /// Lines that were not understood, by reason.
    pub not_understood: BTreeMap<NotUnderstood, Unread>,
}

/// Lines that were not understood for the same reason.
pub struct Unread {
    /// Their number.
    pub lines: u64,
    /// File and number of the first such line.
    pub first: (String, u64),
}

/// Imported texts.
pub struct Imported {
    /// The clients.
    pub hosts: Hosts<Files>,
    /// How many lines were read.
    pub lines: Lines,
    /// What became of calls and replies.
    pub report: DumpReport,
}

/// Imports texts in order of time.
pub fn import(
    sources: &[Source],
    target: Target,
    process: &'static dyn Process,
) -> Result<Imported, ImportError> {
    let mut decoder = DumpDecoder::new(Hosts::<Files>::new(target, process));
    let mut lines = Lines::default();
    for source in sources {
        read(source, process, &mut decoder, &mut lines)?;
        if process.was_ended() {
            break;
        }
    }
    let (mut hosts, report) = decoder.finish();
    hosts.finish()?;
    Ok(Imported {
        hosts,
        lines,
        report,
    })
}

fn read(
    source: &Source,
    process: &dyn Process,
    decoder: &mut DumpDecoder<Hosts<Files>>,
    lines: &mut Lines,
) -> Result<(), ImportError> {
    let mut number = 0;
    let mut ticked = Ok(());
    let take = |line: &[u8]| {
        if process.was_ended() {
            // The last line may be incomplete.
            return ControlFlow::Break(());
        }
        number += 1;
        lines.read += 1;
        if line.is_empty() || line.starts_with(b"#") {
            lines.comments += 1;
            return ControlFlow::Continue(());
        }
        match DumpMessage::parse(line) {
            Ok(message) => {
                ticked = decoder.receiver().tick(message.time_ns());
                if ticked.is_err() {
                    return ControlFlow::Break(());
                }
                decoder.message(message);
            }
            Err(reason) => {
                let unread = lines.not_understood.entry(reason);
                let unread = unread.or_insert_with(|| Unread {
                    lines: 0,
                    first: (source.name.clone(), number),
                });
                unread.lines += 1;
            }
        }
        ControlFlow::Continue(())
    };
    let input = source.open_until_signal(process)?;
    let end = read_lines(input, take, || process.was_ended());
    ticked?;
    match end {
        Err(_) if process.was_ended() => {}
        Err(error) if number > 0 => process.say(Notice::TextCutShort {
            name: source.name.clone(),
            line: number,
            why: error.to_string(),
        }),
        end => end.map_err(|error| ImportError::Read {
            name: source.name.clone(),
            source: error,
        })?,
    }
    Ok(())
}
