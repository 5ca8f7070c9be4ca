//! Entry points for `fuzz/` alone: they give arbitrary bytes to the parsers of the kernel's files
//! and records and of `/etc/passwd`.

use std::path::Path;
use std::sync::LazyLock;

use trackiops_schemas::identity::Dev;

use crate::btf::{Btf, Kind, find_members};
use crate::connections::sock_diag::take_answers;
use crate::facts::{KernelFacts, TRACEPOINTS, Tracefs};
use crate::names::mountinfo::{CgroupRoots, parse_mountinfo};
use crate::names::mounts::Mounts;
use crate::names::open_files::{parse_fdinfo, parse_maps};
use crate::names::path_ring::PathEvent;
use crate::plan::members::MEMBERS;
use crate::plan::{EngineChoice, plan};
use crate::stalls::rpc_tasks::{parse_server, parse_task};
use crate::tenants::users;
use crate::tracefs::TracepointFormat;

/// Looks for the plan's members in BTF of a kernel and of a module.
pub fn btf(kernel: &[u8], module: &[u8]) {
    let Ok(kernel) = Btf::parse(kernel) else {
        return;
    };
    look(&kernel);
    if let Ok(module) = Btf::parse_module(module, &kernel) {
        look(&module);
    }
}

fn look(btf: &Btf) {
    let _ = find_members(btf, &MEMBERS);
    let _ = btf.find(Kind::Function, "bpf_rdonly_cast");
    let _ = btf.find(Kind::Typedef, "btf_trace_nfs_readpage_done");
    for number in btf.numbers() {
        let Some(found) = btf.get(number) else {
            continue;
        };
        let _ = (
            btf.name(found.name),
            btf.plain(number),
            found.size(),
            found.elements(),
        );
        let members = found.members().map(|member| member.number);
        for number in members.chain(found.parameters()).take(64) {
            let _ = btf.plain(number);
        }
    }
}

/// Plans from descriptions of tracepoints, which are separated by zero bytes.
pub fn formats(text: &[u8]) {
    static FACTS: LazyLock<KernelFacts> = LazyLock::new(|| KernelFacts {
        nfs_client: true,
        tracefs: Tracefs::At("/".into()),
        ..KernelFacts::read_in(Path::new("/nonexistent"))
    });
    let texts = text.split(|byte| *byte == 0);
    let mut facts = FACTS.clone();
    for ((_, event), text) in TRACEPOINTS.into_iter().zip(texts) {
        let _ = TracepointFormat::parse(text).field("status");
        facts.formats.insert(event.to_owned(), text.to_vec());
    }
    if let Err(why) = plan(&facts, EngineChoice::Tracepoint, None) {
        let _ = why.to_string();
    }
}

/// Parses the bytes as files of `/proc` and sunrpc's debugfs, and as `/etc/passwd`.
pub fn proc(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // The first mounts, and those that replace them.
    let (first, then) = match bytes.iter().position(|byte| *byte == 0) {
        Some(zero) => (&bytes[..zero], &bytes[zero + 1..]),
        None => (bytes, &[][..]),
    };
    let (first, then) = (parse_mountinfo(first), parse_mountinfo(then));
    let mut mounts = Mounts::default();
    for now in [&first, &then] {
        let _ = (mounts.gone_devices(now), mounts.left_devices(now));
        mounts.follow_own(now);
        let _ = mounts.take_news(false);
    }
    for mount in first.iter().chain(&then).take(16) {
        let place = [mount.source.as_bytes(), b"/a/b"].concat();
        let _ = mounts.path(mount.dev, &place);
        mounts.note_top(mount.dev, &place);
        let _ = mounts.name_of(mount.dev, Some(&place));
        let _ = mounts.cannot_hold(mount.dev, Some(&place));
    }
    let _ = CgroupRoots::of(bytes);
    let _ = parse_fdinfo(&text, &first);
    let _ = parse_maps(bytes, |dev| dev != Dev(0));
    let _ = users::parse_passwd(bytes);
    let _ = parse_server(&text);
    for line in text.lines() {
        let _ = parse_task(line);
    }
}

/// Decodes paths of the kernel side, and answers about sockets.
pub fn records(bytes: &[u8]) {
    take_answers(bytes, 0, &mut [None; 2]);
    if let Some(told) = PathEvent::decode(bytes) {
        assert!(told.top_bytes <= bytes.len());
    }
}
