//! Derives events from the messages of a recorder.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use serde_json::{Map, Value, json};
use trackiops_query::coverage::stalls::stalled;
use trackiops_query::times::Zone;
use trackiops_render::units::{self, plural};
use trackiops_render::why::{object, sentences};
use trackiops_reports::why::Moment;
use trackiops_store::live::{Hello, Stalled, Status};

/// Kinds of events, and their meanings.
pub const KINDS: [(&str, &str); 13] = [
    ("stall", "a server does not answer"),
    ("stall-end", "nothing waits for it any more"),
    ("slow", "requests take longer than usual, or fail"),
    ("slow-end", "they do not any more"),
    ("alert", "a row matches --where, for --for windows in a row"),
    ("alert-end", "it does not match any more"),
    ("lost", "requests were lost"),
    (
        "audit",
        "rows and the kernel's counters differ for no known reason",
    ),
    ("store-failing", "the store cannot be written"),
    ("store-written", "it is written again"),
    ("budget", "the store has used 90 % of --store-size"),
    ("recorder-ended", "the recorder has ended, or was killed"),
    ("recorder-started", "another one has begun"),
];

/// Percentages of a store's room: above the first it is nearly used, and below the second no longer.
const NEARLY_USED: (u64, u64) = (90, 80);

/// Something that has happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// One of [`KINDS`].
    pub kind: &'static str,
    /// Its subject: a server, a row, or nothing.
    pub subject: String,
    /// A line for people.
    pub text: String,
    /// The same for programs.
    pub fields: Map<String, Value>,
}

impl Event {
    fn new(kind: &'static str, subject: impl Into<String>, text: String, fields: Value) -> Self {
        Self {
            kind,
            subject: subject.into(),
            text,
            fields: match fields {
                Value::Object(fields) => fields,
                _ => Map::new(),
            },
        }
    }
}

/// The last known state of a recording.
#[derive(Debug, Default)]
pub struct Events {
    /// Number of consecutive windows in which a row must match.
    windows: u32,
    has_begun: bool,
    has_ended: bool,
    stalled: BTreeMap<String, Stalled>,
    /// Counts of lost requests and of audit alarms.
    counts: Option<(u64, u64)>,
    store_error: Option<String>,
    /// Matching rows, and in how many windows they matched.
    matching: BTreeMap<String, u32>,
    is_nearly_used: bool,
    /// Mounts and devices that are slow.
    slow: BTreeSet<String>,
}

impl Events {
    /// Events of a recording. A row must match in this number of consecutive windows.
    pub fn new(windows: u32) -> Self {
        Self {
            windows,
            ..Self::default()
        }
    }

    /// A recorder answers.
    pub fn began(&mut self, hello: &Hello) -> Option<Event> {
        // Its counts start again.
        self.counts = None;
        let is_another = mem::replace(&mut self.has_begun, true) && mem::take(&mut self.has_ended);
        let recorder = &hello.recorder;
        is_another.then(|| {
            Event::new(
                "recorder-started",
                "",
                format!("recorder {} has begun", recorder.pid),
                json!({"pid": recorder.pid, "version": recorder.version}),
            )
        })
    }

    /// The recorder has ended, `well` or without a message.
    pub fn ended(&mut self, well: bool) -> Event {
        self.has_ended = true;
        let how = if well { "" } else { " without a word" };
        Event::new(
            "recorder-ended",
            "",
            format!("the recorder has ended{how}"),
            json!({"well": well}),
        )
    }

    /// Derives events from the status of each second. `room` is the room of the store, bytes.
    pub fn status(&mut self, status: &Status, room: Option<u64>) -> Vec<Event> {
        let mut events = self.stalls(&status.stalled);
        if let (Some(bytes), Some(room)) = (status.store_bytes, room) {
            events.extend(self.budget(bytes, room));
        }
        let health = &status.total.health;
        let counts = (health.lost, health.audit_alarms);
        if let Some((lost, alarms)) = self.counts.replace(counts) {
            let lost = counts.0.saturating_sub(lost);
            if lost > 0 {
                let text = format!("{} lost", plural(lost, "request"));
                events.push(Event::new("lost", "", text, json!({"requests": lost})));
            }
            if counts.1 > alarms {
                let text = "rows and the kernel's counters differ for no known reason".to_owned();
                events.push(Event::new("audit", "", text, json!({})));
            }
        }
        let before = mem::replace(&mut self.store_error, status.store_error.clone());
        match (before, &self.store_error) {
            (None, Some(error)) => events.push(Event::new(
                "store-failing",
                "",
                error.clone(),
                json!({"error": error, "waiting": status.waiting}),
            )),
            (Some(_), None) => events.push(Event::new(
                "store-written",
                "",
                "the store is written again".to_owned(),
                json!({}),
            )),
            _ => {}
        }
        events
    }

    fn stalls(&mut self, now: &[Stalled]) -> Vec<Event> {
        let name = |server: &Stalled| server.server.clone().unwrap_or_default();
        let now = now.iter().map(|server| (name(server), server.clone()));
        let before = mem::replace(&mut self.stalled, now.collect());
        let event = |kind, server: &Stalled, text: String| {
            let of = server.server.as_deref().unwrap_or("a server");
            Event::new(
                kind,
                server.server.as_deref().unwrap_or_default(),
                format!("{of} {text}"),
                json!({
                    "server": server.server,
                    "mounts": server.mounts,
                    "requests": server.requests,
                    "age_ms": server.age_ms,
                }),
            )
        };
        let new = self.stalled.iter();
        let new = new.filter(|(name, _)| !before.contains_key(*name));
        let begun = new.map(|(_, server)| event("stall", server, stalled(server.age_ms)));
        let over = before.iter();
        let over = over.filter(|(name, _)| !self.stalled.contains_key(*name));
        let ended =
            over.map(|(_, server)| event("stall-end", server, "no longer stalled".to_owned()));
        begun.chain(ended).collect()
    }

    /// Derives events from the matching rows of a window, by their names.
    pub fn rows(&mut self, rows: &BTreeMap<String, Value>) -> Vec<Event> {
        let mut events = Vec::new();
        let gone: BTreeSet<_> = self
            .matching
            .keys()
            .filter(|name| !rows.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            if self
                .matching
                .remove(&name)
                .is_some_and(|windows| windows >= self.windows)
            {
                let text = format!("{name} does not match any more");
                events.push(Event::new("alert-end", name, text, json!({})));
            }
        }
        for (name, row) in rows {
            let windows = self.matching.entry(name.clone()).or_default();
            *windows = windows.saturating_add(1);
            if *windows == self.windows {
                let text = match self.windows {
                    1 => format!("{name} matches"),
                    n => format!("{name} matches in {n} windows in a row"),
                };
                events.push(Event::new("alert", name.clone(), text, json!({"row": row})));
            }
        }
        events
    }

    /// Derives events from the moments that are slow now.
    pub fn slow(&mut self, moments: &[Moment], zone: Zone) -> Vec<Event> {
        let name = |of: &Moment| of.mounts.join(", ");
        let now: BTreeSet<_> = moments.iter().map(name).collect();
        let before = mem::take(&mut self.slow);
        let new = moments.iter().filter(|of| !before.contains(&name(of)));
        let mut seen = BTreeSet::new();
        let new = new.filter(|of| seen.insert(name(of)));
        let mut events: Vec<_> = new
            .map(|of| Event::new("slow", name(of), sentences(of, zone), object(of)))
            .collect();
        let over = before.iter().filter(|name| !now.contains(*name));
        events.extend(over.map(|name| {
            let text = format!("{name} is as fast as usual again");
            Event::new("slow-end", name.clone(), text, json!({"mounts": name}))
        }));
        self.slow = now;
        events
    }

    /// Derives an event from the store's share of its room.
    fn budget(&mut self, bytes: u64, room: u64) -> Option<Event> {
        let percent = bytes.saturating_mul(100) / room.max(1);
        if percent < NEARLY_USED.1 {
            self.is_nearly_used = false;
        }
        let is_new = percent >= NEARLY_USED.0 && !mem::replace(&mut self.is_nearly_used, true);
        is_new.then(|| {
            let text = format!(
                "the store has used {} of {}: then the oldest of the shortest windows are deleted",
                units::bytes(bytes),
                units::bytes(room)
            );
            Event::new("budget", "", text, json!({"bytes": bytes, "size": room}))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(events: &[Event]) -> Vec<(&str, &str)> {
        events
            .iter()
            .map(|event| (event.kind, &*event.subject))
            .collect()
    }

    #[test]
    fn a_stall_is_told_when_it_begins_and_when_it_is_over() {
        let mut events = Events::new(1);
        let mut status = Status::default();
        assert_eq!(events.status(&status, Some(1000)), []);
        status.stalled.push(Stalled {
            server: Some("10.0.0.5".to_owned()),
            mounts: vec!["nas:/a".to_owned()],
            requests: 3,
            age_ms: 1400,
        });
        let told = events.status(&status, Some(1000));
        assert_eq!(kinds(&told), [("stall", "10.0.0.5")]);
        assert_eq!(told[0].text, "10.0.0.5 STALLED 1 s");
        assert_eq!(told[0].fields["requests"], 3);
        assert_eq!(events.status(&status, Some(1000)), [], "it goes on");
        status.stalled.clear();
        assert_eq!(
            kinds(&events.status(&status, Some(1000))),
            [("stall-end", "10.0.0.5")]
        );
    }

    #[test]
    fn counts_are_told_when_they_grow_and_not_when_they_begin_again() {
        let mut events = Events::new(1);
        let mut status = Status::default();
        status.total.health.lost = 7;
        assert_eq!(events.status(&status, Some(1000)), [], "lost before");
        status.total.health.lost = 9;
        status.total.health.audit_alarms = 1;
        let told = events.status(&status, Some(1000));
        assert_eq!(kinds(&told), [("lost", ""), ("audit", "")]);
        assert_eq!(told[0].fields["requests"], 2);
        status.store_error = Some("no space".to_owned());
        assert_eq!(
            kinds(&events.status(&status, Some(1000))),
            [("store-failing", "")]
        );
        status.store_error = None;
        assert_eq!(
            kinds(&events.status(&status, Some(1000))),
            [("store-written", "")]
        );
        status.total.health.lost = 1;
        assert_eq!(events.status(&status, Some(1000)), []);
    }

    #[test]
    fn a_store_that_fills_is_told_once() {
        let mut events = Events::new(1);
        let mut at = |bytes| {
            let status = Status {
                store_bytes: Some(bytes),
                ..Status::default()
            };
            events.status(&status, Some(1000)).len()
        };
        let steps = [899, 900, 1000, 850, 950, 799, 950];
        assert_eq!(steps.map(&mut at), [0, 1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_row_must_match_for_as_many_windows_and_is_told_once() {
        let mut events = Events::new(2);
        let slow = BTreeMap::from([("nas:/a".to_owned(), json!({"read_p99": 9}))]);
        let none = BTreeMap::new();
        assert_eq!(events.rows(&slow), []);
        assert_eq!(
            events.rows(&none),
            [],
            "once is not enough, and no end of anything"
        );
        assert_eq!(events.rows(&slow), []);
        let told = events.rows(&slow);
        assert_eq!(kinds(&told), [("alert", "nas:/a")]);
        assert_eq!(told[0].fields["row"]["read_p99"], 9);
        assert_eq!(events.rows(&slow), []);
        assert_eq!(kinds(&events.rows(&none)), [("alert-end", "nas:/a")]);
    }
}
