//! Reads rows of operations of mounts, and adds them up by window, mount, operation and connection.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::ops::{CONNECTION, OperationRow, OperationSums};
use trackiops_schemas::time::UtcMs;

use super::Connections;
use crate::account::Account;
use crate::aggregation::{Sum, Sums};
use crate::error::QueryError;
use crate::execute::{Job, Recorded, Rows, SumsOf, execute};
use crate::explain::Explain;
use crate::origin::HostIndex;
use crate::plan::{Plan, Tail};
use crate::scan;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) window: UtcMs,
    pub(super) host: HostIndex,
    pub(super) mount: Option<Arc<str>>,
    pub(super) op: Arc<str>,
    /// The connection, if connections are separate.
    pub(super) transport: Option<Arc<str>>,
}

pub(super) struct Group {
    /// `None` if the group has several connections.
    pub(super) transport: Option<Arc<str>>,
    pub(super) sums: OperationSums,
}

impl Sum for Group {
    /// The connection, and the counters.
    type Row<'r> = (Option<Arc<str>>, &'r OperationSums);

    fn of((transport, sums): Self::Row<'_>) -> Self {
        Self {
            transport,
            sums: sums.clone(),
        }
    }

    fn add(&mut self, (transport, sums): Self::Row<'_>) {
        if self.transport != transport {
            self.transport = None;
        }
        self.sums.merge(sums);
    }

    fn absorb(&mut self, other: Self) {
        self.add((other.transport, &other.sums));
    }
}

pub(super) type Groups = Sums<Key, Group>;

/// Rows of operations of mounts.
pub(super) struct MountRows<'p> {
    pub(super) plan: &'p Plan<'p>,
    pub(super) connections: Connections,
    pub(super) explain: &'p Explain,
}

impl MountRows<'_> {
    /// Adds them up. Fails with [`QueryError::TooManyRows`] if any thread has more than `row_limit` groups.
    pub(super) fn add_up(
        &self,
        row_limit: Option<usize>,
    ) -> Result<(Groups, Recorded), QueryError> {
        let (mut groups, recorded) = execute(self.plan, self, row_limit, self.explain)?;
        if self.connections == Connections::Apart {
            repeat_connections(&mut groups);
        }
        Ok((groups, recorded))
    }

    fn add(&self, sums: &mut SumsOf<Self>, mut key: Key, row: &OperationSums) {
        let transport = match self.connections {
            Connections::Together if *key.op == *CONNECTION => return,
            Connections::Together => key.transport.take(),
            Connections::Apart | Connections::Stored => key.transport.clone(),
        };
        sums.add(key, (transport, row));
    }
}

impl Rows for MountRows<'_> {
    type Key = Key;
    type Sum = Group;

    fn read(
        &self,
        job: &Job<'_>,
        sums: &mut SumsOf<Self>,
        _: &mut BTreeSet<FileKey>,
    ) -> Result<(), QueryError> {
        let has_tcp = self.connections != Connections::Together;
        scan::ops(job.segment, has_tcp, self.explain, &mut |stored| {
            if job.journal.bounds.contains(stored.time) {
                let key = Key {
                    window: self.plan.window(stored.time),
                    host: job.journal.host,
                    mount: stored.mount.map(Into::into),
                    op: stored.op.into(),
                    transport: stored.transport.map(Into::into),
                };
                self.add(sums, key, &stored.sums);
            }
        })
    }

    fn read_tail(
        &self,
        tail: &Tail<'_>,
        account: &mut Account<'_>,
        sums: &mut SumsOf<Self>,
    ) -> Result<(), QueryError> {
        tail.tail.windows(&mut |window| {
            account.window(tail, window.start, window.health);
        })?;
        tail.tail.operations(&mut |start, rows| {
            if !tail.bounds.contains(start) {
                return;
            }
            for row in rows {
                let OperationRow {
                    operation,
                    sums: row,
                } = row;
                let key = Key {
                    window: self.plan.window(start),
                    host: tail.host,
                    mount: operation.mount.map(Into::into),
                    op: operation.op.into(),
                    transport: operation.transport.map(Into::into),
                };
                self.add(sums, key, &row);
            }
        })?;
        Ok(())
    }
}

/// Copies what TCP knows of a connection to each of its operations. Without any, the connection keeps its row.
fn repeat_connections(groups: &mut Groups) {
    let connection = |key: &Key| (key.window, key.host, key.transport.clone());
    let rows = groups.extract_if(.., |key, _| *key.op == *CONNECTION);
    let rows = rows.map(|(key, group)| (connection(&key), (key, group)));
    let mut rows: HashMap<_, _> = rows.collect();
    let mut used = HashSet::new();
    for (key, group) in &mut *groups {
        let of = connection(key);
        if let Some((_, row)) = rows.get(&of) {
            group.sums.tcp = row.sums.tcp;
            used.insert(of);
        }
    }
    rows.retain(|of, _| !used.contains(of));
    groups.extend(rows.into_values());
}
