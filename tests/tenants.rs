//! Tenants named by rules: while recording, in questions, and for trial.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use trackiops_testkit::{case, program};

const RECORDED: &str = "\
recording web 1s,10s 1m 2026-11-21T03:00:00Z store
mount 0:49 nas:/vols /mnt/vols
0 write /mnt/vols/acme/a 4 x1000 1ms tenant=1000:/a.slice user=ann
0 write /mnt/vols/acme/b 2 x1000 1ms tenant=1001:/b.slice user=bob
1 write /mnt/vols/zeta/a 8 x1000 1ms tenant=1000:/a.slice user=ann
1 read /mnt/vols/zeta/a 16 x1000 1ms tenant=0:/system.slice user=root
2 write /mnt/vols/acme/a 32 x1000 1ms tenant=1000:/a.slice user=ann name=acme labels={\"tier\":\"gold\"}
3 write /mnt/vols/acme/a 64 x1000 1ms tenant=1001:/b.slice user=bob name=acme labels={\"tier\":\"iron\"}
9 idle
";

const RULES: &str = "\
[[rule]]
user = 'root'
tenant = 'system'

[[rule]]
path = '/mnt/vols/{customer}/**'
mount = 'nas:*'
tenant = 'customer {customer}'
labels = { name = '{customer}' }
";

/// Runs a command about the store, with rules beside it.
fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(args).current_dir(dir).env("TZ", "UTC0");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes by tenant and labels.
fn writes(dir: &Path, args: &[&str]) -> BTreeMap<String, u64> {
    let output = run(
        dir,
        &[args, &["--store", "store", "--format", "json"]].concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut writes = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let of = ["tenant_name", "user", "labels"].map(|name| row[name].as_str().unwrap_or("-"));
        *writes.entry(of.join(" ")).or_default() += row["write_requests"].as_u64().unwrap();
    }
    writes
}

fn recorded() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    case::record(RECORDED, dir.path()).unwrap();
    fs::write(dir.path().join("rules.toml"), RULES).unwrap();
    dir
}

fn sums(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter()
        .map(|(tenant, writes)| ((*tenant).to_owned(), *writes))
        .collect()
}

#[test]
fn a_row_of_a_tenant_is_the_sum_of_its_users_and_the_others_are_by_user() {
    let dir = recorded();
    let by = ["query", "--step", "all", "--by", "tenant"];
    let all = [("- ann -", 12), ("- bob -", 2), ("- root -", 0)];
    let acme = ("acme - {\"tier\":\"iron\"}", 96);
    assert_eq!(writes(dir.path(), &by), sums(&[&all[..], &[acme]].concat()));
    let columns = ["--columns", "tenant", "--format", "csv"];
    let shown = run(
        dir.path(),
        &[
            &by[..],
            &["--store", "store", "--sort", "write_requests"],
            &columns,
        ]
        .concat(),
    );
    assert_eq!(
        text(&shown.stdout),
        "tenant\nacme\n1000:/a.slice\n1001:/b.slice\n0:/system.slice\n"
    );
    let only = |tenant| writes(dir.path(), &[&by[..], &["--tenant", tenant]].concat());
    assert_eq!(only("ac*"), sums(&[acme]));
    assert_eq!(only("ann"), sums(&[("- ann -", 12)]));
    assert_eq!(only("1001:/b.slice"), sums(&[("- bob -", 2)]));
    let none = run(
        dir.path(),
        &["query", "--store", "store", "--tenant", "nobody"],
    );
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text(&none.stderr).contains("tenant nobody"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn rules_name_the_tenants_of_the_past() {
    let dir = recorded();
    let rules = ["--tenants", "rules.toml"];
    let by = [&["query", "--step", "all", "--by", "tenant"][..], &rules].concat();
    let [acme, zeta] =
        ["acme", "zeta"].map(|name| format!("customer {name} - {{\"name\":\"{name}\"}}"));
    let zeta_of_ann = zeta.replace(" - ", " ann ");
    let expected = sums(&[(&acme, 102), (&zeta_of_ann, 8), ("system root -", 0)]);
    assert_eq!(writes(dir.path(), &by), expected);
    let windows = [
        &["query", "--step", "1s", "--by", "file,tenant"][..],
        &rules,
    ]
    .concat();
    let sum = |writes: &BTreeMap<String, u64>| writes.values().sum::<u64>();
    assert_eq!(sum(&writes(dir.path(), &windows)), sum(&expected));
    let zeta = [&by[..], &["--tenant", "customer z*"]].concat();
    assert_eq!(writes(dir.path(), &zeta), sums(&[(&zeta_of_ann, 8)]));
    let ops = [
        "query", "--by", "op", "--tenant", "system", "--store", "store", "--format", "csv",
    ];
    let ops = run(dir.path(), &[&ops[..], &rules].concat());
    assert!(text(&ops.stdout).contains("READ") && !text(&ops.stdout).contains("WRITE"));
}

#[test]
fn a_trial_says_what_each_rule_matched() {
    let dir = recorded();
    let path = dir.path().join("rules.toml");
    fs::write(
        &path,
        format!("[[rule]]\ngroup = 'no-such-group'\ntenant = 'x'\n{RULES}"),
    )
    .unwrap();
    let test = run(
        dir.path(),
        &["tenants", "test", "rules.toml", "--store", "store"],
    );
    let said = text(&test.stderr);
    for expected in [
        "rules.toml:1: rule 1: nothing",
        "rules.toml:4: rule 2: 1 names of files, 16 requests, 16000 bytes",
        "rules.toml:8: rule 3: ",
        "no tenant: nothing",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    assert!(
        text(&test.stdout).contains("customer acme"),
        "{}",
        text(&test.stdout)
    );
    fs::write(&path, "[[rule]]\npath = '/a'\n").unwrap();
    let wrong = run(
        dir.path(),
        &["tenants", "test", "rules.toml", "--store", "store"],
    );
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    assert!(text(&wrong.stderr).contains("line 1: missing field `tenant`"));
}

#[test]
fn an_export_keeps_the_users_of_a_tenant_apart() {
    let dir = recorded();
    let export = [
        "export", "--store", "store", "--format", "csv", "--output", "rows.csv", "--tenant", "acme",
    ];
    let output = run(dir.path(), &export);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = fs::read_to_string(dir.path().join("rows.csv")).unwrap();
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(rows.contains(",ann,") && rows.contains(",bob,"), "{rows}");
}
