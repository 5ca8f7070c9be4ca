//! Events of a report, which its page draws as vertical lines.

use serde::Serialize;
use trackiops_query::{Event, EventKind};

use crate::pseudonym::{Pseudonyms, Unknown};

/// Most events of a report, and most characters of a text: a picture cannot show more, and the report is bounded.
const MOST: usize = 2000;
const MOST_CHARS: usize = 200;

/// Events by time, ms since 1970.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventColumns {
    time: Vec<i64>,
    kind: Vec<&'static str>,
    text: Vec<String>,
}

impl EventColumns {
    /// The first events, with their hosts if there are several. `with` replaces names.
    pub fn new(
        events: &[Event],
        has_several_hosts: bool,
        mut with: Option<&mut Pseudonyms>,
    ) -> Result<Self, Unknown> {
        let mut columns = Self::default();
        for event in events {
            if columns.time.len() == MOST {
                break;
            }
            let (text, host) = match with.as_deref_mut() {
                None => (event.text.clone(), event.host.clone()),
                Some(with) => match nameless(event) {
                    Some(text) => (text, with.word(&event.host)?),
                    None => continue,
                },
            };
            let text = match has_several_hosts {
                true => format!("{text} on {host}"),
                false => text,
            };
            columns.time.push(event.time.0);
            columns.kind.push(event.kind.as_str());
            columns.text.push(text.chars().take(MOST_CHARS).collect());
        }
        Ok(columns)
    }
}

/// The text without names. `None` for a mark, which may contain any name.
fn nameless(event: &Event) -> Option<String> {
    match event.kind {
        EventKind::Mark => None,
        EventKind::Stall => Some("a server does not answer".to_owned()),
        EventKind::StallEnd => Some("a server answers again".to_owned()),
        // Its text has the share behind the name.
        EventKind::TenantStart => {
            let share = event.text.rsplit_once(": ").map(|(_, share)| share);
            Some(format!("a tenant begins: {}", share.unwrap_or_default()))
        }
        EventKind::ClockStep
        | EventKind::RecorderEnded
        | EventKind::RecorderStarted
        | EventKind::RecorderRestarted => Some(event.text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::time::UtcMs;

    use crate::pseudonym::{Key, Way};

    fn event(kind: EventKind, text: &str) -> Event {
        Event {
            time: UtcMs(1000),
            host: "web-1".to_owned(),
            kind,
            text: text.to_owned(),
        }
    }

    fn texts(events: &[Event], has_several_hosts: bool, key: Option<&Key>) -> Vec<String> {
        let mut with = key.map(|key| Pseudonyms::new(key, Way::Hide));
        let columns = EventColumns::new(events, has_several_hosts, with.as_mut());
        columns.unwrap().text
    }

    #[test]
    fn pseudonyms_leave_no_name() {
        let events = [
            event(EventKind::Mark, "orders.db is slow"),
            event(EventKind::Stall, "10.0.0.5 (nas:/db) does not answer"),
            event(EventKind::StallEnd, "10.0.0.5 (nas:/db) answers again"),
            event(EventKind::TenantStart, "db: :/db begins: 96 % of all bytes"),
            event(EventKind::ClockStep, "the clock was set"),
        ];
        assert_eq!(texts(&events, false, None)[0], "orders.db is slow");
        let key = Key::new(&[7; Key::BYTES]);
        assert_eq!(
            texts(&events, false, Some(&key)),
            [
                "a server does not answer",
                "a server answers again",
                "a tenant begins: 96 % of all bytes",
                "the clock was set",
            ]
        );
    }

    #[test]
    fn a_host_is_named_among_several() {
        let events = [event(EventKind::ClockStep, "the clock was set")];
        let several = texts(&events, true, None);
        assert_eq!(several, ["the clock was set on web-1"]);
        let key = Key::new(&[7; Key::BYTES]);
        let hidden = texts(&events, true, Some(&key));
        assert!(
            hidden[0].starts_with("the clock was set on ") && !hidden[0].contains("web-1"),
            "{hidden:?}"
        );
    }

    #[test]
    fn long_texts_and_many_events_are_cut() {
        let mut events = vec![event(EventKind::Mark, &"é".repeat(4096)); MOST + 1];
        events.push(event(EventKind::ClockStep, "the clock was set"));
        let found = texts(&events, false, None);
        assert_eq!(found.len(), MOST);
        assert_eq!(found[0].chars().count(), MOST_CHARS);
        // Marks that are left out take no room.
        let key = Key::new(&[7; Key::BYTES]);
        let hidden = texts(&events, false, Some(&key));
        assert_eq!(hidden, ["the clock was set"]);
    }
}
