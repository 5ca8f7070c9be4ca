//! Reads the offsets of kernel structure members from BTF. The only module that knows the BTF format.

mod types;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use trackiops_schemas::regular_file::open_regular;
pub use types::{Btf, Kind, MalformedBtf, Type};

/// BTF of Debian's kernels has 4 to 6 MB. A much larger file is something else, such as a device
/// without an end.
const MOST_BYTES: u64 = 256 << 20;
/// Most nesting levels of anonymous structures, and of arrays.
const MOST_LEVELS: usize = 16;
/// Most members that are visited to find one: in damaged BTF, nested structures may have no end.
const MOST_MEMBERS: usize = 1 << 16;

/// A structure, and the dotted path to one of its members; an empty path means the structure itself.
pub type MemberName = (&'static str, &'static str);

/// Offset and size of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes from the structure's start.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// The members that were found.
pub type Members = BTreeMap<MemberName, Member>;

/// Type numbers in the kernel's BTF that programs need to read kernel memory by plain loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastBtfIds {
    /// The function `bpf_rdonly_cast` (Linux 6.2), which turns any address into a pointer that
    /// programs may load from.
    pub function: u32,
    /// `struct linux_mib`. Its meaning does not matter: it is one long array of words, so the
    /// verifier lets programs load any of them.
    pub words: u32,
    /// `struct file`.
    pub file: u32,
    /// The types of the tracepoints on completion: the first of [`EVENTS`]. `None` while the NFS client is not loaded.
    pub events: Option<[BtfType; 3]>,
    /// The type of the tracepoint on the completion of a request to a block device.
    pub block: Option<BtfType>,
    /// The types of the tracepoints on the page cache: a page is added, evicted, dirtied.
    pub cache: Option<[BtfType; 3]>,
    /// The types of the tracepoints on system calls: a call returns; an io_uring request completes, if its arguments name the request.
    pub syscalls: Option<(BtfType, Option<BtfType>)>,
    /// Whether the kernel has the rest of [`EVENTS`], on the release of an RPC.
    pub has_releases: bool,
}

/// A type by which the verifier knows the arguments of a tracepoint, or a function that a program may
/// be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtfType {
    /// Its number.
    pub number: u32,
    /// The module in whose BTF it is; `None` for the kernel proper.
    pub module: Option<&'static str>,
}

/// The functions by which applications read and write NFS files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFunctions {
    /// Functions of the NFS client, in the order of [`CALLS`]; `None` if its BTF lacks the function.
    pub of_nfs: [Option<BtfType>; 5],
    /// Functions of the kernel proper that these call, in the order of [`GENERIC_CALLS`].
    pub generic: [Option<BtfType>; 2],
    /// Whether the kernel has fprobes (Linux 5.18, `CONFIG_FPROBE`): they probe the begin and end of many functions, for any number of concurrent
    /// calls.
    pub has_fprobes: bool,
}

/// Functions of the NFS client.
const CALLS: [&str; 5] = [
    "nfs_file_read",
    "nfs_file_write",
    "nfs_file_splice_read",
    "nfs_file_direct_read",
    "nfs_file_direct_write",
];

/// Functions of the kernel proper.
const GENERIC_CALLS: [&str; 2] = ["generic_file_read_iter", "generic_perform_write"];

/// The parts of a kernel's and its modules' BTF that TrackIOps uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTypes {
    /// The members that were found.
    pub members: Members,
    /// Type numbers for plain loads, if all of them exist.
    pub cast: Option<CastBtfIds>,
    /// The functions by which applications read and write.
    pub calls: CallFunctions,
    /// The tracepoint on dirtied pages.
    pub dirty_event: &'static str,
    /// How the tracepoint on the completion of an io_uring request passes the result, if it names the request.
    pub ring_completion: Option<RingCompletion>,
    /// The tracepoint on the submission of an io_uring request, if it names the request.
    pub ring_submission: Option<&'static str>,
    /// The bit in a page's flags that marks the first of several pages (`PG_head` of `enum pageflags`).
    pub page_head_bit: Option<u32>,
    /// A module of the NFS client whose structures are unknown.
    pub foreign: Option<ForeignModule>,
}

/// Where the result of an io_uring request is: see [`KernelTypes::ring_completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingCompletion {
    /// It is an argument (Linux 5.19).
    Argument,
    /// An argument leads to the `struct io_uring_cqe` that has it.
    Entry,
}

/// The types of the tracepoints on the completion of a READ, of a WRITE and of any RPC. Then those
/// on the release of an RPC, by transports without and with congestion control.
const EVENTS: [&str; 5] = [
    "btf_trace_nfs_readpage_done",
    "btf_trace_nfs_writeback_done",
    "btf_trace_rpc_stats_latency",
    "btf_trace_xprt_release_xprt",
    "btf_trace_xprt_release_cong",
];

/// The type of the tracepoint on the completion of a request to a block device.
const BLOCK_EVENT: &str = "btf_trace_block_rq_complete";

/// The types of the tracepoints on the page cache. Before Linux 5.18 the last one has another name, and typed programs use none of them.
const CACHE_EVENTS: [&str; 3] = [
    "btf_trace_mm_filemap_add_to_page_cache",
    "btf_trace_mm_filemap_delete_from_page_cache",
    "btf_trace_writeback_dirty_folio",
];
/// The types of the tracepoints on the return of a system call, and on the completion of an io_uring request.
const SYSCALL_EVENT: &str = "btf_trace_sys_exit";
const RING_EVENT: &str = "btf_trace_io_uring_complete";
/// Names of the tracepoint on the submission of an io_uring request: since Linux 6.3, and before.
const RING_SUBMISSIONS: [&str; 2] = ["io_uring_submit_req", "io_uring_submit_sqe"];
/// Names of the tracepoint on dirtied pages: since Linux 5.18, and before.
const DIRTY_FOLIO: &str = "writeback_dirty_folio";
const DIRTY_PAGE: &str = "writeback_dirty_page";

/// Modules whose types are read after the kernel's own types, and the prefix of their structures' names. A module's code uses the
/// module's definition of such a structure. The kernel keeps it in the module's BTF if it differs.
const MODULES: [(&str, &str); 2] = [("sunrpc", "rpc_"), ("nfs", "nfs_")];

/// A loaded module that was not built with the kernel and has no BTF, so its structures are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignModule {
    /// Its name.
    pub name: &'static str,
    /// Why the kernel treats it as foreign, in the letters of `/sys/module/NAME/taint`.
    pub taint: String,
}

impl ForeignModule {
    /// The letters for modules that are proprietary, forced, or built outside of the kernel's sources (`taint_flags`, kernel/panic.c).
    /// The letter for unsigned modules is left out: some distributions do not sign their own modules.
    const FOREIGN: [char; 3] = ['P', 'F', 'O'];

    fn find(root: &Path, name: &'static str) -> Option<Self> {
        let taint = fs::read_to_string(root.join("sys/module").join(name).join("taint")).ok()?;
        let taint = taint.trim().to_owned();
        taint
            .contains(Self::FOREIGN)
            .then_some(Self { name, taint })
    }
}

/// Why BTF cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// There is no such file.
    #[error("there is no BTF at {}", .0.display())]
    Absent(PathBuf),
    /// The file cannot be read, or is not BTF.
    #[error("cannot read the BTF in {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The defect.
        cause: String,
    },
}

/// Looks for `names` in the BTF of the kernel and its modules below `root`, and for the other
/// [`KernelTypes`].
pub fn read_kernel(root: &Path, names: &[MemberName]) -> Result<KernelTypes, BtfError> {
    let directory = root.join("sys/kernel/btf");
    let path = directory.join("vmlinux");
    let file = read_bytes(&path)?;
    let vmlinux = Btf::parse(&file).map_err(unreadable(&path))?;
    let mut members = find_members(&vmlinux, names);
    let mut events = EVENTS.map(|name| own_type(&vmlinux, Kind::Typedef, name, None));
    let mut calls = CallFunctions {
        has_fprobes: own_type(&vmlinux, Kind::Function, "register_fprobe_ips", None).is_some(),
        ..CallFunctions::default()
    };
    let mut foreign = None;
    for (name, prefix) in MODULES {
        let path = directory.join(name);
        let file = match read_bytes(&path) {
            Err(BtfError::Absent(_)) => {
                foreign = foreign.or_else(|| ForeignModule::find(root, name));
                continue;
            }
            read => read?,
        };
        let module = Btf::parse_module(&file, &vmlinux).map_err(unreadable(&path))?;
        add_members(&mut members, &module, prefix, names);
        for (found, of) in events.iter_mut().zip(EVENTS) {
            *found = found.or_else(|| own_type(&module, Kind::Typedef, of, Some(name)));
        }
        for (found, of) in calls.of_nfs.iter_mut().zip(CALLS) {
            *found = found.or_else(|| own_type(&module, Kind::Function, of, Some(name)));
        }
    }
    // Only if no module has them: a search through all functions of the kernel proper is slow.
    if calls.of_nfs == [None; 5] {
        let of_kernel = |name| own_type(&vmlinux, Kind::Function, name, None);
        calls.of_nfs = CALLS.map(of_kernel);
        calls.generic = GENERIC_CALLS.map(of_kernel);
    }
    let cache = CACHE_EVENTS.map(|name| own_type(&vmlinux, Kind::Typedef, name, None));
    let ring_completion = ring_completion(&vmlinux);
    Ok(KernelTypes {
        members,
        cast: cast_btf_ids(&vmlinux, events, cache, ring_completion),
        ring_completion,
        ring_submission: ring_submission(&vmlinux),
        page_head_bit: page_head_bit(&vmlinux),
        foreign,
        calls,
        dirty_event: match cache {
            [.., None] => DIRTY_PAGE,
            _ => DIRTY_FOLIO,
        },
    })
}

/// Adds members of structures that a module defines: those with the module's prefix, and those without another definition.
/// All members of one structure come from one definition.
fn add_members(members: &mut Members, module: &Btf, prefix: &str, names: &[MemberName]) {
    let structures: BTreeSet<_> = names.iter().map(|(structure, _)| *structure).collect();
    let known: BTreeSet<_> = members.keys().map(|(structure, _)| *structure).collect();
    let is_taken = |structure: &&str| {
        (structure.starts_with(prefix) || !known.contains(*structure))
            && module.find_own(Kind::Struct, structure).is_some()
    };
    let taken: BTreeSet<_> = structures.into_iter().filter(is_taken).collect();
    let names = names
        .iter()
        .filter(|(structure, _)| taken.contains(structure));
    let names: Vec<_> = names.copied().collect();
    members.retain(|(structure, _), _| !taken.contains(structure));
    members.extend(find_members(module, &names));
}

fn page_head_bit(btf: &Btf) -> Option<u32> {
    let (_, flags) = btf.find_own(Kind::Enum, "pageflags")?;
    let head = flags
        .values()
        .find(|(name, _)| btf.is_named(*name, "PG_head"));
    head.map(|(_, bit)| bit).filter(|bit| *bit < u64::BITS)
}

/// The types of a tracepoint's arguments.
fn arguments<'a, 'b>(
    btf: &'a Btf<'b>,
    event: &str,
) -> Option<impl Iterator<Item = Option<Type<'b>>> + use<'a, 'b>> {
    let (_, event) = btf.find_own(Kind::Typedef, event)?;
    let function = btf.plain(btf.plain(event.target()?)?.target()?)?;
    // The first parameter is the tracepoint's private data.
    Some(function.parameters().skip(1).map(|of| btf.plain(of)))
}

/// The submission tracepoint whose first argument is the request (`struct io_kiocb`), as since Linux 6.0.
fn ring_submission(btf: &Btf) -> Option<&'static str> {
    RING_SUBMISSIONS.into_iter().find(|name| {
        let first = || {
            let mut arguments = arguments(btf, &format!("btf_trace_{name}"))?;
            btf.plain(arguments.next()??.target()?)
        };
        first().is_some_and(|of| of.kind == Kind::Struct && btf.is_named(of.name, "io_kiocb"))
    })
}

/// Decides by the types of the arguments: `(request, user data, result, ...)` or `(request, entry)`. Before Linux 5.19 they
/// were `(user data, result)`.
fn ring_completion(btf: &Btf) -> Option<RingCompletion> {
    let mut arguments = arguments(btf, RING_EVENT)?;
    let mut is_pointer = || Some(arguments.next()??.kind == Kind::Pointer);
    let [_, request, second] = std::array::from_fn(|_| is_pointer());
    match (request?, second?) {
        (false, _) => None,
        (true, false) => Some(RingCompletion::Argument),
        (true, true) => Some(RingCompletion::Entry),
    }
}

fn own_type(btf: &Btf, kind: Kind, name: &str, module: Option<&'static str>) -> Option<BtfType> {
    let (number, _) = btf.find_own(kind, name)?;
    Some(BtfType { number, module })
}

fn cast_btf_ids(
    vmlinux: &Btf,
    events: [Option<BtfType>; 5],
    cache: [Option<BtfType>; 3],
    ring: Option<RingCompletion>,
) -> Option<CastBtfIds> {
    let own = |name| own_type(vmlinux, Kind::Typedef, name, None);
    let [read, write, operation, release, release_cong] = events;
    let completions = || Some([read?, write?, operation?]);
    Some(CastBtfIds {
        function: vmlinux.find(Kind::Function, "bpf_rdonly_cast")?.0,
        words: vmlinux.find(Kind::Struct, "linux_mib")?.0,
        file: vmlinux.find(Kind::Struct, "file")?.0,
        events: completions(),
        block: own(BLOCK_EVENT),
        syscalls: own(SYSCALL_EVENT).map(|exit| (exit, ring.and_then(|_| own(RING_EVENT)))),
        cache: match cache {
            [Some(added), Some(evicted), Some(dirtied)] => Some([added, evicted, dirtied]),
            _ => None,
        },
        has_releases: release.is_some() && release_cong.is_some(),
    })
}

/// Looks for `names` in a file of BTF.
pub fn read_file(path: &Path, names: &[MemberName]) -> Result<Members, BtfError> {
    let file = read_bytes(path)?;
    let btf = Btf::parse(&file).map_err(unreadable(path))?;
    Ok(find_members(&btf, names))
}

fn unreadable<E: ToString>(path: &Path) -> impl Fn(E) -> BtfError {
    let path = path.to_path_buf();
    move |cause| BtfError::Unreadable {
        path: path.clone(),
        cause: cause.to_string(),
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, BtfError> {
    let read = || -> io::Result<_> {
        let file = open_regular(path)?;
        let mut bytes = Vec::with_capacity(file.metadata()?.len().min(MOST_BYTES) as usize);
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => BtfError::Absent(path.to_path_buf()),
        _ => unreadable(path)(e),
    })
}

/// Finds members, for a module only in its own structures. Missing ones are left out.
pub fn find_members(btf: &Btf, names: &[MemberName]) -> Members {
    let mut structures = HashMap::new();
    let found = names.iter().filter_map(|name| {
        let structure = *structures
            .entry(name.0)
            .or_insert_with(|| btf.find_own(Kind::Struct, name.0));
        Some((*name, find_member(btf, structure?.1, name.1)?))
    });
    found.collect()
}

fn find_member(btf: &Btf, structure: Type, path: &str) -> Option<Member> {
    let mut at = structure;
    let mut offset = 0_u32;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let (inside, member) = find_in(btf, &at, name, MOST_LEVELS, &mut { MOST_MEMBERS })?;
        offset = offset.checked_add(inside)?;
        at = member;
    }
    Some(Member {
        offset,
        size: size_of_type(btf, at)?,
    })
}

/// A member by its name, also inside anonymous structures and unions.
fn find_in<'b>(
    btf: &Btf<'b>,
    of: &Type<'b>,
    name: &str,
    levels: usize,
    left: &mut usize,
) -> Option<(u32, Type<'b>)> {
    for member in of.members() {
        *left = left.checked_sub(1)?;
        let offset = member.bit_offset / 8;
        if btf.is_named(member.name, name) {
            return Some((offset, btf.plain(member.number)?));
        }
        if levels > 0
            && btf.is_named(member.name, "")
            && let Some(inner) = btf.plain(member.number)
            && let Some((inside, found)) = find_in(btf, &inner, name, levels - 1, left)
        {
            return Some((offset.checked_add(inside)?, found));
        }
    }
    None
}

fn size_of_type(btf: &Btf, of: Type) -> Option<u32> {
    let mut at = of;
    let mut elements = 1_u32;
    for _ in 0..MOST_LEVELS {
        let bytes = match at.kind {
            Kind::Int | Kind::Struct | Kind::Union | Kind::Enum => at.size()?,
            // 32-bit systems are not supported.
            Kind::Pointer => 8,
            Kind::Array => {
                elements = elements.checked_mul(at.elements()?)?;
                at = btf.plain(at.target()?)?;
                continue;
            }
            _ => return None,
        };
        return bytes.checked_mul(elements);
    }
    None
}
