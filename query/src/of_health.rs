//! Lists data from the recorder's health rows, without reading rows of files or operations.

use trackiops_store::{Dataset, Snapshot};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::ask::{ask_with, nothing, recorded, within};
use crate::coverage::{Coverage, Gap};
use crate::error::QueryError;
use crate::execute::Recorded;
use crate::file_selector::FileSelection;
use crate::file_sums::FileRows;
use crate::group::GroupBy;
use crate::grouping::Grouping;
use crate::needed_notes::{gaps, notes};
use crate::plan::plan;
use crate::projection::Projection;
use crate::question::Question;
use crate::step::Step;
use crate::usual_latencies::UsualLatencies;

/// Lists the rows that `rows_of` makes from each host's coverage and gaps, ordered by `key`. `what` names them, in the plural.
pub(crate) fn ask_of_health<T, K: Ord>(
    question: &Question,
    what: &'static str,
    rows_of: impl Fn(&str, &mut Coverage, &[Gap]) -> Vec<T>,
    key: impl Fn(&T) -> K,
) -> Result<Outcome<T>, QueryError> {
    ask_with(question, |snapshot, question| {
        let mut outcome = ask_once(snapshot, question, what, &rows_of)?;
        if let Outcome::Found(answer) = &mut outcome {
            answer.rows.sort_by_key(&key);
        }
        Ok(outcome)
    })
}

fn ask_once<T>(
    snapshot: &Snapshot,
    question: &Question,
    what: &'static str,
    rows_of: impl Fn(&str, &mut Coverage, &[Gap]) -> Vec<T>,
) -> Result<Outcome<T>, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    if let Err(why) = within(span, question) {
        return Ok(nothing(why));
    }
    let plan = plan(snapshot, Dataset::Rollup, span, question, Some(Step::All))?;
    let grouping = Grouping::all(GroupBy::HOST);
    let no_file = FileSelection::default();
    let rows = FileRows {
        plan: &plan,
        wanted: Some(&no_file),
        projection: Projection::bytes(),
        grouping: &grouping,
        usual: &UsualLatencies::default(),
        explain: &question.explain,
    };
    let Recorded { mut hosts, covered } = rows.add_up(None)?.recorded;
    let mut rows = Vec::new();
    for (host, (coverage, span)) in plan.hosts.iter().zip(&mut hosts) {
        let gaps = span.map(|span| gaps(coverage, &plan, question, span));
        rows.extend(rows_of(host, coverage, &gaps.unwrap_or_default()));
    }
    let notes = notes(Vec::new(), hosts, &plan, question, rows.is_empty(), None);
    let asked = plan.asked;
    let answer = Answer::of_range(rows, GroupBy::HOST, asked, notes);
    Ok(answer.or_nothing(|| match covered.is_any() {
        true => EmptyReason::NoneOf {
            what: what.to_owned(),
            asked,
        },
        false => EmptyReason::NotRecorded { asked, span },
    }))
}
