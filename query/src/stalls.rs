//! Lists stalls: which server did not answer, and when.

use crate::answer::Outcome;
use crate::coverage::stalls::Stall;
use crate::error::QueryError;
use crate::of_health::ask_of_health;
use crate::question::Question;

/// A server that did not answer a host.
#[derive(Clone, Debug)]
pub struct ServerStall {
    /// The host that waited.
    pub host: String,
    /// The server, and the time of the stall.
    pub stall: Stall,
}

/// Lists the stalls in the range of a question, by start.
pub fn ask_stalls(question: &Question) -> Result<Outcome<ServerStall>, QueryError> {
    ask_of_health(
        question,
        "stalls",
        |host, coverage, _| {
            let stalls = coverage.stalls().into_iter();
            let stalls = stalls.map(|stall| ServerStall {
                host: host.to_owned(),
                stall,
            });
            stalls.collect()
        },
        |row| (row.stall.range, row.host.clone()),
    )
}
