//! A real Prometheus in another network namespace scrapes by TLS with a certificate and a password. Without one of them it gets nothing.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::run::{Run, scripts};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let program = scripts().join("prometheus.py");
    let flags = ["--deb", "prometheus,openssl", "--add"];
    Run::script(
        "metrics_tls",
        &[&flags[..], &[program.to_str().unwrap()]].concat(),
    )
});

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_only_the_right_scraper_is_answered() {
    let asked = RUN.json("targets.json");
    assert_eq!(asked["up"], json!(["right"]), "{asked}");
    assert_eq!(asked["versions"], json!(["right"]), "{asked}");
    let targets = asked["targets"].as_object().unwrap();
    assert_eq!(targets.len(), 9, "{asked}");
    for (job, target) in targets {
        let error = target["error"].as_str().unwrap();
        println!("{job}: {error}");
        let (health, has) = match job.as_str() {
            "right" => ("up", ""),
            "wrong_authority" | "wrong_server" => ("down", "x509"),
            "wrong_user" | "wrong_password" => ("down", "401"),
            _ => ("down", ""),
        };
        assert_eq!(target["health"], Value::from(health), "{job}: {error}");
        assert!(error.contains(has), "{job}: {error}");
    }
}
