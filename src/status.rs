//! `trackiops status`: shows the state of a running recorder.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use trackiops_live::StatusReport;
use trackiops_process::output::{Output, print, print_json};
use trackiops_store::live::{Message, Subscription};

use crate::exit_status::ExitStatus;
use crate::live_socket::SocketFlag;
use crate::report_flags::ReportFlags;

/// The recorder answers at once, even if its disk is slow.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `trackiops status` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    socket: SocketFlag,
    #[command(flatten)]
    form: ReportFlags,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut subscription = Subscription::connect(args.socket.path())?;
    let mut mounts = Vec::new();
    let status = loop {
        match subscription.next(PATIENCE)? {
            Some(Message::Mounts(there)) => mounts = there,
            Some(Message::Status(status)) => break *status,
            Some(Message::End) => bail!("the recorder is about to end"),
            Some(_) => {}
            None => bail!("the recorder does not answer: it may be stopped; see its log"),
        }
    };
    let recorder = subscription.hello().recorder.clone();
    let report = StatusReport::new(recorder, status, mounts);
    Output::Stdout.write(|out| {
        if args.form.is_json() {
            return print_json(&report.json(), out);
        }
        let mut lines = report.lines().into_iter();
        lines.try_for_each(|(name, text)| print(format_args!("{name:<12}{text}"), 12, out))
    })?;
    Ok(match report.complaints().is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitStatus::Negative.into(),
    })
}
