//! Imports packet captures.

use std::ops::ControlFlow;
use std::sync::Arc;

use trackiops_capture::{
    Account, Call, Decoder, Packet, Peers, Receiver, Reply, Report, Request, Seen, read_packets,
};

use super::files::Files;
use super::messages::MessageFiles;
use crate::error::ImportError;
use crate::hosts::{Hosts, Target};
use crate::process::{CutShort, Notice, Process};
use crate::source::{Source, must_stop};

/// Imports captures in order of time, and writes their messages to `messages`. Returns the clients, and the account of all packets.
pub fn import(
    sources: &[Source],
    ports: &[u16],
    messages: Option<MessageFiles>,
    target: Target,
    process: &'static dyn Process,
) -> Result<(Hosts<Files>, Report), ImportError> {
    let found = Found {
        hosts: Hosts::new(target, process),
        messages,
    };
    let mut decoder = Decoder::new(found, ports);
    for source in sources {
        read(source, process, &mut decoder)?;
        if process.was_ended() {
            break;
        }
    }
    let (found, report) = decoder.finish();
    let Found {
        mut hosts,
        messages,
    } = found;
    hosts.finish()?;
    match messages {
        // A resumed import writes them again from the beginning.
        Some(messages) if hosts.is_stopped() => messages.discard(),
        Some(messages) => messages.finish()?,
        None => {}
    }
    Ok((hosts, report))
}

/// Receives the requests and messages of a capture.
struct Found {
    hosts: Hosts<Files>,
    messages: Option<MessageFiles>,
}

impl Receiver for Found {
    fn call(&mut self, call: &Arc<Call>, _: Seen, _: bool) {
        if let Some(messages) = &mut self.messages {
            messages.call(call);
        }
    }

    fn reply(&mut self, reply: &Reply, seen: Seen, _: bool) {
        if let Some(messages) = &mut self.messages {
            messages.reply(reply, seen);
        }
    }

    fn request(&mut self, request: Request) {
        if let Some(messages) = &mut self.messages {
            messages.request(&request);
        }
        self.hosts.request(request);
    }

    fn unanswered(&mut self, call: &Arc<Call>) {
        if let Some(messages) = &mut self.messages {
            messages.unanswered(call);
        }
    }

    fn account(&mut self, peers: &Peers, is_from_client: bool, last_ns: i64, more: &Account) {
        self.hosts.account(peers, is_from_client, last_ns, more);
    }
}

fn read(
    source: &Source,
    process: &dyn Process,
    decoder: &mut Decoder<Found>,
) -> Result<(), ImportError> {
    let mut ticked = Ok(());
    let take = |packet: Packet<'_>| {
        if decoder.receiver().hosts.is_due(packet.time_ns) {
            decoder.report_accounts();
        }
        ticked = decoder.receiver().hosts.tick(packet.time_ns);
        if ticked.is_err() {
            return ControlFlow::Break(());
        }
        decoder.packet(&packet);
        ControlFlow::Continue(())
    };
    let end = read_packets(source.open_until_signal(process)?, take, || {
        must_stop(process)
    });
    ticked?;
    let end = match end {
        Err(_) if process.was_ended() => return Ok(()),
        end => end.map_err(|error| ImportError::Capture {
            name: source.name.clone(),
            source: error,
        })?,
    };
    let (untimed, bytes) = end.untimed;
    decoder.untimed(untimed, bytes);
    if let Some(why) = end.damage.filter(|_| !process.was_ended()) {
        process.say(Notice::CaptureCutShort(CutShort {
            name: source.name.clone(),
            why,
            packets: end.packets,
        }));
    }
    Ok(())
}
