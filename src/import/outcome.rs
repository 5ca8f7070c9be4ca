//! Ends an import, whatever its source.

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use trackiops_import::{Hosts, Names};
use trackiops_process::output::{Output, print, say};
use trackiops_process::signals;
use trackiops_query::times::{Zone, show};
use trackiops_render::units::plural;

use crate::exit_status::ExitStatus;

/// How long messages may take after a signal: a terminal may accept none.
const SAYING: Duration = Duration::from_millis(700);

/// Out-of-order input, and advice for the user.
pub struct Backwards<'w> {
    pub number: u64,
    /// The noun for one such item.
    pub what: &'w str,
    pub advice: &'w str,
}

/// Prints the number of requests and hosts, and the account. `host` is the noun for a host. Returns the exit status.
pub fn tell<N: Names + Default + 'static>(
    hosts: &mut Hosts<N>,
    host: &str,
    backwards: &Backwards<'_>,
    account: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    let (requests, transfers) = hosts.counts();
    let status = match requests {
        0 => ExitStatus::Negative,
        _ => ExitStatus::Success,
    };
    if signals::was_asked() {
        thread::spawn(move || {
            thread::sleep(SAYING);
            signals::exit_now(status as u8)
        });
    }
    if backwards.number > 0 {
        let them = plural(backwards.number, backwards.what);
        let advice = backwards.advice;
        let stand = if backwards.number == 1 {
            "stands"
        } else {
            "stand"
        };
        say(format_args!(
            "note: {them} {stand} after later ones; {advice}"
        ));
    }
    let (again, windows) = hosts.again();
    if again > 0 {
        let (hosts, windows) = (plural(again, host), plural(windows, "window"));
        say(format_args!(
            "warning: the store had data of {hosts} for the same time already, and {windows} were added to it; if this was \
             imported before, it counts twice: import it once, into an empty store"
        ));
    }
    let had = hosts.had();
    if had.windows > 0 {
        let windows = plural(had.windows, "window");
        let requests = plural(had.requests, "single request");
        say(format_args!(
            "note: the store had {windows} and {requests} of this import already; they were not added again"
        ));
    }
    if hosts.is_stopped() {
        let until = hosts.now().map_or_else(
            || "its beginning".to_owned(),
            |now| format!("{} UTC", show(now, Zone::utc())),
        );
        say(format_args!(
            "ended by a signal at {until}; the same command goes on with the import, and adds nothing twice"
        ));
    } else if signals::was_asked() && requests > 0 {
        let store = hosts.store().display();
        let until = hosts.kept_until().map_or_else(
            || "then".to_owned(),
            |now| format!("{} UTC", show(now, Zone::utc())),
        );
        say(format_args!(
            "ended by a signal: what was read until {until} is in {store}"
        ));
        if hosts.unwritten() > 0 {
            let hosts = plural(hosts.unwritten(), host);
            say(format_args!(
                "warning: not all later windows of {hosts} were written"
            ));
        }
    } else if signals::was_asked() {
        say("ended by a signal: nothing was imported");
    }
    Output::Stdout.write(|out| {
        let hosts = plural(hosts.clients() as u64, host);
        let requests = plural(requests, "request");
        print(
            format_args!("{requests} of {hosts}, {transfers} READs and WRITEs"),
            2,
            out,
        )?;
        account(out)
    })?;
    if signals::was_asked() {
        // Sealing continues when the store is opened next.
        signals::exit_now(status as u8);
    }
    Ok(status.into())
}
