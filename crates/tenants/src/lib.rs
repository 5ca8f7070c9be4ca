//! Assigns rows to tenants by the user's rules: the first rule that applies names the tenant.
//!
//! ```toml
//! [[rule]]
//! path = "/mnt/vols/{customer}/**"
//! tenant = "{customer}"
//! labels = { tier = "gold" }
//! ```
//!
//! Rules do not guess: if a rule needs a path that is unknown, neither this rule nor a later one names a tenant.

pub mod account_file;
mod groups;
mod pattern;
mod rule;
mod template;

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::shortened::short_message;

use crate::groups::Groups;
pub use crate::rule::{Known, VolumeOf};
use crate::rule::{Rule, Verdict, Written};

/// Rules, in order.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// The line where each rule begins.
    lines: Vec<usize>,
    groups: Groups,
}

/// The result of the rules for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Position of the rule, from 0.
    pub rule: usize,
    /// The tenant's name.
    pub name: String,
    /// Its labels: a JSON object; `None` without any.
    pub labels: Option<String>,
}

/// The text has no rules, or invalid ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct RulesError {
    line: usize,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<Written>>,
}

impl Rules {
    /// Parses rules in the format of `tenants.toml`.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let at = |span: Option<Range<usize>>, why: String| RulesError {
            line: line_of(text, span.map_or(0, |span| span.start)),
            why: short_message(&why).into_owned(),
        };
        let file: File =
            toml::from_str(text).map_err(|error| at(error.span(), error.message().to_owned()))?;
        let mut rules: Vec<Rule> = Vec::new();
        let mut lines = Vec::new();
        for written in file.rule {
            let span = written.span();
            if rules.last().is_some_and(Rule::is_of_all) {
                let why = "the rule before it applies to everything; put this one before it";
                return Err(at(Some(span), why.into()));
            }
            lines.push(line_of(text, span.start));
            let rule = Rule::try_from(written.into_inner());
            rules.push(rule.map_err(|why| at(Some(span), why))?);
        }
        if rules.is_empty() {
            return Err(at(None, "there is no [[rule]]".into()));
        }
        let mut rules = Self {
            rules,
            lines,
            groups: Groups::of_this_host(),
        };
        rules.refresh();
        Ok(rules)
    }

    /// Number of rules.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// The line at which a rule begins, by its position.
    pub fn line(&self, rule: usize) -> Option<usize> {
        self.lines.get(rule).copied()
    }

    /// Reads the groups of users again, if a rule needs them and they may have changed. Returns whether rows may now belong to other
    /// tenants.
    pub fn refresh(&mut self) -> bool {
        self.rules.iter().any(Rule::needs_groups) && self.groups.refresh()
    }

    /// The result of the first rule that applies. `None` if no rule applies, or if an unknown value leaves that open.
    pub fn of(&self, known: &Known<'_>) -> Option<Match> {
        for (i, rule) in self.rules.iter().enumerate() {
            match rule.verdict(known, &self.groups) {
                Verdict::No => {}
                Verdict::Unknown => return None,
                Verdict::Yes(captures) => {
                    let (name, labels) = rule.named(&captures);
                    return Some(Match {
                        rule: i,
                        name,
                        labels,
                    });
                }
            }
        }
        None
    }

    /// The tenant with the name and labels from these rules, which replace its present ones.
    pub fn named(&self, known: &Known<'_>) -> Tenant {
        let (name, labels) = match self.of(known) {
            None => (None, None),
            Some(found) => (Some(found.name.into()), found.labels.map(Into::into)),
        };
        Tenant {
            name,
            labels,
            ..known.tenant.clone()
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    before.filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
