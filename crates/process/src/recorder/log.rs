//! Reports of a running recorder: to stderr, or to systemd's journal with a level and fields.

use std::env;
use std::fmt::Display;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::LazyLock;

use rustix::fs::fstat;
use trackiops_render::visible::visible;

use crate::output::say;

/// Socket on which journald accepts entries with fields (systemd.journal-fields(7)).
const SOCKET: &str = "/run/systemd/journal/socket";

/// `None` unless stderr is connected to the journal.
static JOURNAL: LazyLock<Option<UnixDatagram>> = LazyLock::new(|| {
    let stderr = fstat(io::stderr()).ok()?;
    let is_journal =
        env::var("JOURNAL_STREAM").ok()? == format!("{}:{}", stderr.st_dev, stderr.st_ino);
    let socket = UnixDatagram::unbound().ok().filter(|_| is_journal)?;
    // A journal that is not read must not block the recorder.
    socket.set_nonblocking(true).ok()?;
    socket.connect(SOCKET).ok()?;
    Some(socket)
});

/// Urgency of a report, in syslog's numbers.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Data were lost or not recorded.
    Error = 3,
    /// The user should check something.
    Warning = 4,
    /// Something has changed.
    Notice = 5,
}

/// Reports an event. `fields` are for the journal only; the text says the same.
pub fn report(level: Level, event: &str, fields: &[(&str, String)], text: impl Display) {
    let sent = JOURNAL.as_ref().is_some_and(|journal| {
        let entry = entry(level, event, fields, &text.to_string());
        journal.send(entry.as_bytes()).is_ok()
    });
    // If the entry is too long, or a full queue rejects it, write a line instead.
    if !sent {
        say(text);
    }
}

/// Encodes an entry for journald: one field per line.
fn entry(level: Level, event: &str, fields: &[(&str, String)], text: &str) -> String {
    let level = (level as u8).to_string();
    let own = [
        ("MESSAGE", text),
        ("PRIORITY", &level),
        ("SYSLOG_IDENTIFIER", "trackiops"),
        ("TRACKIOPS_EVENT", event),
    ];
    let fields = fields.iter().map(|(name, value)| (*name, value.as_str()));
    let line = |(name, value)| format!("{name}={}\n", visible(value));
    own.into_iter().chain(fields).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_begins_a_field_of_its_own() {
        let fields = [("TRACKIOPS_MOUNTS", "nas:/a\nPRIORITY=0".to_owned())];
        let entry = entry(Level::Warning, "stall", &fields, "nas\u{7} STALLED");
        let expected = [
            "MESSAGE=nas\\u{7} STALLED",
            "PRIORITY=4",
            "SYSLOG_IDENTIFIER=trackiops",
            "TRACKIOPS_EVENT=stall",
            "TRACKIOPS_MOUNTS=nas:/a\\u{a}PRIORITY=0",
        ];
        assert_eq!(entry.lines().collect::<Vec<_>>(), expected);
    }
}
