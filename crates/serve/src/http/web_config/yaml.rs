//! Reads YAML without its pitfalls: no aliases, no tags, no key twice, no value that is missing.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Most maps and lists in each other. The format has three.
const MOST_DEEP: usize = 8;

/// What is wrong in a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1 on.
    pub line: usize,
    /// The reason.
    pub why: String,
}

impl Problem {
    pub fn new(line: usize, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { line, why }
    }
}

/// A value, and where it is.
#[derive(Debug)]
pub struct Node {
    pub line: usize,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Text(String),
    Nothing,
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

/// A map, and what it is called in messages.
#[derive(Debug)]
pub struct Map {
    name: String,
    entries: BTreeMap<String, Node>,
}

/// A list or map that has not ended yet.
struct Open {
    line: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// Also the key whose value comes next.
    Map(BTreeMap<String, Node>, Option<String>),
}

/// Reads a document.
pub fn parse(text: &str) -> Result<Node, Problem> {
    let mut root = None;
    let mut open: Vec<Open> = Vec::new();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            let why = format!("this is not YAML: {}", error.info());
            Problem::new(error.marker().line(), why)
        })?;
        let line = span.start.line();
        let refuse = |what: &str| Err(Problem::new(line, format!("{what} are not supported")));
        let node = match event {
            Event::Alias(_) => return refuse("aliases"),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => return refuse("tags"),
            Event::DocumentStart(_) if root.is_some() => return refuse("several documents"),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MOST_DEEP => {
                return Err(Problem::new(line, "too many lists and maps in each other"));
            }
            Event::SequenceStart(..) => {
                let content = Content::List(Vec::new());
                open.push(Open { line, content });
                continue;
            }
            Event::MappingStart(..) => {
                let content = Content::Map(BTreeMap::new(), None);
                open.push(Open { line, content });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(ended) => ended.into_node(),
                None => continue,
            },
            Event::Scalar(text, style, _, None) => Node::of_scalar(line, &text, style),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => continue,
        };
        match open.last_mut() {
            Some(open) => open.add(node)?,
            None => root = Some(node),
        }
    }
    root.ok_or_else(|| Problem::new(1, "there is nothing in it"))
}

impl Open {
    fn add(&mut self, node: Node) -> Result<(), Problem> {
        let (entries, key) = match &mut self.content {
            Content::List(list) => {
                list.push(node);
                return Ok(());
            }
            Content::Map(entries, key) => (entries, key),
        };
        if let Some(key) = key.take() {
            entries.insert(key, node);
            return Ok(());
        }
        let Value::Text(text) = node.value else {
            return Err(Problem::new(node.line, "a key must be a text"));
        };
        if entries.contains_key(&text) {
            return Err(Problem::new(node.line, format!("{text} stands here twice")));
        }
        *key = Some(text);
        Ok(())
    }

    fn into_node(self) -> Node {
        let value = match self.content {
            Content::List(list) => Value::List(list),
            Content::Map(entries, _) => Value::Map(entries),
        };
        let line = self.line;
        Node { line, value }
    }
}

impl Node {
    fn of_scalar(line: usize, text: &str, style: ScalarStyle) -> Self {
        let is_nothing = style == ScalarStyle::Plain && ["", "~", "null"].contains(&text);
        let value = match is_nothing {
            true => Value::Nothing,
            false => Value::Text(text.to_owned()),
        };
        Self { line, value }
    }

    /// A text. `name` is the key, for messages.
    pub fn text(self, name: &str) -> Result<String, Problem> {
        match self.value {
            Value::Text(text) => Ok(text),
            Value::Nothing => Err(Problem::new(self.line, format!("{name} has no value"))),
            _ => Err(Problem::new(self.line, format!("{name} must be a text"))),
        }
    }

    /// `true` or `false`.
    pub fn truth(self, name: &str) -> Result<bool, Problem> {
        let line = self.line;
        match self.text(name)?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Problem::new(line, format!("{name} must be true or false"))),
        }
    }

    /// Texts, at least one.
    pub fn texts(self, name: &str) -> Result<Vec<String>, Problem> {
        match self.value {
            Value::List(list) if !list.is_empty() => {
                list.into_iter().map(|node| node.text(name)).collect()
            }
            _ => {
                let why = format!("{name} must be a list with something in it");
                Err(Problem::new(self.line, why))
            }
        }
    }

    /// A map. The name of the outermost one is empty.
    pub fn map(self, name: &str) -> Result<Map, Problem> {
        match self.value {
            Value::Map(entries) => {
                let name = name.to_owned();
                Ok(Map { name, entries })
            }
            _ => {
                let name = if name.is_empty() { "the file" } else { name };
                let why = format!("{name} must have keys with values");
                Err(Problem::new(self.line, why))
            }
        }
    }
}

impl Map {
    /// Takes the value of a key out.
    pub fn take(&mut self, key: &str) -> Option<Node> {
        self.entries.remove(key)
    }

    /// The full name of a key, for messages.
    pub fn name_of(&self, key: &str) -> String {
        match self.name.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.name),
        }
    }

    /// Takes a text out.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, Problem> {
        let name = self.name_of(key);
        self.take(key).map(|node| node.text(&name)).transpose()
    }

    /// Refuses what was not taken out.
    pub fn end(self, unsupported: &[(&str, &str)]) -> Result<(), Problem> {
        let Some((key, node)) = self.entries.iter().next() else {
            return Ok(());
        };
        let name = self.name_of(key);
        let why = match unsupported.iter().find(|(of, _)| of == key) {
            Some((_, instead)) => format!("{name} is not supported; {instead}"),
            None => format!("{name} is not a key of this file; correct or remove it"),
        };
        Err(Problem::new(node.line, why))
    }

    /// All entries that were not taken out.
    pub fn into_entries(self) -> BTreeMap<String, Node> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> (usize, String) {
        let problem = parse(text).unwrap_err();
        (problem.line, problem.why)
    }

    #[test]
    fn what_is_read_otherwise_than_it_looks_is_refused() {
        for (text, line, has) in [
            ("", 1, "nothing in it"),
            ("# a comment\n", 1, "nothing in it"),
            ("a: 1\nb: 2\na: 3\n", 3, "a stands here twice"),
            ("a: &x {b: c}\nd: *x\n", 2, "aliases"),
            ("a: !!int 1\n", 1, "tags"),
            ("a: 1\n---\nb: 2\n", 2, "several documents"),
            ("? [a]\n: b\n", 1, "a key must be a text"),
            ("a: [b\n", 2, "not YAML"),
        ] {
            let (at, why) = why(text);
            assert!(why.contains(has), "{text:?}: {why}");
            assert!(at.abs_diff(line) <= 1, "{text:?}: line {at}");
        }
        let deep = format!("{}a{}", "[".repeat(20), "]".repeat(20));
        assert!(why(&deep).1.contains("in each other"));
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn values_are_as_they_are_written() {
        let mut map = parse("a: 'null'\nb: 010\nc: \"x # y\"\nd: ~\ne: [f, g]\n")
            .unwrap()
            .map("")
            .unwrap();
        let text = |map: &mut Map, key: &str| map.text(key);
        assert_eq!(text(&mut map, "a").unwrap().unwrap(), "null");
        assert_eq!(text(&mut map, "b").unwrap().unwrap(), "010");
        assert_eq!(text(&mut map, "c").unwrap().unwrap(), "x # y");
        assert_eq!(text(&mut map, "missing").unwrap(), None);
        assert!(text(&mut map, "d").unwrap_err().why.contains("no value"));
        assert_eq!(map.take("e").unwrap().texts("e").unwrap(), ["f", "g"]);
        assert!(map.end(&[]).is_ok());
    }
}
