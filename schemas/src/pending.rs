//! Requests that wait for a server, found by looking at the kernel's list of RPC tasks. A server that hangs completes
//! nothing, so rows do not show it until it answers.

use std::collections::BTreeMap;
use std::fmt;

use crate::counter_macro::sum;

/// A server counts as stalled when a request has waited for it this long, ms. Shorter waits are recorded, too.
pub const STALLED_MS: u64 = 1000;
/// Most mounts of a server that a text names.
const NAMED_MOUNTS: usize = 3;

/// Requests that were pending at the looks in one window. Merging keeps the largest of each value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Most requests that were pending at one look.
    pub requests_max: u64,
    /// Age of the oldest, ms, counted from the look at which it was first seen. Its true age may be higher.
    pub age_ms_max: u64,
    /// The RPC clients with pending requests, ordered by number and server.
    pub clients: Vec<PendingClient>,
}

/// Pending requests of one of the kernel's RPC clients. Each mount has a client for its files. Mounts of the same
/// server share a further client for RPCs without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingClient {
    /// Its number. The kernel reuses the number of a freed client.
    pub client: u32,
    /// Address of the server, where known.
    pub server: Option<String>,
    /// The mounts (`server:/export`) from that address with the client's NFS version, if it was stalled. The client
    /// belongs to one of them, or they share it. Sorted.
    pub mounts: Vec<String>,
    /// Most requests that were pending at one look.
    pub requests_max: u64,
    /// Age of the oldest request, ms.
    pub age_ms_max: u64,
}

/// A stalled server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledServer {
    /// Its address, where known.
    pub address: Option<String>,
    /// The mounts that may have waited for it, sorted.
    pub mounts: Vec<String>,
    /// Most requests that waited at once.
    pub requests_max: u64,
    /// Longest wait of the oldest request, ms.
    pub age_ms_max: u64,
}

impl Pending {
    /// The stalled servers, by address. Adds up the pending requests of all clients of a server.
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
    /// Adds observations of the same server at another time.
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

/// Merges two sorted lists.
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
