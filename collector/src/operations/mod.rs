//! Operations: the kernel's sums of RPCs, under their names in rows.

pub(crate) mod rpc_clients;

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;

use ahash::AHashMap;
use aya::maps::MapError;
use trackiops_schemas::ebpf::op_sums::{NO_NUMBER, OpKey, OpValue};
use trackiops_schemas::identity::Dev;
use trackiops_schemas::ops::{OTHER_OPERATIONS, Operation, OperationSums};

use crate::clock::MonotonicNs;
use crate::kernel_sums::by_operation::{OpSums, first_bucket};
use crate::operations::rpc_clients::{RpcClient, RpcClients};

/// Number of the NFS program (RFC 1813, RFC 7530). Locks, access lists and callbacks are separate
/// programs.
const NFS_PROGRAM: u32 = 100_003;

/// The operations of a window.
pub type WindowOps = BTreeMap<Operation, OperationSums>;

/// Sums as the kernel has them.
pub type Taken = Vec<(OpKey, OpValue)>;

/// The state needed to name operations.
pub struct Operations {
    clients: RpcClients,
    /// Numbers of connections that the kernel does not number, by address.
    transports: AHashMap<u64, u32>,
    lost: u64,
}

impl Operations {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self {
            clients: RpcClients::below(Path::new("/")),
            transports: AHashMap::new(),
            lost: 0,
        }
    }

    /// Call this when a mount came or went.
    pub fn mounts_changed(&mut self) {
        self.clients.forget_look();
    }

    /// Takes the kernel's sums. The second value has RPCs that were lost.
    pub fn take(&mut self, sums: &mut OpSums) -> Result<(Taken, Option<OperationSums>), MapError> {
        let mut taken = Taken::new();
        sums.take(|key, value| taken.push((key, value)))?;
        let of_nfs =
            |(key, value): &(OpKey, OpValue)| key.procedure == 0 || value.program == NFS_PROGRAM;
        taken.retain(of_nfs);
        let lost = self.lost_since(sums.lost()?);
        Ok((taken, lost))
    }

    /// Names operations, each with its window. `source` returns `server:/export` of a device.
    pub fn name<'m>(
        &mut self,
        taken: &Taken,
        now: MonotonicNs,
        source: impl Fn(Dev) -> Option<&'m str>,
    ) -> Vec<(u64, Operation, OperationSums)> {
        let clients = taken.iter().filter(|(key, _)| key.procedure != 0);
        self.clients
            .look(clients.map(|(_, value)| value.client), now);
        let named = taken.iter().map(|(key, value)| {
            let operation = self.operation(key, value, &source);
            (key.window, operation, operation_sums(value))
        });
        named.collect()
    }

    /// RPCs lost since the last call; `all` is the total so far.
    fn lost_since(&mut self, all: u64) -> Option<OperationSums> {
        let before = mem::replace(&mut self.lost, all);
        (all > before).then(|| OperationSums {
            requests: all - before,
            ..OperationSums::default()
        })
    }

    fn operation<'m>(
        &mut self,
        key: &OpKey,
        value: &OpValue,
        source: impl Fn(Dev) -> Option<&'m str>,
    ) -> Operation {
        if key.procedure == 0 {
            return other_operations();
        }
        let client = RpcClient {
            number: value.client,
            version: value.version,
            server: text_before_zero(&value.address),
        };
        Operation {
            mount: self.clients.mount(&client, source),
            op: match (text_before_zero(&value.name), value.index) {
                // The null procedure, which every program has; sunrpc does not name it (`rpcproc_null`, net/sunrpc/clnt.c).
                ("", 0) => "NULL".to_owned(),
                ("", index) => index.to_string(),
                (name, _) => name.to_owned(),
            },
            transport: self.transport_name(key, value),
        }
    }

    fn transport_name(&mut self, key: &OpKey, value: &OpValue) -> Option<String> {
        let known = self.transports.len() as u32 + 1;
        let number = match value.transport {
            NO_NUMBER => *self.transports.entry(key.transport).or_insert(known),
            number => number,
        };
        match text_before_zero(&value.protocol) {
            "" => None,
            protocol => Some(format!("{protocol}-{number}")),
        }
    }
}

/// Operations that found no room by name.
pub fn other_operations() -> Operation {
    Operation {
        op: OTHER_OPERATIONS.to_owned(),
        ..Operation::default()
    }
}

fn operation_sums(value: &OpValue) -> OperationSums {
    let mut sums = OperationSums {
        requests: value.execute.iter().copied().map(u64::from).sum(),
        errors: value.errors,
        sent_bytes: value.sent_bytes,
        received_bytes: value.received_bytes,
        queue_ns_sum: value.queue_ns_sum,
        rtt_ns_sum: value.rtt_ns_sum,
        execute_ns_sum: value.execute_ns_sum,
        execute_ns_max: value.execute_ns_max,
        ..OperationSums::default()
    };
    let buckets = (first_bucket()..).zip(value.execute);
    for (bucket, count) in buckets.filter(|(_, count)| *count > 0) {
        sums.execute.add(bucket, u64::from(count));
    }
    sums
}

/// The text before the zero byte. The kernel's names are ASCII.
fn text_before_zero(bytes: &[u8]) -> &str {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &[u8], transport: u32) -> OpValue {
        let mut value = OpValue::ZERO;
        value.program = NFS_PROGRAM;
        value.index = 71;
        value.name[..name.len()].copy_from_slice(name);
        value.protocol[..3].copy_from_slice(b"tcp");
        value.transport = transport;
        value
    }

    #[test]
    fn operations_have_the_names_of_the_kernel_and_their_connections_numbers() {
        let mut operations = Operations::new();
        operations.clients = RpcClients::below(Path::new("/nowhere"));
        let mut operation = |value: OpValue, procedure, transport| {
            let key = OpKey {
                procedure,
                transport,
                ..OpKey::default()
            };
            let told = operations.operation(&key, &value, |_| None);
            (told.op, told.transport.unwrap_or_default())
        };
        let told = |op: &str, transport: &str| (op.to_owned(), transport.to_owned());
        assert_eq!(
            operation(value(b"COMMIT", 0), 1, 7),
            told("COMMIT", "tcp-0")
        );
        assert_eq!(operation(value(b"", 3), 1, 7), told("71", "tcp-3"));
        let mut ping = value(b"", 3);
        ping.index = 0;
        assert_eq!(operation(ping, 1, 7), told("NULL", "tcp-3"));
        for (address, expected) in [(7, "tcp-1"), (9, "tcp-2"), (7, "tcp-1")] {
            let unnumbered = value(b"READ", NO_NUMBER);
            assert_eq!(operation(unnumbered, 1, address), told("READ", expected));
        }
        assert_eq!(operation(value(b"READ", 0), 0, 0), told("(other)", ""));
    }

    #[test]
    fn buckets_are_those_of_histograms() {
        let mut value = value(b"READ", 0);
        value.execute[0] = 2;
        value.execute[100] = 3;
        let sums = operation_sums(&value);
        let first = first_bucket();
        assert_eq!(sums.execute.buckets(), [(first, 2), (first + 100, 3)]);
    }
}
