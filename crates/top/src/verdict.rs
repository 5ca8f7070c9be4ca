//! The first line of the screen: the slow moments in the time before.

use trackiops_live::{Moment, Source};
use trackiops_query::times::{Zone, show};
use trackiops_render::why::headline;
use trackiops_reports::why::make;

use crate::last_read::LastRead;

/// The time to judge, ms.
const RANGE_MS: i64 = 600_000;
/// On a live screen, the interval between judgements, ms.
const EVERY_MS: i64 = 10_000;

/// The slow moments before a time.
#[derive(Default)]
pub struct Verdict {
    last: LastRead,
    /// The line for the screen.
    pub text: String,
    /// Whether something was slow.
    pub is_slow: bool,
}

impl Verdict {
    /// Judges the time before a moment, unless this was done recently.
    pub fn ask(&mut self, source: &Source, moment: Moment) {
        let Some(until) = self.last.due(source, moment, EVERY_MS) else {
            return;
        };
        let question = source.question(Moment::Until(until), RANGE_MS);
        let why = question.ok().and_then(|question| make(&question).ok());
        (self.text, self.is_slow) = match why {
            Some(Ok(why)) => match why.moments.first() {
                Some(first) => (headline(first, Zone::Local), true),
                None => match moment {
                    Moment::Live => ("nothing was slow in the last 10 min".to_owned(), false),
                    Moment::Until(until) => {
                        let until = show(until, Zone::Local);
                        (
                            format!("nothing was slow in the 10 min until {until}"),
                            false,
                        )
                    }
                },
            },
            _ => (
                "what was slow is not known here: trackiops why".to_owned(),
                false,
            ),
        };
    }
}
