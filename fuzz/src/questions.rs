//! Questions to a store with any content.

use std::fs;
use std::path::{Path, PathBuf};

use trackiops_query::times::Zone;
use trackiops_query::{
    Connections, Explain, Figures, GroupBy, Outcome, Projection, Question, Range, Subject, ask,
    ask_files, ask_operations, ask_operations_by, ask_volume,
};
use trackiops_render::Format;
use trackiops_render::Render;
use trackiops_render::formats::Texts;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, Writer};

/// 2026-11-22T12:00:00Z.
const NOW: UtcMs = UtcMs(1_795_348_800_000);

/// An empty store, which is reused.
pub fn store(name: &str) -> PathBuf {
    let name = format!("trackiops-fuzz-{name}-{}", std::process::id());
    let store = std::env::temp_dir().join(name);
    let options = Options {
        host: "h".into(),
        granularities: "1s,10s,1m,1h".parse().expect("these are granularities"),
        rotate: "15m".parse().expect("this is one"),
        filter: None,
        source: None,
        allow_nfs_store: true,
        most_files: Options::MOST_FILES,
        keep: Default::default(),
    };
    let writer = Writer::open(&store, options).expect("a store can be made");
    writer.finish().expect("a store can be left");
    for dataset in ["rollup", "health", "ops"] {
        let segments = store.join(dataset).join("granularity=1s/date=2026-11-22");
        fs::create_dir_all(segments).expect("a directory can be made");
    }
    store
}

/// Asks everything, and writes every answer.
pub fn ask_everything(store: &Path) {
    let question = Question {
        stores: vec![store.into()],
        files: Vec::new(),
        range: Range::default(),
        step: None,
        mounts: Vec::new(),
        volumes: Vec::new(),
        tenants: Vec::new(),
        tenant_rules: None,
        levels: Vec::new(),
        ops: Vec::new(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        by: GroupBy::FILE,
        projection: Projection::all(),
        now: NOW,
        zone: Zone::utc(),
        explain: Explain::default(),
        row_limit: Some(10_000),
        usual: None,
        view: None,
    };
    for by in ["file,tenant", "dir", "host"] {
        let Ok(Subject::Files(by)) = by.parse() else {
            continue;
        };
        write(ask(&Question {
            by,
            ..question.clone()
        }));
    }
    let all = Question {
        step: "all".parse().ok(),
        conditions: "bytes > 1 or p99 > 0 or errors > 1"
            .parse()
            .into_iter()
            .collect(),
        sort: "write_throughput".parse().ok(),
        ..question.clone()
    };
    write(ask(&all));
    write(ask_files(&question));
    write(ask_operations(&question, Connections::Apart));
    write(ask_operations_by(&question, GroupBy::FILE));
    let _ = ask_volume(store, &Default::default());
}

fn write<R: Render, E>(outcome: Result<Outcome<R>, E>) {
    let Ok(Outcome::Found(answer)) = outcome else {
        return;
    };
    for format in [
        Format::Table(Figures::Rates),
        Format::Table(Figures::Parts),
        Format::Csv(Texts::ForSpreadsheets),
    ] {
        let _ = trackiops_render::write(&answer, format, Zone::utc(), &mut Vec::new());
    }
    for note in &answer.notes {
        let _ = note.show(Zone::utc());
    }
}
