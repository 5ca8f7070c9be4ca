//! Each file and tenant of a site in a time, as rows that can be compared with another time.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::{AnswerRow, GroupBy, Outcome, QueryError, Question, Step, ask};
use trackiops_schemas::identity::{FileKey, Tenant};
use trackiops_schemas::row::{Direction, Row};

use super::track::{Kind, Site, needs, within};
use crate::slow::comparison::Figures;
use crate::subject;

/// Key of a use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UseKey {
    host: Arc<str>,
    file: Option<FileKey>,
    tenant: (Option<Arc<str>>, Option<u32>, Option<Arc<str>>),
}

/// The requests of a tenant for a file on a host.
#[derive(Clone, Debug)]
pub struct Use {
    /// The host.
    pub host: Arc<str>,
    /// The mount.
    pub mount: Arc<str>,
    /// The file's path, or its number.
    pub name: Arc<str>,
    /// Whether the name is a path.
    pub has_path: bool,
    /// The tenant's name for people; `None` if it is unknown.
    pub tenant: Option<Arc<str>>,
    /// Its requests.
    pub row: Row,
}

/// All uses of a site in a time.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// By file, host and tenant.
    pub of: HashMap<UseKey, Use>,
    /// How much of the time was recorded, ms.
    pub recorded_ms: u64,
}

impl Uses {
    /// Asks who used a site in a time.
    pub fn ask(question: &Question, site: &Site, time: Interval) -> Result<Self, QueryError> {
        let question = Question {
            by: GroupBy {
                levels: true,
                ..GroupBy::FILE_TENANT
            },
            step: Some(Step::All),
            projection: needs().with(subject::needs()),
            ..within(question, time)
        };
        let mut uses = Self::default();
        let Outcome::Found(answer) = ask(&question)? else {
            return Ok(uses);
        };
        let of_site = |row: &&AnswerRow| Site::of(row.level, &row.host, row.mount()) == *site;
        for row in answer.rows.iter().filter(of_site) {
            uses.add(row);
        }
        Ok(uses)
    }

    fn add(&mut self, row: &AnswerRow) {
        self.recorded_ms = self.recorded_ms.max(row.covered_ms);
        let key = UseKey {
            host: Arc::clone(&row.host),
            file: row.file.as_ref().map(|file| file.key),
            tenant: key_of(&row.tenant),
        };
        let new = || Use {
            host: Arc::clone(&row.host),
            mount: row.mount().unwrap_or("(unknown)").into(),
            name: row.name().into(),
            has_path: row.path().is_some_and(|path| path.starts_with('/')),
            tenant: row.tenant.named().map(Into::into),
            row: Row::default(),
        };
        let known = self.of.entry(key).or_insert_with(new);
        known.row.merge(&row.sum.row());
    }

    /// The sum of one kind over some hosts.
    pub fn sum(&self, kind: Kind, hosts: &[Arc<str>]) -> Direction {
        let mut sum = Direction::default();
        let uses = self.of.values().filter(|of| hosts.contains(&of.host));
        uses.for_each(|of| sum.merge(&kind.of(&of.row)));
        sum
    }

    /// Figures of the reads and writes of some uses.
    pub fn figures(&self, is_one: impl Fn(&Use) -> bool) -> Figures {
        let mut sum = Row::default();
        let uses = self.of.values().filter(|of| is_one(of));
        uses.for_each(|of| sum.merge(&of.row));
        Figures::new(&sum, self.recorded_ms)
    }

    /// A count divided by the recorded seconds.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1000.0 / self.recorded_ms.max(1) as f64
    }
}

fn key_of(tenant: &Tenant) -> (Option<Arc<str>>, Option<u32>, Option<Arc<str>>) {
    let (name, uid, cgroup) = tenant.group();
    (name.map(Into::into), uid, cgroup.map(Into::into))
}
