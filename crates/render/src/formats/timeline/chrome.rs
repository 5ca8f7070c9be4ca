//! Trace events in JSON, as defined by Chrome.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use trackiops_query::times::rfc3339;
use trackiops_schemas::time::UtcMs;

use super::{Argument, Arrow, Events, Place, Slice};

const DAY_NS: i64 = 86_400_000_000_000;

/// A file of trace events.
pub struct TraceEvents<W> {
    out: W,
    /// Whether an event was written.
    has_events: bool,
    /// Origin of all times, ns since the epoch: numbers in JSON cannot hold nanoseconds since the epoch.
    begin_ns: Option<i64>,
}

impl<W: Write> TraceEvents<W> {
    /// Starts a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self {
            out,
            has_events: false,
            begin_ns: None,
        })
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let separator: &[u8] = if self.has_events { b",\n" } else { b"\n" };
        self.has_events = true;
        self.out.write_all(separator)?;
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    /// Completes the file.
    pub fn finish(mut self) -> io::Result<W> {
        let mut about = Map::new();
        about.insert("writer".to_owned(), json!("trackiops"));
        if let Some(begin_ns) = self.begin_ns {
            let begin = UtcMs(begin_ns.div_euclid(1_000_000));
            about.insert("times_count_from".to_owned(), json!(rfc3339(begin)));
        }
        write!(self.out, "\n],\"otherData\":{}}}\n", Value::Object(about))?;
        Ok(self.out)
    }
}

impl<W: Write> Events for TraceEvents<W> {
    fn process(&mut self, number: u64, name: &str) -> io::Result<()> {
        let arguments = json!({"name": name});
        self.event(&json!({"ph": "M", "name": "process_name", "pid": number, "args": arguments}))
    }

    fn track(&mut self, process: u64, number: u64, name: &str) -> io::Result<()> {
        self.event(&json!({
            "ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": name},
        }))
    }

    fn slice(&mut self, place: Place, slice: &Slice<'_>) -> io::Result<()> {
        let begin_ns = *self
            .begin_ns
            // A request that comes later may have begun before the first one ended.
            .get_or_insert_with(|| (slice.start_ns.div_euclid(DAY_NS) - 1) * DAY_NS);
        let mut event = json!({
            "name": slice.name, "cat": slice.category, "pid": place.process, "tid": place.track,
            "ts": us(slice.start_ns - begin_ns), "args": arguments(slice),
        });
        match slice.length_ns {
            Some(length_ns) => {
                event["ph"] = json!("X");
                event["dur"] = us(length_ns);
            }
            None => {
                event["ph"] = json!("i");
                event["s"] = json!("t");
            }
        }
        self.event(&event)?;
        for Arrow {
            number,
            from,
            at_ns,
        } in &slice.arrows
        {
            let mut arrow = json!({
                "ph": "s", "name": "for", "cat": "call", "id": number, "pid": from.process, "tid": from.track,
                "ts": us(at_ns - begin_ns),
            });
            self.event(&arrow)?;
            arrow["ph"] = json!("f");
            arrow["bp"] = json!("e");
            arrow["pid"] = json!(place.process);
            arrow["tid"] = json!(place.track);
            arrow["ts"] = us(slice.start_ns - begin_ns);
            self.event(&arrow)?;
        }
        let mut parts = slice.parts.iter();
        parts.try_for_each(|part| self.slice(place, part))
    }
}

/// Trace events use microseconds.
fn us(ns: i64) -> Value {
    json!(ns as f64 / 1000.0)
}

fn arguments(slice: &Slice<'_>) -> Value {
    let arguments = slice.arguments.iter().map(|(name, argument)| {
        let value = match argument {
            Argument::Text(text) => json!(text),
            Argument::Number(number) => json!(number),
            Argument::Flag(flag) => json!(flag),
        };
        ((*name).to_owned(), value)
    });
    Value::Object(arguments.collect())
}
