//! Texts with `{name}`s, which are replaced by captured text.

use crate::pattern::{Captures, name_at};

/// A text that is completed with the captures of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Name(String),
}

impl Template {
    /// Parses a template; `None` if a brace has no name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let name = name_at(&rest[at..])?;
            parts.push(Part::Text(rest[..at].to_owned()));
            parts.push(Part::Name(name.to_owned()));
            rest = &rest[at + name.len() + 2..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Some(Self { parts })
    }

    /// The names in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The completed text. Unknown names are left out.
    pub(crate) fn complete(&self, known: &Captures) -> String {
        let texts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Name(name) => known.get(name).map_or("", String::as_str),
        });
        texts.collect()
    }
}
