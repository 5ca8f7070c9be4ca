//! Stalled servers: from when they stop answering until no request waits for them.

pub(crate) mod lookout;
pub(crate) mod pending;
pub(crate) mod rpc_tasks;

use std::collections::BTreeMap;
use std::mem;

use trackiops_schemas::pending::{Pending, StalledServer};

/// A change of a server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallChange {
    /// A request has waited too long for it.
    Stalled,
    /// No request waits that long any more: the server has answered, or the waiting process has given up (a
    /// `soft` mount, a kill). The lists do not show which.
    Over,
}

/// A server whose stall begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Which of the two.
    pub change: StallChange,
    /// The server, with the requests that wait for it, or the most that waited.
    pub server: StalledServer,
}

/// The servers that are stalled now, by address.
#[derive(Default)]
pub struct Stalls {
    servers: BTreeMap<Option<String>, StalledServer>,
}

impl Stalls {
    /// Takes over the result of a look, and calls `told` for each change.
    pub fn follow(&mut self, pending: &Pending, told: &mut impl FnMut(&Stall)) {
        let mut before = mem::take(&mut self.servers);
        for mut server in pending.stalled() {
            match before.remove(&server.address) {
                Some(known) => server.merge(&known),
                None => told(&Stall {
                    change: StallChange::Stalled,
                    server: server.clone(),
                }),
            }
            self.servers.insert(server.address.clone(), server);
        }
        for server in before.into_values() {
            let change = StallChange::Over;
            told(&Stall { change, server });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::pending::PendingClient;

    #[test]
    fn a_stall_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let client = |client, server: &str, requests_max, age_ms_max| PendingClient {
            client,
            server: Some(server.to_owned()),
            mounts: vec![format!("{server}:/{client}")],
            requests_max,
            age_ms_max,
        };
        let mut stalls = Stalls::default();
        let mut told = Vec::new();
        for clients in [
            vec![client(1, "a", 5, 900)],
            vec![client(1, "a", 5, 1400), client(2, "a", 1, 1000)],
            vec![client(1, "a", 9, 1900), client(3, "b", 2, 1000)],
            vec![client(1, "a", 1, 400), client(3, "b", 2, 1500)],
            vec![],
        ] {
            let pending = Pending {
                clients,
                ..Pending::default()
            };
            told.push(Vec::new());
            let last = told.last_mut().unwrap();
            stalls.follow(&pending, &mut |stall| {
                let server = &stall.server;
                let address = server.address.clone().unwrap();
                last.push((
                    stall.change,
                    address,
                    server.requests_max,
                    server.age_ms_max,
                ));
            });
        }
        let (a, b) = (|| "a".to_owned(), || "b".to_owned());
        let expected = [
            vec![],
            vec![(StallChange::Stalled, a(), 6, 1400)],
            vec![(StallChange::Stalled, b(), 2, 1000)],
            vec![(StallChange::Over, a(), 9, 1900)],
            vec![(StallChange::Over, b(), 2, 1500)],
        ];
        assert_eq!(told, expected);
    }
}
