//! Compares an answer with an earlier one. What was there must be the same; what is there besides may be anything.

use serde_json::{Number, Value};

/// Members that are for people, or differ from build to build. Of these, only the type stays.
const FREE: [&str; 5] = ["error", "notes", "stores", "text", "version"];

/// The form of an answer.
#[derive(Clone, Copy)]
pub enum Form {
    /// JSON, an object on each line.
    Objects,
    /// JSON, one value on all lines.
    Document,
    /// With a header.
    Csv,
    /// Lines that stay as they are.
    Text,
    /// An exit status alone.
    Status,
}

/// What an answer lacks of an earlier one. Both are lines after `> `, and a status after `= `.
pub fn missing(form: Form, then: &str, now: &str) -> Option<String> {
    let [(status_then, then), (status_now, now)] = [then, now].map(parts);
    if status_then != status_now {
        return Some(format!("the status was {status_then} and is {status_now}"));
    }
    match form {
        Form::Objects => {
            let [then, now] = [then, now].map(|text| text.lines().map(parsed).collect());
            of_json("row", &Value::Array(then), &Value::Array(now))
        }
        Form::Document => of_json("answer", &parsed(&then), &parsed(&now)),
        Form::Csv => of_csv(&records(&then), &records(&now)),
        Form::Text => (then != now).then(|| format!("was\n{then}and is\n{now}")),
        Form::Status => None,
    }
}

/// Status and text.
fn parts(answer: &str) -> (&str, String) {
    let (mut status, mut text) = ("", String::new());
    for line in answer.lines() {
        match line.strip_prefix("= ") {
            Some(of) => status = of,
            None => {
                text += line.strip_prefix("> ").unwrap_or_default();
                text.push('\n');
            }
        }
    }
    (status, text)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn of_json(place: &str, then: &Value, now: &Value) -> Option<String> {
    let differs = || Some(format!("{place} was {then} and is {now}"));
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => then.iter().find_map(|(name, then)| {
            let place = format!("{place}.{name}");
            match now.get(name) {
                None => Some(format!("{place} is gone")),
                Some(now) if FREE.contains(&name.as_str()) => {
                    let is_same = std::mem::discriminant(then) == std::mem::discriminant(now);
                    (!is_same).then(|| format!("{place} was {then} and is {now}"))
                }
                Some(now) => of_json(&place, then, now),
            }
        }),
        (Value::Array(then), Value::Array(now)) => match then.len() == now.len() {
            true => {
                let mut pairs = then.iter().zip(now).enumerate();
                pairs.find_map(|(i, (then, now))| of_json(&format!("{place}[{i}]"), then, now))
            }
            false => differs(),
        },
        (Value::Number(then), Value::Number(now)) if is_close(then, now) => None,
        _ if then == now => None,
        _ => differs(),
    }
}

/// Whether two fractions differ by rounding alone: sums depend on their order, and logarithms on the C library.
fn is_close(then: &Number, now: &Number) -> bool {
    let fraction = |of: &Number| of.as_f64().filter(|_| of.is_f64());
    match (fraction(then), fraction(now)) {
        (Some(then), Some(now)) => (then - now).abs() <= 1e-9 * then.abs().max(now.abs()),
        _ => false,
    }
}

fn records(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).from_reader(text.as_bytes());
    let records = reader.records();
    records
        .map(|record| record.unwrap().iter().map(str::to_owned).collect())
        .collect()
}

fn of_csv(then: &[Vec<String>], now: &[Vec<String>]) -> Option<String> {
    if then.len() != now.len() {
        return Some(format!(
            "there were {} lines and are {}",
            then.len(),
            now.len()
        ));
    }
    let head = then.first()?;
    head.iter().enumerate().find_map(|(place, column)| {
        let Some(at) = now[0].iter().position(|of| of == column) else {
            return Some(format!("the column {column} is gone"));
        };
        let mut rows = then.iter().zip(now);
        let (then, now) = rows.find(|(then, now)| then[place] != now[at])?;
        let (then, now) = (&then[place], &now[at]);
        Some(format!("{column} was `{then}` and is `{now}`"))
    })
}

#[test]
fn an_answer_may_have_more_and_nothing_else() {
    let json = |text: &str| format!("> {text}\n= 0\n");
    let then = json(r#"{"a":1,"b":[{"c":"x"}],"d":0.3,"text":"slow"}"#);
    let lacks = |now: &str| missing(Form::Objects, &then, &json(now));
    for same in [
        r#"{"a":1,"b":[{"c":"x"}],"d":0.3,"text":"slow"}"#,
        r#"{"text":"very slow","new":0,"d":0.30000000000000004,"b":[{"new":0,"c":"x"}],"a":1}"#,
    ] {
        assert_eq!(lacks(same), None, "{same}");
    }
    for (other, why) in [
        (r#"{"b":[{"c":"x"}],"d":0.3,"text":""}"#, "row[0].a is gone"),
        (
            r#"{"a":1.0,"b":[{"c":"x"}],"d":0.3,"text":""}"#,
            "row[0].a was 1 and is 1.0",
        ),
        (
            r#"{"a":1,"b":[{"c":1}],"d":0.3,"text":""}"#,
            "row[0].b[0].c was \"x\" and is 1",
        ),
        (r#"{"a":1,"b":[],"d":0.3,"text":""}"#, "row[0].b was"),
        (
            r#"{"a":1,"b":[{"c":"x"}],"d":0.300001,"text":""}"#,
            "row[0].d was 0.3 and is 0.300001",
        ),
        (
            r#"{"a":1,"b":[{"c":"x"}],"d":0.3,"text":null}"#,
            "row[0].text was",
        ),
    ] {
        let said = lacks(other).unwrap();
        assert!(said.starts_with(why), "{other}: {said}");
    }
    let csv = "> a,b\n> 1,2\n= 0\n";
    let lacks = |now: &str| missing(Form::Csv, csv, now);
    assert_eq!(lacks("> b,new,a\n> 2,0,1\n= 0\n"), None);
    assert_eq!(lacks("> a\n> 1\n= 0\n").unwrap(), "the column b is gone");
    assert_eq!(
        lacks("> a,b\n> 1,3\n= 0\n").unwrap(),
        "b was `2` and is `3`"
    );
    assert_eq!(
        lacks("> a,b\n= 0\n").unwrap(),
        "there were 2 lines and are 1"
    );
    assert_eq!(
        lacks("> a,b\n> 1,2\n= 3\n").unwrap(),
        "the status was 0 and is 3"
    );
}
