//! Grammar of conditions:
//!
//! ```text
//! any     = all { ( "or" | "||" ) all }
//! all     = term { ( "and" | "&&" ) term }
//! term    = "(" any ")" | column ( ">" | ">=" | "<" | "<=" | "=" | "==" | "!=" ) value
//! value   = number [ unit ]
//! ```

use std::str::FromStr;

use super::{Condition, ConditionError, Operator};
use crate::literal::{Literal, number_length, unit};

/// Most levels of nested brackets: the parser recurses.
const MAX_DEPTH: usize = 32;

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser { text, at: 0 };
        let condition = parser.any(0)?;
        match parser.rest().is_empty() {
            true => Ok(condition),
            false => Err(parser.missing("`and` or `or`")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    /// Position in the text, bytes.
    at: usize,
}

impl<'t> Parser<'t> {
    /// The rest of the text, without leading white space.
    fn rest(&self) -> &'t str {
        self.text[self.at..].trim_start()
    }

    /// Skips white space and takes this many bytes.
    fn take(&mut self, characters: usize) -> &'t str {
        let rest = self.rest();
        self.at = self.text.len() - rest.len() + characters;
        &rest[..characters]
    }

    fn accept(&mut self, word: &str) -> bool {
        let comes = self.rest().starts_with(word);
        if comes {
            self.take(word.len());
        }
        comes
    }

    /// Takes a word if it comes next, unless it is only the start of a longer one.
    fn accept_word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let comes = rest
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest[word.len()..].starts_with(in_name);
        if comes {
            self.take(word.len());
        }
        comes
    }

    fn missing(&self, missing: &'static str) -> ConditionError {
        let place = match self.rest() {
            "" => "at the end".to_owned(),
            rest => format!("before `{rest}`"),
        };
        ConditionError::Syntax {
            text: self.text.to_owned(),
            missing,
            place,
        }
    }

    fn any(&mut self, depth: usize) -> Result<Condition, ConditionError> {
        let mut parts = vec![self.all(depth)?];
        while self.accept_word("or") || self.accept("||") {
            parts.push(self.all(depth)?);
        }
        Ok(one_or(parts, Condition::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Condition, ConditionError> {
        let mut parts = vec![self.term(depth)?];
        while self.accept_word("and") || self.accept("&&") {
            parts.push(self.term(depth)?);
        }
        Ok(one_or(parts, Condition::All))
    }

    fn term(&mut self, depth: usize) -> Result<Condition, ConditionError> {
        if self.accept("(") {
            if depth == MAX_DEPTH {
                return Err(ConditionError::TooDeep(self.text.to_owned()));
            }
            let inner = self.any(depth + 1)?;
            return match self.accept(")") {
                true => Ok(inner),
                false => Err(self.missing("`)`")),
            };
        }
        let column = self.column()?;
        let Some(operator) = self.operator() else {
            return Err(self.missing("one of > >= < <= = !="));
        };
        let value = self.literal()?;
        Ok(Condition::Compare {
            column,
            operator,
            value,
        })
    }

    fn column(&mut self) -> Result<String, ConditionError> {
        let rest = self.rest();
        let is_name = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let length = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        match is_name {
            true => Ok(self.take(length).to_owned()),
            false => Err(self.missing("a column")),
        }
    }

    fn operator(&mut self) -> Option<Operator> {
        let comes = Operator::ALL
            .into_iter()
            .find(|(text, _)| self.rest().starts_with(text));
        comes.map(|(text, operator)| {
            self.take(text.len());
            operator
        })
    }

    fn literal(&mut self) -> Result<Literal, ConditionError> {
        let length = number_length(self.rest());
        let Ok(number) = self.rest()[..length].parse::<f64>() else {
            return Err(self.missing("a number"));
        };
        let digits = self.take(length);
        self.finite(number, digits)?;
        let rest = self.rest();
        // Text after the number is a unit, unless it is `and` or `or`.
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '%' | '\u{b5}')))
            .unwrap_or(rest.len());
        let written = &rest[..length];
        if written.is_empty() || ["and", "or"].contains(&written.to_lowercase().as_str()) {
            let unit = None;
            return Ok(Literal { number, unit });
        }
        match unit(written) {
            None => Err(ConditionError::Unit {
                text: self.text.to_owned(),
                unit: written.to_owned(),
            }),
            unit => {
                self.take(length);
                let literal = Literal { number, unit };
                self.finite(literal.scaled(), &format!("{digits}{written}"))?;
                Ok(literal)
            }
        }
    }

    /// Rejects numbers that would compare, and print, as infinite.
    fn finite(&self, number: f64, written: &str) -> Result<(), ConditionError> {
        match number.is_finite() {
            true => Ok(()),
            false => Err(ConditionError::TooLarge {
                text: self.text.to_owned(),
                number: written.to_owned(),
            }),
        }
    }
}

fn one_or(mut parts: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.len() {
        1 => parts.remove(0),
        _ => many(parts),
    }
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}
