//! What lost time is compared with: the usual latencies of all files before the time on the screen.

use std::sync::Arc;

use trackiops_live::{Moment, Source};
use trackiops_query::{UsualLatencies, ask_usual_latencies};

use crate::last_read::LastRead;

/// On a live screen, the interval between reads, ms.
const EVERY_MS: i64 = 60_000;

/// The usual latencies before a moment. If the store cannot be read, none are known.
#[derive(Debug, Default)]
pub struct Baseline {
    last: LastRead,
    usual: Arc<UsualLatencies>,
}

impl Baseline {
    /// The usual latencies before the `length_ms` that end at a moment. They are read once, and kept for all tabs.
    pub fn of(&mut self, source: &Source, moment: Moment, length_ms: i64) -> Arc<UsualLatencies> {
        if let Some(until) = self.last.due(source, moment, EVERY_MS) {
            let question = source.question(Moment::Until(until), length_ms);
            let usual = question.ok().and_then(|of| ask_usual_latencies(&of).ok());
            self.usual = usual.unwrap_or_default();
        }
        Arc::clone(&self.usual)
    }
}
