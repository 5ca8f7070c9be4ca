//! The report of a check of a store, for people and for programs.

use serde_json::{Value, json};
use trackiops_query::times::{Zone, rfc3339, show_range};
use trackiops_store::{Covers, Finding, Repaired, Report, StoreIds};

use crate::units::{self, plural};

/// The report as JSON: a repair before the check, each finding, and the totals.
pub fn objects(repaired: Option<&Repaired>, report: &Report) -> Vec<Value> {
    let repaired = repaired.map(repair_object);
    let findings = report.findings.iter().map(finding_object);
    let totals = [totals_object(report)];
    repaired.into_iter().chain(findings).chain(totals).collect()
}

/// The report as lines of text.
pub fn lines(repaired: Option<&Repaired>, report: &Report, zone: Zone) -> Vec<String> {
    let repaired = repaired.map(repair_line);
    let findings = report.findings.iter();
    let findings = findings.flat_map(|finding| finding_lines(finding, zone));
    let waiting = (report.waiting > 0).then(|| waiting_line(report));
    let ids = report.ids.as_ref().map(ids_line);
    let lines = repaired.into_iter().chain(findings).chain(waiting);
    lines.chain(ids).chain([summary(report)]).collect()
}

/// A finding as JSON.
fn finding_object(finding: &Finding) -> Value {
    let Finding {
        path,
        why,
        covers,
        next,
    } = finding;
    let covers = covers.as_ref();
    json!({
        "kind": "finding",
        "path": path.to_string_lossy(),
        "why": why,
        "start": covers.map(|covers| rfc3339(covers.start)),
        "end": covers.map(|covers| rfc3339(covers.end)),
        "files": covers.map(|covers| covers.files),
        "names": covers.map(|covers| &covers.names),
        "next": next,
    })
}

/// A repair as JSON.
fn repair_object(repaired: &Repaired) -> Value {
    let Repaired {
        hidden,
        shown,
        deleted,
        left,
    } = repaired;
    let left: Vec<_> = left.iter().map(ToString::to_string).collect();
    json!({"kind": "repair", "hidden": hidden, "shown": shown, "deleted": deleted, "left": left})
}

/// The totals of a check as JSON.
fn totals_object(report: &Report) -> Value {
    let Report {
        ids,
        findings,
        journals,
        segments,
        rows,
        bytes,
        waiting,
        waiting_bytes,
    } = report;
    let ids = ids.as_ref();
    json!({
        "kind": "summary",
        "store_id": ids.map(|ids| ids.id),
        "former_ids": ids.map(|ids| &ids.former),
        "is_copy": ids.map(|ids| ids.is_copy),
        "findings": findings.len(),
        "journals": journals,
        "segments": segments,
        "rows": rows,
        "bytes": bytes,
        "waiting": waiting,
        "waiting_bytes": waiting_bytes,
    })
}

/// A finding as lines of text.
fn finding_lines(finding: &Finding, zone: Zone) -> Vec<String> {
    let Finding {
        path,
        why,
        covers,
        next,
    } = finding;
    let mut lines = vec![format!("{}: {why}", path.display())];
    lines.extend(covers.as_ref().map(|covers| {
        let range = show_range(covers.start, covers.end, zone);
        format!("    covers {range}{}", covered_files(covers))
    }));
    lines.push(format!("    {next}"));
    lines
}

fn covered_files(covers: &Covers) -> String {
    let Covers { files, names, .. } = covers;
    let unnamed = files.saturating_sub(names.len() as u64);
    let names = names.join(", ");
    match (files, unnamed, names.is_empty()) {
        (0, ..) => String::new(),
        (1, _, true) => "; 1 file".to_owned(),
        (_, _, true) => format!("; {files} files"),
        (_, 0, _) => format!("; {names}"),
        _ => format!("; {names} and {unnamed} more files"),
    }
}

fn repair_line(repaired: &Repaired) -> String {
    let Repaired {
        hidden,
        shown,
        deleted,
        ref left,
    } = *repaired;
    if *repaired == Repaired::default() {
        return "nothing to repair".to_owned();
    }
    let mut text = format!(
        "repaired: {} hidden, {} shown, {} deleted",
        plural(hidden, "superseded segment"),
        plural(shown, "segment"),
        plural(deleted, "file")
    );
    for notice in left {
        text.push_str(&format!("\nnot repaired: {notice}"));
    }
    text
}

fn waiting_line(report: &Report) -> String {
    format!(
        "{} of merged or expired segments ({}), hidden from `*.parquet`, will be deleted: by the recorder within minutes, or by \
         `trackiops store check --repair` while nobody records",
        plural(report.waiting, "file"),
        units::bytes(report.waiting_bytes)
    )
}

/// The id of a store, and the last of its former ones.
fn ids_line(ids: &StoreIds) -> String {
    let StoreIds {
        id,
        former,
        is_copy,
    } = ids;
    let mut line = format!("store id {id}");
    if let Some(former) = former.last() {
        line += &format!(", formerly {former}");
    }
    if *is_copy {
        line += "; this is a copy, and takes a new id when it is recorded into";
    }
    line
}

fn summary(report: &Report) -> String {
    let Report {
        findings,
        journals,
        segments,
        rows,
        bytes,
        ..
    } = report;
    let found = match findings.len() as u64 {
        0 => "nothing is damaged".to_owned(),
        n => plural(n, "problem"),
    };
    format!(
        "checked the catalog, {}, {}, {}, {}: {found}",
        plural(*journals, "journal"),
        plural(*segments, "segment"),
        plural(*rows, "row"),
        units::bytes(*bytes)
    )
}
