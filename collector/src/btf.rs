//! BTF: where the members of the kernel's structures stand. The only module that knows it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use btf_rs::{Btf, BtfType, Type};

/// A member of a structure: the structure, and the names on the way, with dots between them.
pub type Name = (&'static str, &'static str);

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes from the structure's begin.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// The members that were found.
pub type Members = BTreeMap<Name, Member>;

/// What it takes for programs to load from the kernel's memory: numbers of types in the kernel's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The function `bpf_rdonly_cast` (Linux 6.2), which makes a pointer, which programs may load from, of any address.
    pub function: u32,
    /// `struct linux_mib`, whatever it is for: one long array of words, so that the verifier lets programs load
    /// what they like.
    pub words: u32,
    /// The types [`EVENTS`] of the tracepoints.
    pub events: [Event; 3],
}

/// A type by which the verifier knows what a tracepoint hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub number: u32,
    /// The module in whose BTF it is; `None` for the kernel proper.
    pub module: Option<&'static str>,
}

/// The types of the tracepoints on completion: of reading, of writing, and of any RPC.
const EVENTS: [&str; 3] = [
    "btf_trace_nfs_readpage_done",
    "btf_trace_nfs_writeback_done",
    "btf_trace_rpc_stats_latency",
];

/// Modules whose types are looked at after those of the kernel proper.
const MODULES: [&str; 2] = ["sunrpc", "nfs"];

/// Why there is no BTF to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// There is no such file.
    #[error("there is no BTF at {}", .0.display())]
    Absent(PathBuf),
    /// The file is not what it should be.
    #[error("cannot read the BTF in {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

/// Looks for `names` in the BTF of the kernel and its modules below `root`, and for [`Cast`].
pub fn of_kernel(root: &Path, names: &[Name]) -> Result<(Members, Option<Cast>), BtfError> {
    let directory = root.join("sys/kernel/btf");
    let vmlinux = read(&directory.join("vmlinux"))?;
    let mut members = find(&vmlinux, names);
    let mut events = EVENTS.map(|name| event(&vmlinux, name, None));
    for name in MODULES {
        let path = directory.join(name);
        let bytes = match bytes(&path) {
            Err(BtfError::Absent(_)) => continue,
            read => read?,
        };
        let module = Btf::from_split_bytes(&bytes, &vmlinux).map_err(unreadable(&path))?;
        for (name, member) in find(&module, names) {
            members.entry(name).or_insert(member);
        }
        for (found, of) in events.iter_mut().zip(EVENTS) {
            *found = found.or_else(|| event(&module, of, Some(name)));
        }
    }
    Ok((members, cast(&vmlinux, events)))
}

fn event(btf: &Btf, name: &str, module: Option<&'static str>) -> Option<Event> {
    let number = number(btf, name, |of| matches!(of, Type::Typedef(_)))?;
    Some(Event { number, module })
}

fn cast(vmlinux: &Btf, events: [Option<Event>; 3]) -> Option<Cast> {
    let [read, write, operation] = events;
    Some(Cast {
        function: number(vmlinux, "bpf_rdonly_cast", |of| matches!(of, Type::Func(_)))?,
        words: number(vmlinux, "linux_mib", |of| matches!(of, Type::Struct(_)))?,
        events: [read?, write?, operation?],
    })
}

fn number(btf: &Btf, name: &str, wanted: fn(&Type) -> bool) -> Option<u32> {
    let mut found = btf.resolve_ids_by_name(name).ok()?.into_iter();
    found.find(|id| btf.resolve_type_by_id(*id).is_ok_and(|of| wanted(&of)))
}

/// Looks for `names` in a file of BTF.
pub fn of_file(path: &Path, names: &[Name]) -> Result<Members, BtfError> {
    Ok(find(&read(path)?, names))
}

fn unreadable<E: ToString>(path: &Path) -> impl Fn(E) -> BtfError {
    let path = path.to_path_buf();
    move |cause| BtfError::Unreadable {
        path: path.clone(),
        cause: cause.to_string(),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, BtfError> {
    fs::read(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => BtfError::Absent(path.to_path_buf()),
        _ => unreadable(path)(e),
    })
}

fn read(path: &Path) -> Result<Btf, BtfError> {
    Btf::from_bytes(&bytes(path)?).map_err(unreadable(path))
}

fn find(btf: &Btf, names: &[Name]) -> Members {
    names
        .iter()
        .filter_map(|name| Some((*name, member(btf, *name)?)))
        .collect()
}

fn member(btf: &Btf, (structure, path): Name) -> Option<Member> {
    let is_structure = |found: &Type| matches!(found, Type::Struct(_));
    let mut at = btf
        .resolve_types_by_name(structure)
        .ok()?
        .into_iter()
        .find(is_structure)?;
    let mut offset = 0;
    for name in path.split('.') {
        let (inside, member) = within(btf, &at, name)?;
        offset += inside;
        at = member;
    }
    Some(Member {
        offset,
        size: size(btf, &at)?,
    })
}

/// A member by its name, also where it stands in structures and unions without one.
fn within(btf: &Btf, of: &Type, name: &str) -> Option<(u32, Type)> {
    let (Type::Struct(of) | Type::Union(of)) = of else {
        return None;
    };
    of.members.iter().find_map(|member| {
        let offset = member.bit_offset() / 8;
        let found = plain(btf, member)?;
        match btf.resolve_name(member).ok()? {
            own if own == name => Some((offset, found)),
            own if own.is_empty() => {
                let (inside, found) = within(btf, &found, name)?;
                Some((offset + inside, found))
            }
            _ => None,
        }
    })
}

/// The type behind typedefs and qualifiers.
fn plain(btf: &Btf, of: &dyn BtfType) -> Option<Type> {
    let mut found = btf.resolve_chained_type(of).ok()?;
    while matches!(
        found,
        Type::Typedef(_) | Type::Const(_) | Type::Volatile(_) | Type::TypeTag(_)
    ) {
        found = btf.resolve_chained_type(found.as_btf_type()?).ok()?;
    }
    Some(found)
}

fn size(btf: &Btf, of: &Type) -> Option<u32> {
    let bytes = match of {
        Type::Int(of) => of.size(),
        Type::Struct(of) | Type::Union(of) => of.size(),
        Type::Enum(of) => of.size(),
        // 32-bit systems are not supported.
        Type::Ptr(_) => 8,
        Type::Array(of) => return size(btf, &plain(btf, of)?)?.checked_mul(of.len() as u32),
        _ => return None,
    };
    u32::try_from(bytes).ok()
}
