//! The file with the tenant rules.

use std::path::Path;

use anyhow::Context;
use trackiops_tenants::Rules;

use crate::input_file::read_file;

/// Reads rules.
pub fn read(path: &Path) -> anyhow::Result<Rules> {
    parse(path, &text(path)?)
}

fn text(path: &Path) -> anyhow::Result<String> {
    read_file("the rules of tenants", path)
}

fn parse(path: &Path, text: &str) -> anyhow::Result<Rules> {
    Rules::parse(text)
        .with_context(|| format!("the rules of tenants in {} are wrong", path.display()))
}

/// The rules of a recorder, with their text.
#[derive(Default)]
pub struct TenantRules {
    text: Option<String>,
    pub rules: Option<Rules>,
}

impl TenantRules {
    /// Reads the rules, if there is a file.
    pub fn of(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = text(path)?;
        let rules = Some(parse(path, &text)?);
        let text = Some(text);
        Ok(Self { text, rules })
    }

    /// Whether both come from the same text.
    pub fn are(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
