//! The questions of the API: each is a command, with the flags that a client may choose.

use crate::page::state::Reads;

/// A question: a command and its parameters.
pub struct Endpoint {
    /// Its name in the path.
    pub name: &'static str,
    /// What it answers.
    pub about: &'static str,
    /// The command, with its fixed flags.
    pub command: &'static [&'static str],
    /// Flags that a client may give.
    pub words: &'static [&'static str],
    /// Default values of flags.
    pub usual: &'static [(&'static str, &'static str)],
    /// The form of its answer.
    pub answer: Kind,
}

/// The kind of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JSON with one line for each row, or Arrow.
    Rows,
    /// JSON with one line for each object.
    Objects,
    /// Stacks and their values.
    Stacks,
    /// Windows as they close.
    Live,
}

const ROW_WORDS: &[&str] = &[
    "since", "until", "file", "dir", "mount", "volume", "tenant", "level", "step", "by", "depth",
    "op", "where", "sort", "top", "columns",
];
const WINDOW_WORDS: &[&str] = &[
    "since", "until", "file", "dir", "mount", "volume", "tenant", "level", "step", "by", "depth",
    "op",
];

/// All questions.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "why",
        about: "What was slow, who suffered and what caused it, the moments that lost most time first",
        command: &["why"],
        words: &[
            "since", "until", "file", "dir", "mount", "volume", "tenant", "level",
        ],
        usual: &[],
        answer: Kind::Objects,
    },
    Endpoint {
        name: "series",
        about: "What files, or what else rows stand for, did in each window",
        command: &["query"],
        words: ROW_WORDS,
        usual: &[("step", "auto")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "top",
        about: "The files, or what else rows stand for, whose requests took longest in all, or the first by another order",
        command: &["query", "--step=all"],
        words: &[
            "since", "until", "file", "dir", "mount", "volume", "tenant", "level", "by", "depth",
            "op", "where", "sort", "top", "columns",
        ],
        usual: &[("top", "100")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "heat",
        about: "Latency histograms of each window, for a heat map",
        command: &[
            "query",
            "--columns=time,host,mount,path,read_latency_hist,write_latency_hist",
        ],
        words: WINDOW_WORDS,
        usual: &[("step", "auto"), ("by", "host")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "recorded",
        about: "Which time was recorded, for each host: pieces of time, and how much of each; pieces that overlap add up",
        command: &["query", "--recorded", "--columns=time"],
        words: WINDOW_WORDS,
        usual: &[("step", "auto"), ("by", "host")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "parts",
        about: "The parts of the mean latency in each window: queue, network and server, completion",
        command: &[
            "query",
            "--columns=time,host,mount,path,read_requests,read_latency_us_mean,read_queue_us_mean,read_rtt_us_mean,read_completion_us_mean,write_requests,write_latency_us_mean,write_queue_us_mean,write_rtt_us_mean,write_completion_us_mean",
        ],
        words: WINDOW_WORDS,
        usual: &[("step", "auto"), ("by", "host")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "operations",
        about: "Operations of the NFS protocol, for each mount or as `by` says",
        command: &["query"],
        words: ROW_WORDS,
        usual: &[("step", "all"), ("by", "op")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "flame",
        about: "The tree of directories, with what was done below each",
        command: &["flamegraph", "--folded"],
        words: &[
            "since",
            "until",
            "file",
            "dir",
            "mount",
            "volume",
            "tenant",
            "level",
            "by",
            "direction",
        ],
        usual: &[],
        answer: Kind::Stacks,
    },
    Endpoint {
        name: "files",
        about: "Files: their names, when they were seen, what they moved",
        command: &["files"],
        words: &[
            "since", "until", "file", "dir", "mount", "volume", "tenant", "level", "where", "sort",
            "top", "columns",
        ],
        usual: &[("top", "100")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "requests",
        about: "The slowest requests one by one, where they were kept; by=process adds them up",
        command: &["requests"],
        words: &[
            "since", "until", "file", "dir", "mount", "volume", "tenant", "level", "by", "op",
            "where", "sort", "top", "columns",
        ],
        usual: &[("top", "100")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "stalls",
        about: "When which server did not answer",
        command: &["stalls"],
        words: &["since", "until"],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "marks",
        about: "What people noted about moments",
        command: &["marks"],
        words: &["since", "until"],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "events",
        about: "Marks, stalls, settings of the clock, ends and starts of the recorder, and when tenants began",
        command: &["marks", "--all"],
        words: &["since", "until"],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "mounts",
        about: "What was mounted where, from when to when",
        command: &["mounts"],
        words: &[],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "live",
        about: "Each window as it closes, as server-sent events of its rows; the id of an event is the window's start, and one of type `end` says why no more come",
        command: &["watch", "--windows"],
        words: &[
            "since", "file", "dir", "mount", "volume", "tenant", "level", "step", "by", "depth",
            "op", "where", "sort", "top", "columns",
        ],
        usual: &[],
        answer: Kind::Live,
    },
];

impl Endpoint {
    /// Whether a client may give this parameter.
    pub fn takes(&self, name: &str) -> bool {
        self.parameters().contains(&name)
    }

    /// What its answers depend on, besides windows of the range and marks. Takes the values of the parameters.
    pub fn reads<'v>(&self, mut values: impl Iterator<Item = &'v str>) -> Reads {
        let is_why = self.command[0] == "why";
        Reads {
            requests: is_why || self.command[0] == "requests",
            // Columns, conditions and orders may name lost time.
            before: is_why || values.any(|value| value.contains("lost")),
        }
    }

    /// The parameters that a client may give.
    pub fn parameters(&self) -> Vec<&'static str> {
        let mut names = self.words.to_vec();
        if self.answer == Kind::Rows {
            names.push("format");
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_about_files_take_all_that_chooses_files() {
        for endpoint in ENDPOINTS.iter().filter(|of| of.takes("file")) {
            for name in ["dir", "mount", "volume", "tenant", "level"] {
                assert!(endpoint.takes(name), "{}: {name}", endpoint.name);
            }
        }
    }
}
