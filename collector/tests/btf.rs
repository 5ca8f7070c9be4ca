//! The stored BTF of kernels is complete and matches known facts.
#![allow(clippy::unwrap_used)] // Helpers of tests, too.

mod common;

use common::{kernels, module, vmlinux};
use proptest::prelude::*;
use trackiops_collector::btf::{Btf, Kind, MalformedBtf, Member, MemberName, Type, find_members};
use trackiops_schemas::ebpf::file_op_sums::CREATE_HANDLE;

const MODULES: [&str; 3] = ["nfs", "nfsv4", "sunrpc"];

/// Bytes from the start of a structure to a member, in the kernels of [`COLUMNS`].
const OFFSETS: [(&str, &str, [u32; 4]); 12] = [
    ("nfs_pgio_header", "args", [600, 600, 608, 624]),
    ("nfs_pgio_header", "res", [712, 712, 720, 736]),
    ("nfs_pgio_args", "context", [24, 24, 24, 24]),
    ("nfs_pgio_res", "count", [40, 40, 40, 48]),
    ("rpc_task", "tk_start", [208, 200, 200, 200]),
    ("rpc_task", "tk_rqstp", [192, 184, 184, 184]),
    ("rpc_rqst", "rq_rtt", [400, 400, 400, 416]),
    ("rpc_rqst", "rq_xtime", [424, 424, 424, 440]),
    ("rpc_rqst", "rq_ntrans", [432, 432, 432, 448]),
    ("inode", "i_ino", [64, 64, 64, 64]),
    ("inode", "i_sb", [40, 40, 40, 40]),
    ("super_block", "s_dev", [16, 16, 16, 16]),
];
const COLUMNS: [&str; 4] = ["5.10", "6.1", "6.12", "newest"];

/// Arguments of raw tracepoints that point to structures, in order.
const ARGUMENTS: [(&str, &str, &[&str]); 8] = [
    ("nfs", "nfs_initiate_read", &["nfs_pgio_header"]),
    ("nfs", "nfs_initiate_write", &["nfs_pgio_header"]),
    ("nfs", "nfs_initiate_commit", &["nfs_commit_data"]),
    ("nfs", "nfs_readpage_done", &["rpc_task", "nfs_pgio_header"]),
    (
        "nfs",
        "nfs_writeback_done",
        &["rpc_task", "nfs_pgio_header"],
    ),
    ("sunrpc", "rpc_task_begin", &["rpc_task"]),
    ("sunrpc", "rpc_task_end", &["rpc_task"]),
    ("sunrpc", "rpc_stats_latency", &["rpc_task"]),
];

#[test]
fn the_directory_of_what_is_created_stands_where_the_kernel_side_looks_for_it() {
    for (kernel, root) in kernels() {
        let vmlinux = vmlinux(&root);
        // Debian's 5.10 lacks BTF of modules.
        if let Some(module) = module(&root, "nfsv4", &vmlinux) {
            let found = offset(&module, "nfs4_create_arg", "dir_fh");
            assert_eq!(found, Some(CREATE_HANDLE), "{kernel}");
        }
    }
}

#[test]
fn members_stand_where_they_were_seen() {
    for (kernel, root) in kernels() {
        let column = COLUMNS
            .iter()
            .position(|c| *c == kernel)
            .unwrap_or_else(|| panic!("write down here where the members of {kernel} stand"));
        let vmlinux = vmlinux(&root);
        for (structure, member, offsets) in OFFSETS {
            assert_eq!(
                offset(&vmlinux, structure, member),
                Some(offsets[column]),
                "{kernel}: {structure}.{member}"
            );
        }
    }
}

#[test]
fn raw_tracepoints_get_the_structures_that_are_kept() {
    for (kernel, root) in kernels() {
        let vmlinux = vmlinux(&root);
        for (name, event, structures) in ARGUMENTS {
            let Some(module) = module(&root, name, &vmlinux) else {
                continue;
            };
            assert_eq!(arguments(&module, event), structures, "{kernel}: {event}");
            for structure in structures {
                let whole = vmlinux.find(Kind::Struct, structure);
                assert!(whole.is_some(), "{kernel}: {structure}");
            }
        }
    }
}

#[test]
fn some_structures_are_known_to_the_modules_only() {
    for (kernel, root) in kernels() {
        let vmlinux = vmlinux(&root);
        for name in MODULES {
            let module = module(&root, name, &vmlinux);
            assert_eq!(module.is_some(), kernel != "5.10", "{kernel}: {name}");
        }
        let nfs = module(&root, "nfs", &vmlinux);
        for (structure, member) in [("nfs_inode", "vfs_inode"), ("nfs_page", "wb_lock_context")] {
            assert_eq!(
                offset(&vmlinux, structure, member),
                None,
                "{kernel}: {structure}"
            );
            if let Some(nfs) = &nfs {
                let found = offset(nfs, structure, member);
                assert!(found.is_some(), "{kernel}: {structure}.{member}");
            }
        }
    }
}

#[test]
fn every_type_that_is_referred_to_is_there() {
    for (_, root) in kernels() {
        let vmlinux = vmlinux(&root);
        let modules = MODULES.map(|name| module(&root, name, &vmlinux));
        modules.iter().flatten().for_each(assert_whole);
        assert_whole(&vmlinux);
    }
}

fn assert_whole(btf: &Btf) {
    let resolves = |number: u32| assert!(number == 0 || btf.get(number).is_some(), "{number}");
    for number in btf.numbers() {
        let found = btf.get(number).unwrap();
        assert!(btf.name(found.name).is_some());
        found.target().into_iter().for_each(resolves);
        found.parameters().for_each(resolves);
        for member in found.members() {
            assert!(btf.name(member.name).is_some());
            resolves(member.number);
        }
    }
}

/// Bytes from the start of a structure to its member.
fn offset(btf: &Btf, structure: &str, member: &str) -> Option<u32> {
    let bits = offset_within(btf, btf.find(Kind::Struct, structure)?.1, member)?;
    assert_eq!(bits % 8, 0, "{structure}.{member}");
    Some(bits / 8)
}

/// [`offset`] in bits; also of members of anonymous structures and unions.
fn offset_within(btf: &Btf, of: Type, member: &str) -> Option<u32> {
    of.members().find_map(|m| {
        if btf.is_named(m.name, member) {
            Some(m.bit_offset)
        } else if btf.is_named(m.name, "") {
            let inner = btf.plain(m.number)?;
            Some(m.bit_offset + offset_within(btf, inner, member)?)
        } else {
            None
        }
    })
}

/// The names of the structures that a raw tracepoint's arguments point to.
fn arguments(btf: &Btf, event: &str) -> Vec<String> {
    let typedef = btf.find(Kind::Typedef, &format!("btf_trace_{event}"));
    let (_, typedef) = typedef.unwrap_or_else(|| panic!("no typedef btf_trace_{event}"));
    let pointer = btf.plain(typedef.target().unwrap()).unwrap();
    let function = btf.get(pointer.target().unwrap()).unwrap();
    assert_eq!(function.kind, Kind::Prototype, "btf_trace_{event}");
    let target = |parameter: u32| {
        let pointer = btf.plain(parameter)?;
        let of = btf.plain(pointer.target()?)?;
        let name = btf.name(of.name).filter(|_| of.kind == Kind::Struct)?;
        String::from_utf8(name.to_vec()).ok()
    };
    function.parameters().filter_map(target).collect()
}

/// A BTF file of these type words and zero-terminated names.
fn built(types: &[u32], names: &str) -> Vec<u8> {
    let bytes = 4 * types.len() as u32;
    let header = [0x0001_eb9f, 24, 0, bytes, bytes, names.len() as u32];
    let words = header
        .iter()
        .chain(types)
        .flat_map(|word| word.to_le_bytes());
    words.chain(names.bytes()).collect()
}

const INT: u32 = 1 << 24;
const ARRAY: u32 = 3 << 24;
const STRUCT: u32 = 4 << 24;
const TYPEDEF: u32 = 8 << 24;
const WITH_BITS: u32 = 1 << 31;

/// Finds one member; its structure may have no name.
fn find_in(types: &[&[u32]], names: &str, name: MemberName) -> Option<Member> {
    let file = built(&types.concat(), names);
    let btf = Btf::parse(&file).unwrap();
    find_members(&btf, &[name]).get(&name).copied()
}

#[test]
fn members_behind_bits_typedefs_arrays_and_no_name_are_found() {
    // struct s { u32 a:3, b:5; T; }, where T is a typedef of struct { u16 c[2][3]; }.
    let types: [&[u32]; 10] = [
        &[0, INT, 4, 32],
        &[1, STRUCT | WITH_BITS | 3, 16],
        &[3, 1, 3 << 24],
        &[5, 1, (5 << 24) | 3],
        &[0, 3, 32],
        &[0, TYPEDEF, 4],
        &[0, STRUCT | 1, 12, 7, 5, 0],
        &[0, ARRAY, 0, 6, 1, 2],
        &[0, ARRAY, 0, 7, 1, 3],
        &[0, INT, 2, 16],
    ];
    let found = |name| find_in(&types, "\0s\0a\0b\0c\0", ("s", name));
    let member = |offset, size| Some(Member { offset, size });
    assert_eq!(found("a"), member(0, 4));
    assert_eq!(found("b"), member(0, 4));
    assert_eq!(found("c"), member(4, 12));
    assert_eq!(found("d"), None);
    assert_eq!(found("a.c"), None);
}

#[test]
fn numbers_and_names_of_a_module_follow_those_of_its_kernel() {
    let kernel = built(&[0, INT, 4, 32, 1, STRUCT, 0], "\0k\0");
    let kernel = Btf::parse(&kernel).unwrap();
    // struct m { int k; }, whose names begin after the kernel's three bytes.
    let module = built(&[3, STRUCT | 1, 4, 1, 1, 0], "m\0");
    let module = Btf::parse_module(&module, &kernel).unwrap();
    assert_eq!((kernel.numbers(), module.numbers()), (1..3, 3..4));
    let number = |btf: &Btf, name| btf.find(Kind::Struct, name).map(|found| found.0);
    assert_eq!(
        [number(&module, "m"), number(&module, "k")],
        [Some(3), Some(2)]
    );
    assert_eq!(
        [number(&kernel, "m"), number(&kernel, "k")],
        [None, Some(2)]
    );
    let found = find_members(&module, &[("m", "k")]);
    assert_eq!(found.values().next(), Some(&Member { offset: 0, size: 4 }));
}

#[test]
fn what_leads_to_itself_is_not_followed_for_ever() {
    let names = "\0s\0a\0";
    let of_member = |number| [1, STRUCT | 1, 4, 3, number, 0];
    let s = of_member(2);
    let (a, b) = ([0, TYPEDEF, 3], [0, TYPEDEF, 2]);
    assert_eq!(find_in(&[&s, &a, &b], names, ("s", "a")), None);
    let array = [0, ARRAY, 0, 2, 1, 1];
    assert_eq!(find_in(&[&s, &array], names, ("s", "a")), None);
    // Its only member is itself, without a name.
    let itself = [1, STRUCT | 1, 4, 0, 1, 0];
    assert_eq!(find_in(&[&itself], names, ("s", "a")), None);
    // Each of 20 structures contains the next one 100 times, without a name: 100^20 members in total.
    let mut many = Vec::new();
    for next in 2..22 {
        let name = u32::from(next == 2);
        many.extend([name, STRUCT | 100, 4]);
        many.extend([0, next, 0].repeat(100));
    }
    many.extend([0, STRUCT, 0]);
    assert_eq!(find_in(&[&many], names, ("s", "a")), None);
}

#[test]
fn sizes_that_no_structure_has_are_not_known() {
    let names = "\0s\0a\0";
    let s = [1, STRUCT | 1, 4, 3, 2, 0];
    let array = [0, ARRAY, 0, 3, 1, 1 << 31];
    assert_eq!(
        find_in(&[&s, &array, &[0, INT, 4, 32]], names, ("s", "a")),
        None
    );
    let (inner, int) = ([0, STRUCT | 1, 4, 3, 3, u32::MAX], [0, INT, 4, 32]);
    let outer = [1, STRUCT | 1, 4, 0, 2, u32::MAX];
    let found = find_in(&[&outer, &inner, &int], names, ("s", "a"));
    assert_eq!(found.unwrap().offset, 2 * (u32::MAX / 8));
}

#[test]
fn what_is_no_btf_is_told_apart() {
    let why = |file: &[u8]| Btf::parse(file).unwrap_err();
    let file = built(&[0, INT, 4, 32], "\0");
    assert_eq!(why(b"# Kernel configuration"), MalformedBtf::Header);
    assert_eq!(why(&file[..20]), MalformedBtf::Header);
    assert_eq!(why(&[0xeb, 0x9f, 1, 0]), MalformedBtf::ByteOrder);
    assert_eq!(why(&file[..file.len() - 1]), MalformedBtf::Short);
    assert_eq!(why(&built(&[0, INT, 4], "\0")), MalformedBtf::CutOff(1));
    let unknown = built(&[0, INT, 4, 32, 0, 20 << 24, 0], "\0");
    assert_eq!(why(&unknown), MalformedBtf::Kind(2, 20));
}

/// Reads everything in the file.
fn read(file: &[u8], module: &[u8]) {
    let names = [
        ("nfs_pgio_header", "task.tk_status"),
        ("dentry", "d_name.hash_len"),
        ("nfs_inode", "vfs_inode"),
    ];
    let look = |btf: &Btf| {
        find_members(btf, &names);
        for found in btf.numbers().filter_map(|number| btf.get(number)) {
            btf.name(found.name);
            found.target().and_then(|target| btf.plain(target));
            let plain = found.members().map(|member| btf.plain(member.number));
            assert_eq!(plain.count(), found.members().count());
            found.parameters().for_each(drop);
        }
    };
    let Ok(kernel) = Btf::parse(file) else { return };
    look(&kernel);
    if let Ok(module) = Btf::parse_module(module, &kernel) {
        look(&module);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn damaged_btf_is_read_without_panic_and_without_end(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        of_module in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        kernel in 1..4_usize,
    ) {
        let (_, root) = &kernels()[kernel];
        let read_file = |name: &str| std::fs::read(root.join("sys/kernel/btf").join(name)).unwrap();
        let (mut file, mut module) = (read_file("vmlinux"), read_file("nfs"));
        let damage = |file: &mut Vec<u8>, flips: &[(prop::sample::Index, u8)]| {
            for (at, byte) in flips {
                let at = at.index(file.len());
                file[at] = *byte;
            }
        };
        damage(&mut file, &flips);
        damage(&mut module, &of_module);
        if let Some(cut) = cut {
            let cut = cut.index(file.len() + module.len());
            module.truncate(cut);
            file.truncate(cut.max(file.len() / 2));
        }
        read(&file, &module);
    }

    #[test]
    fn any_bytes_after_a_header_are_read(
        types in prop::collection::vec(prop::sample::select(vec![
            0, 1, 2, 3, 4, 12, u32::MAX, INT, ARRAY | 7, STRUCT | 1, STRUCT | 2, STRUCT | WITH_BITS | 3, TYPEDEF, 2 << 24,
            13 << 24 | 2, 15 << 24 | 1,
        ]), 0..64),
    ) {
        let file = built(&types, "\0nfs_pgio_header\0task\0tk_status\0");
        read(&file, &file);
    }
}
