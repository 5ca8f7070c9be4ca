//! What each rule of tenants would have matched.

use trackiops_tenants::{Known, Rules};

use crate::answer::Outcome;
use crate::error::QueryError;
use crate::file_rows::ask;
use crate::group::GroupBy;
use crate::projection::Projection;
use crate::question::Question;
use crate::volume_names::VolumeName;

/// The data that a rule matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Names of files.
    pub names: u64,
    /// READs and WRITEs.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The data that each rule matches; last, the data that no rule matches.
pub fn ask_matched(question: &Question, rules: &Rules) -> Result<Vec<Matched>, QueryError> {
    let question = Question {
        by: GroupBy {
            tenants: true,
            users: true,
            ..GroupBy::NAME
        },
        projection: Projection::totals(),
        tenant_rules: None,
        ..question.clone()
    };
    let mut matched = vec![Matched::default(); rules.count() + 1];
    if let Outcome::Found(answer) = ask(&question)? {
        for row in answer.rows {
            let known = Known {
                mount: row.mount(),
                volume: row.volume.as_deref().map(VolumeName::for_rules),
                path: row.path(),
                tenant: &row.tenant,
            };
            let place = rules.of(&known).map_or(rules.count(), |found| found.rule);
            let sum = &mut matched[place];
            sum.names += 1;
            let requests = [row.sum.read().requests, row.sum.write().requests];
            sum.requests = requests.into_iter().fold(sum.requests, u64::saturating_add);
            sum.bytes = sum.bytes.saturating_add(row.sum.bytes());
        }
    }
    Ok(matched)
}
