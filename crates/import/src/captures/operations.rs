//! Converts a captured request for the store: READs and WRITEs, one operation, and names of files.

use std::borrow::Cow;
use std::net::IpAddr;

use trackiops_capture::{
    Attributes, Call, Handle, NFS_PROGRAM, OperationCall, OperationReply, Request, operation_name,
    procedure_name,
};
use trackiops_schemas::ebpf::ring::{NO_USER, RequestRecord, flags};
use trackiops_schemas::identity::TenantId;
use trackiops_schemas::ops::OperationSums;

use super::files::Files;
use super::status::{errno, rpc_errno};

/// An operation with its result, if any.
type Pair<'r> = (&'r OperationCall, Option<&'r OperationReply>);

/// A READ or WRITE in a request.
pub struct Transfer<'r> {
    /// The operation of the call.
    pub operation: &'r OperationCall,
    result: Option<&'r OperationReply>,
    /// Whether it is a WRITE; otherwise it is a READ.
    pub is_write: bool,
    /// Its file.
    pub handle: Cow<'r, Handle>,
}

/// A name by which a COMPOUND found a file without asking for its handle: directory, name, and substitute handle.
type Step<'r> = (Handle, &'r [u8], Handle);

/// A substitute for the handle of a file that is known only by its name in a directory.
fn handle_of_name(directory: &Handle, name: &[u8]) -> Handle {
    Handle([&directory.0, &b"/"[..], name].concat().into())
}

/// The sums of one operation, from its latency. The time that the client adds is unknown.
pub fn sums_of(latency_ns: Option<u64>, has_failed: bool) -> OperationSums {
    let mut sums = OperationSums {
        requests: 1,
        errors: u64::from(has_failed),
        ..OperationSums::default()
    };
    if let Some(latency_ns) = latency_ns {
        sums.rtt_ns_sum = latency_ns;
        sums.execute_ns_sum = latency_ns;
        sums.execute_ns_max = latency_ns;
        sums.execute.record(latency_ns);
    }
    sums
}

/// The name of a call: its procedure. For a COMPOUND, the procedure of the Linux client with these operations.
pub fn name_of_call(call: &Call) -> String {
    let (version, procedure) = (call.version, call.procedure);
    if version != 4 || procedure != 1 {
        let name = procedure_name(version, procedure);
        return name.map_or_else(|| procedure.to_string(), str::to_owned);
    }
    let names = || {
        let operations = call.operations.iter();
        operations.map(|operation| name_of(version, operation.number))
    };
    let has = |name: &str| names().any(|of| of == name);
    let main = names().min_by_key(|name| Rank::of(name));
    // As in fs/nfs/nfs4xdr.c: `encode_lookup_root`, and OPEN of a file whose handle is known.
    match main {
        None => "COMPOUND",
        Some("GETATTR" | "GETFH") if has("PUTROOTFH") && has("GETFH") => "LOOKUP_ROOT",
        Some("OPEN") if !has("GETFH") => "OPEN_NOATTR",
        Some(name) => name,
    }
    .to_owned()
}

fn name_of(version: u32, number: u32) -> &'static str {
    operation_name(version, number).unwrap_or("(unknown)")
}

/// How well an operation shows the purpose of a COMPOUND. The COMPOUND is named after the first operation with the smallest rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It acts on a file.
    Action,
    /// It moves bytes, and is also counted by itself.
    Transfer,
    /// Linux sends it along with OPEN, CLOSE or DELEGRETURN.
    Layout,
    /// It finds a file for later operations.
    Lookup,
    /// It asks for further facts.
    Attributes,
    /// It returns the handle.
    Handle,
    /// It sets the current file.
    Current,
}

impl Rank {
    fn of(name: &str) -> Self {
        match name {
            "READ" | "READ_PLUS" | "WRITE" => Self::Transfer,
            "LAYOUTGET" | "LAYOUTRETURN" | "LAYOUTSTATS" | "LAYOUTERROR" => Self::Layout,
            "LOOKUP" | "LOOKUPP" => Self::Lookup,
            "GETATTR" | "ACCESS" | "VERIFY" | "NVERIFY" => Self::Attributes,
            "GETFH" => Self::Handle,
            "SEQUENCE" | "PUTFH" | "PUTROOTFH" | "PUTPUBFH" | "SAVEFH" | "RESTOREFH" => {
                Self::Current
            }
            _ => Self::Action,
        }
    }
}

/// A file that a reply has facts about.
#[derive(Clone, Copy)]
pub struct SeenFile<'r> {
    /// Its handle.
    pub handle: &'r Handle,
    /// Directory and name by which it was found.
    pub named: Option<(&'r Handle, &'r [u8])>,
    /// Its attributes.
    pub attributes: Option<&'r Attributes>,
}

/// Whether a name leads back to its directory or to its parent.
fn is_itself(name: &[u8]) -> bool {
    matches!(name, b"" | b"." | b"..")
}

/// A request, with cached facts about it.
pub struct Found<'r> {
    request: &'r Request,
    server: IpAddr,
}

impl<'r> Found<'r> {
    /// A request of NFS; `None` for other programs.
    pub fn new(request: &'r Request) -> Option<Self> {
        (request.call.program == NFS_PROGRAM).then(|| Self {
            request,
            server: request.call.peers.server.ip(),
        })
    }

    fn call(&self) -> &'r Call {
        &self.request.call
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'r>> + use<'r> {
        let results = &self.request.reply.operations;
        let operations = self.request.call.operations.iter().enumerate();
        operations.map(|(place, operation)| {
            let result = results.get(place);
            (
                operation,
                result.filter(|result| result.number == operation.number),
            )
        })
    }

    fn name_of(&self, number: u32) -> &'static str {
        name_of(self.call().version, number)
    }

    /// The names to count: each READ and WRITE, and the name of the whole RPC if that is something else.
    pub fn operations(&self) -> Vec<String> {
        let name = name_of_call(self.call());
        let executed = self.pairs().filter(|(_, result)| result.is_some());
        let numbers = executed.map(|(operation, _)| operation.number);
        let numbers = numbers.map(|number| self.name_of(number));
        let transfers = numbers.filter(|name| Self::is_transfer(name));
        let mut names: Vec<String> = transfers.map(str::to_owned).collect();
        if names.is_empty() || Rank::of(&name) != Rank::Transfer {
            names.insert(0, name);
        }
        names
    }

    /// The operation that the COMPOUND exists for.
    fn main(&self) -> Option<Pair<'r>> {
        let version = self.call().version;
        self.pairs()
            .min_by_key(|(operation, _)| Rank::of(name_of(version, operation.number)))
    }

    /// The caller.
    pub fn tenant(&self) -> TenantId {
        TenantId {
            uid: self.call().credential.uid.unwrap_or(NO_USER),
            cgroup: 0,
        }
    }

    /// Whether an operation moves bytes.
    pub fn is_transfer(name: &str) -> bool {
        Rank::of(name) == Rank::Transfer
    }

    /// The file of the RPC.
    pub fn file(&self) -> Option<(&'r Handle, Option<&'r Attributes>)> {
        let (operation, result) = self.main()?;
        let found = result.and_then(|result| result.handle.as_ref());
        // LOOKUP and the like count for the directory, OPEN for the file that it opens.
        let handle = match self.name_of(operation.number) {
            "OPEN" => found.or(operation.handle.as_ref()),
            _ => operation.handle.as_ref().or(found),
        }?;
        Some((handle, self.attributes_of(handle)))
    }

    /// The first attributes of a file in the reply.
    fn attributes_of(&self, handle: &Handle) -> Option<&'r Attributes> {
        let mut pairs = self.pairs();
        pairs.find_map(|(operation, result)| {
            let result = result?;
            let own = result.handle.as_ref().or(operation.handle.as_ref())?;
            (own == handle)
                .then_some(result.attributes.as_ref())
                .flatten()
        })
    }

    /// The error of the RPC, as in errno(3).
    fn error(&self) -> Option<i32> {
        let statuses = self.request.reply.operations.iter();
        let failed = statuses
            .filter_map(|result| result.status)
            .find(|status| *status != 0);
        rpc_errno(self.request.reply.status).or(failed.map(errno))
    }

    /// Its sums.
    pub fn sums(&self) -> OperationSums {
        OperationSums {
            sent_bytes: self.call().bytes * (1 + u64::from(self.request.retransmissions)),
            received_bytes: self.request.reply.bytes,
            ..self.sums_beside()
        }
    }

    /// Its sums without the bytes of the messages.
    pub fn sums_beside(&self) -> OperationSums {
        sums_of(self.request.latency_ns(), self.error().is_some())
    }

    /// Its READs and WRITEs.
    pub fn transfers(&self) -> Vec<Transfer<'r>> {
        self.transfers_by_name().0
    }

    /// Its READs and WRITEs, and the names by which it found files without asking for their handles.
    fn transfers_by_name(&self) -> (Vec<Transfer<'r>>, Vec<Step<'r>>) {
        let (mut transfers, mut steps) = (Vec::new(), Vec::new());
        let (mut current, mut saved): (Option<Cow<'r, Handle>>, _) = (None, None);
        for (operation, result) in self.pairs() {
            let found = result.and_then(|result| result.handle.as_ref());
            let own = operation.handle.as_ref();
            match (self.name_of(operation.number), operation.name.as_deref()) {
                (name @ ("READ" | "READ_PLUS" | "WRITE"), _) => {
                    let known = own.or(found).map(Cow::Borrowed);
                    transfers.extend(known.or(current.clone()).map(|handle| Transfer {
                        operation,
                        result,
                        is_write: name == "WRITE",
                        handle,
                    }));
                }
                ("LOOKUP" | "OPEN" | "CREATE", Some(name)) => {
                    let directory = own.map(Cow::Borrowed).or(current);
                    let by_name = directory.filter(|_| found.is_none()).map(|directory| {
                        let made = handle_of_name(&directory, name);
                        steps.push((directory.into_owned(), name, made.clone()));
                        Cow::Owned(made)
                    });
                    current = found.map(Cow::Borrowed).or(by_name);
                }
                ("PUTFH" | "PUTROOTFH" | "PUTPUBFH", _) => {
                    current = own.or(found).map(Cow::Borrowed);
                }
                ("SAVEFH", _) => saved.clone_from(&current),
                ("RESTOREFH", _) => current.clone_from(&saved),
                _ => {}
            }
        }
        (transfers, steps)
    }

    /// The number of a file in its file system, if the reply has it.
    pub fn fileid_of(&self, handle: &Handle) -> Option<u64> {
        self.attributes_of(handle)?.fileid
    }

    /// Its READs and WRITEs in the form of a recorder. Skips a READ or WRITE whose outcome is unknown, or that did not run because an
    /// earlier operation of the COMPOUND failed.
    pub fn records(&self, files: &mut Files, records: &mut Vec<RequestRecord>) {
        let (transfers, steps) = self.transfers_by_name();
        if !transfers.is_empty() {
            for (directory, name, file) in &steps {
                files.found_by_name(self.server, directory, name, file);
            }
        }
        for transfer in transfers {
            let Some((done_bytes, error)) = self.outcome(&transfer) else {
                continue;
            };
            let handle = &*transfer.handle;
            let file = files.id(self.server, handle, self.attributes_of(handle));
            let record = self.record(&transfer, file);
            records.push(RequestRecord {
                done_bytes,
                error,
                ..record
            });
        }
    }

    /// The bytes and the negative error of a READ or WRITE. `None` if they are unknown, or if it did not run because an earlier operation
    /// of the COMPOUND failed.
    pub fn outcome(&self, transfer: &Transfer<'_>) -> Option<(u32, i32)> {
        let asked = transfer.operation.count?;
        transfer.operation.offset?;
        if let Some(errno) = rpc_errno(self.request.reply.status) {
            return Some((0, -errno));
        }
        let result = transfer.result?;
        match (result.status?, result.count) {
            (0, Some(done)) => Some((done, 0)),
            // The reply to a WRITE of NFSv2 has no count: it writes all or nothing.
            (0, None) => (transfer.is_write && self.call().version == 2).then_some((asked, 0)),
            (status, _) => Some((0, -errno(status))),
        }
    }

    /// Like [`Self::outcome`], but with the COMPOUND's error if an earlier operation failed: the client's READ or WRITE ends with it.
    pub fn outcome_for_client(&self, transfer: &Transfer<'_>) -> Option<(u32, i32)> {
        self.outcome(transfer).or_else(|| Some((0, -self.error()?)))
    }

    fn record(
        &self,
        transfer: &Transfer<'_>,
        file: trackiops_schemas::identity::FileId,
    ) -> RequestRecord {
        let (operation, is_write) = (transfer.operation, transfer.is_write);
        let result = transfer.result;
        let latency_ns = self.request.latency_ns();
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        RequestRecord {
            end_ns: self.request.end_ns.max(0).cast_unsigned(),
            latency_ns: latency_ns.unwrap_or(0),
            fileid: file.fileid,
            offset: operation.offset.unwrap_or(0),
            asked_bytes: operation.count.unwrap_or(0),
            dev: file.dev.0,
            handle_hash: file.handle_hash,
            flags: flags::UNSPLIT
                | flag(is_write, flags::WRITE)
                | flag(latency_ns.is_none(), flags::UNTIMED)
                | flag(
                    result.and_then(|result| result.is_eof) == Some(true),
                    flags::EOF,
                )
                | flag(operation.is_stable == Some(true), flags::STABLE),
            uid: self.tenant().uid,
            xid: self.call().xid,
            retransmissions: self.request.retransmissions,
            ..RequestRecord::default()
        }
    }

    /// Its operations up to the first one that failed, with their results and the directories in which they looked up names.
    fn done(
        &self,
    ) -> impl Iterator<Item = (&'r OperationCall, &'r OperationReply, Option<&'r Handle>)> + '_
    {
        let mut before: Option<&OperationReply> = None;
        self.pairs().map_while(move |(operation, result)| {
            let result = result?;
            if result.status.is_some_and(|status| status != 0) {
                return None;
            }
            let found = before.and_then(|before| before.handle.as_ref());
            before = Some(result);
            Some((operation, result, operation.handle.as_ref().or(found)))
        })
    }

    /// Passes on the files that the reply has facts about.
    pub fn files_seen(&self, mut each: impl FnMut(SeenFile<'r>)) {
        let mut last: Option<&Handle> = None;
        let mut tell = |file: SeenFile<'r>| {
            let named = file.named.filter(|(_, name)| !is_itself(name));
            let file = SeenFile { named, ..file };
            // GETATTR after LOOKUP adds nothing.
            if file.named.is_some() || last != Some(file.handle) {
                last = Some(file.handle);
                each(file);
            }
        };
        for (operation, result, directory) in self.done() {
            let found = result.handle.as_ref();
            match (self.name_of(operation.number), directory, found) {
                (
                    "LOOKUP" | "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD" | "OPEN",
                    Some(directory),
                    Some(found),
                ) => tell(SeenFile {
                    handle: found,
                    named: operation.name.as_deref().map(|name| (directory, name)),
                    attributes: self.attributes_of(found),
                }),
                ("READDIRPLUS" | "READDIR", directory, found) => {
                    let directory = directory.or(found);
                    for entry in &result.entries {
                        tell(SeenFile {
                            handle: &entry.handle,
                            named: directory.map(|directory| (directory, &*entry.name)),
                            attributes: Some(&entry.attributes),
                        });
                    }
                }
                _ => {
                    let handle = found.or(operation.handle.as_ref());
                    let attributes = result.attributes.as_ref();
                    if let (Some(handle), Some(_)) = (handle, attributes) {
                        tell(SeenFile {
                            handle,
                            named: None,
                            attributes,
                        });
                    }
                }
            }
        }
    }

    /// Notes the names in the request.
    pub fn names(&self, files: &mut Files) {
        let server = self.server;
        self.files_seen(|file| {
            if let Some((directory, name)) = file.named {
                files.named(server, directory, name, file.handle, file.attributes);
            }
        });
        for (operation, result, directory) in self.done() {
            match self.name_of(operation.number) {
                "RENAME" => {
                    if let (Some(from), Some(old), Some((Some(to), new))) =
                        (directory, &operation.name, &operation.target)
                    {
                        files.renamed(server, (from, old), (to, new));
                    }
                }
                // The client sends it for the root of its mount.
                "FSINFO" => {
                    if let Some(root) = &operation.handle {
                        files.is_root(server, root, result.attributes.as_ref());
                    }
                }
                "PUTROOTFH" => {
                    if let Some(root) = &result.handle {
                        files.is_root(server, root, self.attributes_of(root));
                    }
                }
                _ => {}
            }
        }
    }
}
