//! Lists the streams of imported captures.

use crate::answer::Outcome;
use crate::coverage::captures::CapturedStream;
use crate::error::QueryError;
use crate::of_health::ask_of_health;
use crate::question::Question;

/// A stream of a host.
#[derive(Clone, Debug)]
pub struct HostStream {
    /// The host: the client of the connection.
    pub host: String,
    /// The stream.
    pub captured: CapturedStream,
}

/// Lists the streams in the range of a question, by client and server.
pub fn ask_captures(question: &Question) -> Result<Outcome<HostStream>, QueryError> {
    ask_of_health(
        question,
        "captured connections",
        |host, coverage, _| {
            let streams = coverage.captures().into_iter();
            let streams = streams.map(|captured| HostStream {
                host: host.to_owned(),
                captured,
            });
            streams.collect()
        },
        |row| (row.host.clone(), row.captured.stream),
    )
}
