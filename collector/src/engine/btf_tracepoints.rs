//! Loads programs for tracepoints and functions with typed arguments. The BPF loader supports them only in the
//! kernel proper, and the NFS client is a module.

use std::collections::HashSet;
use std::ffi::{CString, c_char};
use std::io;
use std::mem;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::Object;
use aya_obj::generated::{
    BPF_F_KPROBE_MULTI_RETURN, bpf_attach_type,
    bpf_attr__bindgen_ty_14__bindgen_ty_3__bindgen_ty_3, bpf_btf_info, bpf_cmd, bpf_prog_type,
};
use trackiops_schemas::ebpf::ring::RECORD_RINGS_MAP;

use crate::btf::BtfType;
use crate::engine::bpf_calls::{bpf, create, empty, info_of};
use crate::rings::record_ring::RecordMemory;

/// Prefix of the section that stands for the only element of an array, followed by the array's name.
const ELEMENT_PREFIX: &str = ".bss.";

/// An array that stands for the rings in programs that do not use them.
const NO_RECORD_RINGS: &str = "NO_RECORD_RINGS";

/// `BPF_LOG_LEVEL2` (include/linux/bpf_verifier.h): the verifier logs each instruction on each path, with the state after it.
const LOG_STEPS: u32 = 2;
/// `BPF_LOG_LEVEL1`: only the path on which the verifier refuses the program.
const LOG_WAYS: u32 = 1;
/// Size of the log. The largest program takes 100,000 to 300,000 steps, of about 150 bytes each.
const LOG_BYTES: u32 = 512 << 20;
/// A signal interrupts the verifier (EAGAIN, `do_check` in `kernel/bpf/verifier.c`). That is not a refusal, whose reason takes seconds to get.
const MOST_SIGNALS: usize = 5;

/// What a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedTo {
    /// A tracepoint.
    Tracepoint(BtfType),
    /// The begin of a function.
    Entry(BtfType),
    /// The end of a function.
    Return(BtfType),
    /// The begin or the end of functions, as [`attach_probe`] says.
    Probe,
}

impl AttachedTo {
    /// The type of its target; probes have none.
    pub fn of(self) -> Option<BtfType> {
        match self {
            Self::Tracepoint(of) | Self::Entry(of) | Self::Return(of) => Some(of),
            Self::Probe => None,
        }
    }
}

/// Linked programs that can be loaded.
pub struct CastPrograms {
    object: Object,
    /// BTF of the object's functions: the verifier follows functions with a symbol separately, once.
    types: OwnedFd,
    /// The BTF of the modules that the tracepoints are in.
    modules: Vec<(&'static str, OwnedFd)>,
}

impl CastPrograms {
    /// Links these programs of the object with the maps that the loader has made for it, and with
    /// the rings in `memory`, if they use them. `attached_to` has the types of their targets.
    pub fn link(
        object: &[u8],
        used: &[&str],
        loaded: &Ebpf,
        memory: Option<&RecordMemory>,
        attached_to: &[BtfType],
    ) -> io::Result<Self> {
        let mut object = Object::parse(object).map_err(io::Error::other)?;
        let types = load_types(&mut object)?;
        object.programs.retain(|name, _| used.contains(&&**name));
        let maps = mem::take(&mut object.maps);
        let sections: HashSet<usize> = object
            .functions
            .keys()
            .map(|(section, _)| *section)
            .collect();
        let linked = maps.iter().filter_map(|(name, map)| {
            // The section of an array's only element is linked to the array.
            let array = name.strip_prefix(ELEMENT_PREFIX).unwrap_or(name);
            let fd = match array {
                RECORD_RINGS_MAP => match memory {
                    Some(memory) => memory.as_fd(),
                    // The section belongs to another program, which is not loaded.
                    None => descriptor(loaded.map(NO_RECORD_RINGS)?)?,
                },
                _ => descriptor(loaded.map(array)?)?,
            };
            Some((name.as_str(), fd.as_raw_fd(), map))
        });
        object
            .relocate_maps(linked, &sections)
            .map_err(io::Error::other)?;
        object.relocate_calls(&sections).map_err(io::Error::other)?;
        let mut names: Vec<_> = attached_to.iter().filter_map(|of| of.module).collect();
        names.sort_unstable();
        names.dedup();
        let modules = names
            .into_iter()
            .map(|name| Ok((name, btf_of_module(name)?)));
        Ok(Self {
            object,
            types,
            modules: modules.collect::<io::Result<_>>()?,
        })
    }

    /// Loads a program for its target. Without a target, the program fits any tracepoint, and is attached by name.
    /// With `log`, the verifier writes its steps there.
    pub fn load(
        &self,
        name: &str,
        on: Option<AttachedTo>,
        log: Option<&mut Vec<u8>>,
    ) -> io::Result<OwnedFd> {
        let program = self.object.programs.get(name);
        let program = program.ok_or(io::ErrorKind::NotFound)?;
        let function = self.object.functions.get(&program.function_key());
        let function = function.ok_or(io::ErrorKind::NotFound)?;
        let instructions = &function.instructions;
        let functions = function.func_info.func_info_bytes();
        let mut attributes = empty();
        // SAFETY: all fields of the union are integers, for which zero is valid.
        let mut load = unsafe { attributes.__bindgen_anon_3 };
        load.prog_type = bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT as u32;
        load.insns = instructions.as_ptr().expose_provenance() as u64;
        load.insn_cnt = u32::try_from(instructions.len()).map_err(io::Error::other)?;
        load.prog_btf_fd = self.types.as_raw_fd().cast_unsigned();
        load.func_info = functions.as_ptr().expose_provenance() as u64;
        load.func_info_cnt = u32::try_from(function.func_info.len()).map_err(io::Error::other)?;
        load.func_info_rec_size =
            u32::try_from(function.func_info_rec_size).map_err(io::Error::other)?;
        load.license = program.license.as_ptr().expose_provenance() as u64;
        if let Some(on) = on {
            let tracing = bpf_prog_type::BPF_PROG_TYPE_TRACING;
            let (kind, attach) = match on {
                AttachedTo::Tracepoint(_) => (tracing, bpf_attach_type::BPF_TRACE_RAW_TP),
                AttachedTo::Entry(_) => (tracing, bpf_attach_type::BPF_TRACE_FENTRY),
                AttachedTo::Return(_) => (tracing, bpf_attach_type::BPF_TRACE_FEXIT),
                AttachedTo::Probe => (
                    bpf_prog_type::BPF_PROG_TYPE_KPROBE,
                    bpf_attach_type::BPF_TRACE_KPROBE_MULTI,
                ),
            };
            load.prog_type = kind as u32;
            load.expected_attach_type = attach as u32;
        }
        let of = on.and_then(AttachedTo::of);
        load.attach_btf_id = of.map_or(0, |of| of.number);
        if let Some(module) = of.and_then(|of| of.module) {
            let own = self.modules.iter().find(|(name, _)| *name == module);
            let (_, btf) = own.ok_or(io::ErrorKind::NotFound)?;
            load.__bindgen_anon_1.attach_btf_obj_fd = btf.as_raw_fd().cast_unsigned();
        }
        // The name that the kernel shows. The last byte stays zero.
        let shown = load.prog_name.len() - 1;
        for (to, from) in load.prog_name[..shown].iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        attributes.__bindgen_anon_3 = load;
        if log.is_none() {
            for _ in 0..MOST_SIGNALS {
                // SAFETY: instructions, functions and licence outlive the call, with the lengths in the attributes.
                let loaded = unsafe { create(bpf_cmd::BPF_PROG_LOAD, &mut attributes) };
                match loaded {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                    Ok(_) => return loaded,
                }
            }
        }
        // A refused program is loaded once more to get the reason.
        let mut reasons = Vec::new();
        let (log, level) = match log {
            Some(log) => (log, LOG_STEPS),
            None => (&mut reasons, LOG_WAYS),
        };
        // Only pages that are written take memory.
        *log = vec![0; LOG_BYTES as usize];
        load.log_level = level;
        load.log_size = LOG_BYTES;
        load.log_buf = log.as_mut_ptr().expose_provenance() as u64;
        attributes.__bindgen_anon_3 = load;
        // SAFETY: instructions, functions, licence and log outlive the call, with the lengths in the attributes.
        let loaded = unsafe { create(bpf_cmd::BPF_PROG_LOAD, &mut attributes) };
        let end = log.iter().position(|byte| *byte == 0);
        log.truncate(end.unwrap_or(log.len()));
        log.shrink_to_fit();
        loaded.map_err(|error| match reason(log) {
            Some(reason) => io::Error::new(error.kind(), format!("{error}: {name}: {reason}")),
            None => error,
        })
    }
}

/// Passes the BTF of the object to the kernel.
fn load_types(object: &mut Object) -> io::Result<OwnedFd> {
    let features = aya::features().btf();
    let features = features.ok_or(io::ErrorKind::Unsupported)?;
    let types = object.fixup_and_sanitize_btf(features);
    let types = types.map_err(io::Error::other)?;
    let types = types.ok_or(io::ErrorKind::NotFound)?.to_bytes();
    let mut attributes = empty();
    // SAFETY: all fields of the union are integers, for which zero is valid.
    let mut load = unsafe { attributes.__bindgen_anon_7 };
    load.btf = types.as_ptr().expose_provenance() as u64;
    load.btf_size = u32::try_from(types.len()).map_err(io::Error::other)?;
    attributes.__bindgen_anon_7 = load;
    // SAFETY: `types` outlives the call, and `btf_size` is its length.
    unsafe { create(bpf_cmd::BPF_BTF_LOAD, &mut attributes) }
}

/// Why the verifier has refused a program: the last line of its log before the statistics.
fn reason(log: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(log);
    let is_statistics = |line: &&str| {
        let begins = ["processed ", "verification time ", "stack depth "];
        line.trim().is_empty() || begins.iter().any(|begin| line.starts_with(begin))
    };
    let mut lines = text.lines().rev();
    lines.find(|line| !is_statistics(line)).map(str::to_owned)
}

/// Attaches a program to its target, until the returned descriptor is closed. The tracepoint is
/// `named` if the program was loaded without a target.
pub fn attach(program: BorrowedFd<'_>, named: Option<&str>) -> io::Result<OwnedFd> {
    let name = named.map(CString::new).transpose()?;
    let mut attributes = empty();
    attributes.raw_tracepoint.prog_fd = program.as_raw_fd().cast_unsigned();
    if let Some(name) = &name {
        attributes.raw_tracepoint.name = name.as_ptr().expose_provenance() as u64;
    }
    // SAFETY: the name outlives the call, and ends with a zero.
    unsafe { create(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attributes) }
}

/// Attaches a program that was loaded for [`AttachedTo::Probe`] to functions of these names, until the returned descriptor is closed: to their ends
/// if `at_end`, else to their begins.
pub fn attach_probe(
    program: BorrowedFd<'_>,
    functions: &[&str],
    at_end: bool,
) -> io::Result<OwnedFd> {
    let names = functions.iter().copied().map(CString::new);
    let names = names.collect::<Result<Vec<CString>, _>>()?;
    let addresses: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let mut attributes = empty();
    // SAFETY: all fields of the union are integers, for which zero is valid.
    let mut create_link = unsafe { attributes.link_create };
    create_link.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    create_link.attach_type = bpf_attach_type::BPF_TRACE_KPROBE_MULTI as u32;
    create_link.__bindgen_anon_3.kprobe_multi =
        bpf_attr__bindgen_ty_14__bindgen_ty_3__bindgen_ty_3 {
            flags: if at_end { BPF_F_KPROBE_MULTI_RETURN } else { 0 },
            cnt: u32::try_from(addresses.len()).map_err(io::Error::other)?,
            syms: addresses.as_ptr().expose_provenance() as u64,
            addrs: 0,
            cookies: 0,
        };
    attributes.link_create = create_link;
    // SAFETY: the names outlive the call, and each ends with a zero byte.
    unsafe { create(bpf_cmd::BPF_LINK_CREATE, &mut attributes) }
}

/// The descriptor of a map of one of the kinds that the programs have.
fn descriptor(map: &Map) -> Option<BorrowedFd<'_>> {
    match map {
        Map::Array(map)
        | Map::ArrayOfMaps(map)
        | Map::HashMap(map)
        | Map::LruHashMap(map)
        | Map::PerCpuArray(map)
        | Map::RingBuf(map) => Some(map.fd().as_fd()),
        _ => None,
    }
}

/// The BTF of a module. Searches all BTF in the kernel, of modules and of programs.
fn btf_of_module(module: &str) -> io::Result<OwnedFd> {
    let mut id = 0;
    loop {
        let mut attributes = empty();
        attributes.__bindgen_anon_6.__bindgen_anon_1.start_id = id;
        // SAFETY: the attributes of this command have no addresses.
        unsafe { bpf(bpf_cmd::BPF_BTF_GET_NEXT_ID, &mut attributes) }?;
        // SAFETY: the kernel has written the field, and every value of an integer is valid.
        id = unsafe { attributes.__bindgen_anon_6 }.next_id;
        let mut attributes = empty();
        attributes.__bindgen_anon_6.__bindgen_anon_1.btf_id = id;
        // SAFETY: the attributes of this command have no addresses.
        let btf = match unsafe { create(bpf_cmd::BPF_BTF_GET_FD_BY_ID, &mut attributes) } {
            // It belonged to a program that was just unloaded.
            Err(gone) if gone.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if is_named(btf.as_fd(), module)? {
            return Ok(btf);
        }
    }
}

/// Whether this is the kernel's own BTF of that name, not a program's.
fn is_named(btf: BorrowedFd<'_>, module: &str) -> io::Result<bool> {
    let mut name = [0_u8; 64];
    // SAFETY: all fields are integers, for which zero is valid.
    let mut info: bpf_btf_info = unsafe { mem::zeroed() };
    info.name = name.as_mut_ptr().expose_provenance() as u64;
    info.name_len = name.len() as u32;
    // SAFETY: `info` is a `bpf_btf_info`, and `name` is `name_len` bytes long.
    match unsafe { info_of(btf, &mut info) } {
        // The name is longer than every name that is searched.
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Ok(false),
        told => told?,
    };
    let length = name.iter().position(|byte| *byte == 0);
    Ok(info.kernel_btf != 0 && name.get(..length.unwrap_or(name.len())) == Some(module.as_bytes()))
}
