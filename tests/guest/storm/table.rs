//! The table of results, and its page in `docs/`.

use std::path::Path;

use crate::storm::check::Outcome;

/// Pairs of requests: recorded (including missed ones), and counted by the kernel.
pub const HEAD: &str = "\
| kernel | memory | seconds | recorders | CPU offline | NFS unloaded | vfat unloaded | reads and writes | block requests: recorded | kernel | NFS requests: recorded | kernel | pages reclaimed | KFENCE guarded | most memory of a recorder, MiB | verdict |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
";

pub fn line(o: &Outcome) -> String {
    let [block, device] = o.block;
    let [wire, mountstats] = o.wire;
    let guarded = o
        .guarded
        .map_or("no KFENCE".to_owned(), |count| count.to_string());
    let verdict = if o.failures.is_empty() {
        "no harm"
    } else {
        "FAILED"
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {block} | {device} | {wire} | {mountstats} | {} | {guarded} | {} | {verdict} |\n",
        o.release,
        o.flavour.name,
        o.seconds,
        o.count("recorders"),
        o.count("offline"),
        o.count("nfs"),
        o.count("vfat"),
        o.calls,
        o.reclaimed,
        o.memory_kib >> 10,
    )
}

/// Replaces the table of the page.
pub fn write_docs(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results/harm.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("| kernel |").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
    std::fs::write(page, format!("{before}{table}\n{after}")).unwrap();
}
