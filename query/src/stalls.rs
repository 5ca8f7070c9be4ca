//! Lists stalls: which server did not answer, and when.

use trackiops_store::{Dataset, Snapshot};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::ask::{ask_with, nothing, recorded, within};
use crate::coverage::needed_notes::notes;
use crate::coverage::stalls::Stall;
use crate::error::QueryError;
use crate::execute::{Recorded, execute};
use crate::file_selector::FileSelection;
use crate::group::{GroupBy, Grouping};
use crate::plan::plan;
use crate::projection::Projection;
use crate::question::Question;
use crate::step::Step;

/// A server that did not answer a host.
#[derive(Clone, Debug)]
pub struct ServerStall {
    /// The host that waited.
    pub host: String,
    /// The server, and when.
    pub stall: Stall,
}

/// Lists the stalls in the range of a question, by start.
pub fn ask_stalls(question: &Question) -> Result<Outcome<ServerStall>, QueryError> {
    ask_with(question, ask_once)
}

fn ask_once(snapshot: &Snapshot, question: &Question) -> Result<Outcome<ServerStall>, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    if let Err(why) = within(span, question) {
        return Ok(nothing(why));
    }
    let plan = plan(snapshot, Dataset::Rollup, span, question, Some(Step::All))?;
    let grouping = Grouping::all(GroupBy::HOST);
    // The recorder's account of each window has them; rows of files are not needed.
    let no_file = FileSelection::default();
    let found = execute(
        &plan,
        Some(&no_file),
        Projection::bytes(),
        &grouping,
        None,
        &question.explain,
    )?;
    let Recorded { mut hosts, covered } = found.recorded;
    let mut rows = Vec::new();
    for (host, (coverage, _)) in plan.hosts.iter().zip(&mut hosts) {
        let stalls = coverage.stalls().into_iter();
        rows.extend(stalls.map(|stall| ServerStall {
            host: host.clone(),
            stall,
        }));
    }
    rows.sort_by(|a, b| (a.stall.range, &a.host).cmp(&(b.stall.range, &b.host)));
    let notes = notes(Vec::new(), hosts, &plan, question, rows.is_empty(), None);
    let asked = plan.asked;
    if rows.is_empty() {
        let why = match covered.is_any() {
            true => EmptyReason::NoneOf {
                what: "stalls".into(),
                asked,
            },
            false => EmptyReason::NotRecorded { asked, span },
        };
        return Ok(Outcome::Nothing { why, notes });
    }
    Ok(Outcome::Found(Answer {
        rows,
        step: Step::All,
        by: GroupBy::HOST,
        range: asked,
        notes,
        recorded: Default::default(),
    }))
}
