//! Incidents that are planted into a guest: `why` names cause, moment and files, and nothing where nothing was planted.
//!
//! `make test-guests` plants two of them, `make test-long` all; `TRACKIOPS_TEST_INCIDENTS=NAME,NAME` chooses. `TRACKIOPS_WRITE_DOCS=1`
//! rewrites the table of `docs/results/incidents.md`. `incident.sh` has the incidents.

mod planted;
mod table;

use std::collections::BTreeMap;

use crate::run::{Answer, Run, kernel, long, scripts};
use planted::{DISK, INCIDENTS, Incident};

/// A verdict names begin and end within this time, s.
const WITHIN_S: f64 = 2.0;
/// Least number of incidents to be named, of those with something to name.
const LEAST_NAMED: usize = 10;
/// The incidents of `make test-guests`.
const SAMPLE: [&str; 2] = ["neighbour-disk", "delay"];
const DISK_BYTES: u64 = 512 << 20;

/// An incident, and the verdict about it.
struct Outcome {
    incident: &'static Incident,
    /// Begin and end, s since the epoch.
    planted: [f64; 2],
    /// Moments, those that lost most first.
    moments: Vec<Answer>,
}

impl Outcome {
    fn of(incident: &'static Incident) -> Self {
        let disk = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a disk");
        disk.as_file().set_len(DISK_BYTES).expect("a disk");
        let disk = disk.path().to_str().expect("a path");
        let helper = scripts().join("incident.py").display().to_string();
        let mut flags = vec!["--timeout", "400", "--add", helper.as_str()];
        match incident.victim_at {
            DISK => flags.extend(["--no-nfs", "--disk", disk]),
            _ => flags.extend(["--deb", "dmsetup"]),
        }
        let run = Run::on(&kernel(), "incident", &flags, &[incident.name]);
        let times: BTreeMap<String, f64> = run.text("times").lines().map(time).collect();
        let moments = run.why();
        for moment in &moments {
            println!("{}: {}", incident.name, text(moment, "text"));
        }
        Self {
            incident,
            planted: ["begin", "end"].map(|name| times[name]),
            moments,
        }
    }

    /// How much later than the incident a moment begins and ends, s.
    fn off_s(&self, moment: &Answer) -> [f64; 2] {
        let [since, until] = ["since", "until"].map(|end| {
            let time = chrono::DateTime::parse_from_rfc3339(text(moment, end)).expect("a time");
            time.timestamp_millis() as f64 / 1000.0
        });
        [since - self.planted[0], until - self.planted[1]]
    }

    /// What the first moment lacks.
    fn lacks(&self) -> Vec<String> {
        let incident = self.incident;
        let Some(first) = self.moments.first() else {
            return match incident.causes {
                [] => Vec::new(),
                _ => vec!["a moment".to_owned()],
            };
        };
        let [begin, end] = self.off_s(first);
        let begins_by = incident.grows_s + WITHIN_S;
        let culprit = culprit(first);
        let victims = victims(first);
        let lacks = [
            ("the cause", incident.causes.contains(&text(first, "cause"))),
            ("the begin", (-WITHIN_S..=begins_by).contains(&begin)),
            ("the end", end.abs() <= WITHIN_S),
            (
                "who did it",
                incident
                    .culprit
                    .is_none_or(|name| culprit.starts_with(name)),
            ),
            ("who suffered", victims.contains(&incident.victim)),
        ];
        let lacks = lacks.into_iter().filter(|(_, is_named)| !is_named);
        lacks.map(|(what, _)| what.to_owned()).collect()
    }

    /// Moments with a cause that is certain, and not the planted one.
    fn surely_wrong(&self) -> impl Iterator<Item = &Answer> {
        self.moments.iter().filter(move |moment| {
            text(moment, "confidence") == "high"
                && !self.incident.causes.contains(&text(moment, "cause"))
        })
    }
}

/// A line of the script's `times`.
fn time(line: &str) -> (String, f64) {
    let (at, what) = line.split_once('\t').expect("a time and a tab");
    (what.to_owned(), at.parse().expect("a time"))
}

fn text<'m>(moment: &'m Answer, key: &str) -> &'m str {
    moment[key].as_str().expect("a text")
}

/// Whose load a moment blames.
fn culprit(moment: &Answer) -> &str {
    moment["load"]["name"].as_str().unwrap_or_default()
}

/// Paths of the files that lost time.
fn victims(moment: &Answer) -> Vec<&str> {
    let victims = moment["victims"].as_array().expect("victims").iter();
    victims.filter_map(|of| of["path"].as_str()).collect()
}

/// The incidents of this run.
fn chosen() -> Vec<&'static Incident> {
    let names = std::env::var("TRACKIOPS_TEST_INCIDENTS").ok();
    let is_chosen = |of: &&Incident| match &names {
        Some(names) => names.split(',').any(|name| name == of.name),
        None => long() || SAMPLE.contains(&of.name),
    };
    INCIDENTS.iter().filter(is_chosen).collect()
}

#[test]
#[ignore = "boots guests: make test-guests"]
fn guest_why_names_what_was_planted() {
    let outcomes: Vec<Outcome> = chosen().into_iter().map(Outcome::of).collect();
    let table = table::table(&outcomes);
    print!("{table}");
    let is_complete = outcomes.len() == INCIDENTS.len();
    if is_complete && std::env::var_os("TRACKIOPS_WRITE_DOCS").is_some() {
        table::write_docs(&table);
    }
    for outcome in &outcomes {
        let wrong: Vec<_> = outcome.surely_wrong().collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", outcome.incident.name);
        let is_nothing = outcome.incident.causes.is_empty();
        assert!(!is_nothing || outcome.lacks().is_empty(), "{table}");
    }
    let (named, all) = outcomes
        .iter()
        .filter(|of| !of.incident.causes.is_empty())
        .fold((0, 0), |(named, all), of| {
            (named + usize::from(of.lacks().is_empty()), all + 1)
        });
    let least = if is_complete { LEAST_NAMED } else { all };
    assert!(named >= least, "{named} of {all} were named:\n{table}");
}
