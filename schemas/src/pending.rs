//! Requests that wait for a server: what looks at the kernel's list of RPC tasks showed in a window.
//! A server that hangs completes nothing, so that rows have nothing to tell of it while it does.

use std::collections::BTreeMap;
use std::fmt;

use crate::counter_macro::sum;

/// A server is called stalled when a request has waited for it for so long, ms. The numbers are kept
/// whatever they are.
pub const STALLED_MS: u64 = 1000;
/// More mounts of a server than this are not named.
const NAMED_MOUNTS: usize = 3;

/// What was pending at the looks in one window. Mergeable: the largest of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Most requests that were pending at one look.
    pub requests_max: u64,
    /// Age of the oldest, ms: at least so much, as it counts from the look at which it was first seen.
    pub age_ms_max: u64,
    /// The RPC clients that had any, ordered by number and server.
    pub clients: Vec<PendingClient>,
}

/// What was pending of one of the kernel's RPC clients. A mount has one of its own for its files; those that
/// reach the same server share another one, for what is not of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingClient {
    /// Its number. The kernel gives it away again when it is free.
    pub client: u32,
    /// Address of the server, where known.
    pub server: Option<String>,
    /// The mounts (`server:/export`) from that address, of the client's version of NFS, if it was stalled:
    /// it is one of them, or theirs in common. Sorted.
    pub mounts: Vec<String>,
    /// Most requests that were pending at one look.
    pub requests_max: u64,
    /// Age of the oldest, ms.
    pub age_ms_max: u64,
}

/// A server that is called stalled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledServer {
    /// Its address, where known.
    pub address: Option<String>,
    /// The mounts that may have waited for it, sorted.
    pub mounts: Vec<String>,
    /// How many requests waited at once, at most.
    pub requests_max: u64,
    /// How long the oldest of them had waited, ms.
    pub age_ms_max: u64,
}

impl Pending {
    /// The servers that are called stalled, by address: what waited of all of a server's clients.
    pub fn stalled(&self) -> Vec<StalledServer> {
        let mut servers: BTreeMap<&Option<String>, StalledServer> = BTreeMap::new();
        for client in self.clients.iter().filter(|client| client.is_stalled()) {
            let server = servers.entry(&client.server).or_default();
            server.address.clone_from(&client.server);
            server.requests_max = sum(server.requests_max, client.requests_max);
            server.age_ms_max = server.age_ms_max.max(client.age_ms_max);
            add_mounts(&mut server.mounts, &client.mounts);
        }
        servers.into_values().collect()
    }

    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            requests_max,
            age_ms_max,
            clients,
        } = other;
        self.requests_max = self.requests_max.max(*requests_max);
        self.age_ms_max = self.age_ms_max.max(*age_ms_max);
        for client in clients {
            match self
                .clients
                .binary_search_by(|own| own.id().cmp(&client.id()))
            {
                Ok(at) => self.clients[at].merge(client),
                Err(at) => self.clients.insert(at, client.clone()),
            }
        }
    }
}

impl PendingClient {
    fn id(&self) -> (u32, Option<&str>) {
        (self.client, self.server.as_deref())
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            client: _,
            server: _,
            mounts,
            requests_max,
            age_ms_max,
        } = other;
        self.requests_max = self.requests_max.max(*requests_max);
        self.age_ms_max = self.age_ms_max.max(*age_ms_max);
        add_mounts(&mut self.mounts, mounts);
    }

    /// Whether a request has waited so long that the server is called stalled.
    pub fn is_stalled(&self) -> bool {
        self.age_ms_max >= STALLED_MS
    }
}

impl StalledServer {
    /// Adds what was seen of the same server at another time.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            address: _,
            mounts,
            requests_max,
            age_ms_max,
        } = other;
        self.requests_max = self.requests_max.max(*requests_max);
        self.age_ms_max = self.age_ms_max.max(*age_ms_max);
        add_mounts(&mut self.mounts, mounts);
    }
}

impl fmt::Display for StalledServer {
    /// `10.0.0.5 (nas:/home)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.as_deref();
        f.write_str(address.unwrap_or("a server of unknown address"))?;
        let named = self.mounts.len().min(NAMED_MOUNTS);
        match (self.mounts[..named].join(", "), self.mounts.len() - named) {
            (mounts, _) if mounts.is_empty() => Ok(()),
            (mounts, 0) => write!(f, " ({mounts})"),
            (mounts, more) => write!(f, " ({mounts} and {more} more)"),
        }
    }
}

/// Both are sorted.
fn add_mounts(mounts: &mut Vec<String>, others: &[String]) {
    for mount in others {
        if let Err(at) = mounts.binary_search(mount) {
            mounts.insert(at, mount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pending() -> impl Strategy<Value = Pending> {
        let client = (
            0_u32..4,
            0_u8..3,
            prop::option::of(0_u8..3),
            0_u64..9,
            0_u64..5000,
        );
        prop::collection::vec(client, 0..6).prop_map(|clients| {
            let mut sum = Pending::default();
            for (client, server, mount, requests_max, age_ms_max) in clients {
                sum.merge(&Pending {
                    requests_max,
                    age_ms_max,
                    clients: vec![PendingClient {
                        client,
                        server: (server > 0).then(|| server.to_string()),
                        mounts: mount.iter().map(|m| format!("s:/{m}")).collect(),
                        requests_max,
                        age_ms_max,
                    }],
                });
            }
            sum
        })
    }

    proptest! {
        #[test]
        fn merging_is_associative_commutative_and_idempotent(a in pending(), b in pending(), c in pending()) {
            let merged = |x: &Pending, y: &Pending| { let mut m = x.clone(); m.merge(y); m };
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            prop_assert_eq!(merged(&a, &a), a);
        }
    }

    #[test]
    fn a_server_is_stalled_by_all_of_its_clients() {
        let client = |client, server: &str, age_ms_max, mounts: &[&str]| PendingClient {
            client,
            server: Some(server.to_owned()),
            mounts: mounts.iter().map(|m| (*m).to_owned()).collect(),
            requests_max: 3,
            age_ms_max,
        };
        let pending = Pending {
            clients: vec![
                client(1, "10.0.0.6", 1000, &["b:/2"]),
                client(2, "10.0.0.5", 42_000, &[]),
                client(3, "10.0.0.6", 1900, &["b:/1", "b:/2", "b:/3", "b:/4"]),
                client(4, "10.0.0.7", 999, &["c:/"]),
            ],
            ..Pending::default()
        };
        let stalled = pending.stalled();
        let told = stalled
            .iter()
            .map(|s| (s.to_string(), s.requests_max, s.age_ms_max));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                ("10.0.0.5".to_owned(), 3, 42_000),
                ("10.0.0.6 (b:/1, b:/2, b:/3 and 1 more)".to_owned(), 6, 1900),
            ]
        );
        assert_eq!(
            StalledServer::default().to_string(),
            "a server of unknown address"
        );
    }
}
