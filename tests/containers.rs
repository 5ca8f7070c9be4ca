//! The container image: all documented ways to run it give it the same rights. `make guest-container` runs it.

#[path = "guest/oci.rs"]
mod oci;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name)).unwrap()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split([' ', ','])
        .filter(|word| !word.is_empty())
        .collect()
}

/// The values of an option in the guide's command.
fn option<'c>(command: &'c str, name: &str) -> BTreeSet<&'c str> {
    let options = command.split_whitespace();
    let values = options.filter_map(|option| option.strip_prefix(name)?.strip_prefix('='));
    values.collect()
}

/// The text after the only `key` of a text, up to the end of the line.
fn value<'t>(text: &'t str, key: &str) -> &'t str {
    let mut found = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(key));
    let value = found.next().unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(found.next(), None, "{key}");
    value.trim()
}

fn run(program: &str, args: &[&str], dir: &Path) -> String {
    let mut ran = Command::new(program);
    let ran = ran
        .args(args)
        .current_dir(dir)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{program} {args:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_guide_the_daemon_set_and_the_unit_give_the_same_rights() {
    let command = oci::commands("podman run");
    let unit = file("contrib/trackiops.service");
    let set = file("contrib/kubernetes/trackiops.yaml");

    let of_unit = value(&unit, "CapabilityBoundingSet=").replace("CAP_", "");
    let of_set = value(&set, "add:").replace(['[', ']'], "");
    assert_eq!(option(&command, "--cap-add"), words(&of_unit));
    assert_eq!(words(&of_set), words(&of_unit));
    assert_eq!(value(&unit, "MemoryMax="), "512M");
    assert_eq!(option(&command, "--memory"), words("512m"));
    let limits = set.split("limits:").nth(1).unwrap();
    assert_eq!(
        limits.split_whitespace().take(2).collect::<Vec<_>>(),
        ["memory:", "512Mi"]
    );
    let seconds = value(&unit, "TimeoutStopSec=");
    assert_eq!(option(&command, "--stop-timeout"), words(seconds));
    assert_eq!(value(&set, "terminationGracePeriodSeconds:"), seconds);
    assert_eq!(value(&set, "hostPID:"), "true");

    let image = format!("localhost/trackiops:{}", oci::VERSION);
    assert!(command.trim_end().ends_with(&image), "{command}");
    assert_eq!(value(&set, "image:"), image);

    // Except for settings that only Kubernetes nodes have.
    let mounts = set.split("volumeMounts:").nth(1).unwrap();
    let (mounts, volumes) = mounts.split_once("volumes:").unwrap();
    for volume in option(&command, "--volume") {
        let (path, rest) = volume.split_once(':').unwrap();
        let mut mount = mounts.split("- name:");
        let at = format!("mountPath: {path}\n");
        let mount = mount.find(|mount| mount.contains(&at)).unwrap();
        assert!(volumes.contains(&format!("path: {path}\n")), "{path}");
        assert_eq!(
            mount.contains("readOnly: true"),
            rest == format!("{path}:ro"),
            "{path}"
        );
    }
}

#[test]
fn the_image_has_the_program_and_no_more() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let program = Path::new(ROOT).join("contrib/package/oci-image.py"); // any program
    let [image, again] = ["image.tar", "again.tar"].map(|name| dir.join(name));
    oci::image(&program, &image);
    oci::image(&program, &again);
    assert!(
        fs::read(&image).unwrap() == fs::read(&again).unwrap(),
        "other bytes"
    );

    run("tar", &["-xf", "image.tar"], dir);
    let json = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(dir.join(name)).unwrap()).unwrap()
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let name = format!("blobs/{}", digest.replace(':', "/"));
        let sum = run("sha256sum", &[&name], dir);
        assert_eq!(sum.split(' ').next(), digest.strip_prefix("sha256:"));
        assert_eq!(
            fs::metadata(dir.join(&name)).unwrap().len(),
            descriptor["size"]
        );
        name
    };
    assert_eq!(json("oci-layout")["imageLayoutVersion"], "1.0.0");
    let index = &json("index.json")["manifests"][0];
    let manifest = json(&blob(index));
    let [config, layer] = [&manifest["config"], &manifest["layers"][0]].map(blob);
    let name = format!("localhost/trackiops:{}", oci::VERSION);
    for annotation in [
        "org.opencontainers.image.ref.name",
        "io.containerd.image.name",
    ] {
        assert_eq!(index["annotations"][annotation], *name);
    }
    let of_docker = &json("manifest.json")[0];
    assert_eq!(of_docker["RepoTags"][0], *name);
    assert_eq!(
        (&of_docker["Config"], &of_docker["Layers"][0]),
        (&config.clone().into(), &layer.clone().into())
    );
    assert_eq!(
        json(&config)["config"]["Entrypoint"][0],
        "/usr/bin/trackiops"
    );

    let listed = run("tar", &["--numeric-owner", "-tvf", &layer], dir);
    let mut found = BTreeSet::new();
    for line in listed.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words[1], words[3]), ("0/0", "2023-11-14"), "{line}");
        found.insert(format!("{} {}", words[0], words[5]));
    }
    let expected = [
        "drwxr-xr-x etc/",
        "drwxr-xr-x etc/trackiops/",
        "-rw-r--r-- etc/trackiops/trackiops.toml",
        "drwxr-xr-x run/",
        "drwxr-xr-x run/trackiops/",
        "drwxrwxrwt tmp/",
        "drwxr-xr-x usr/",
        "drwxr-xr-x usr/bin/",
        "-rwxr-xr-x usr/bin/trackiops",
        "drwxr-xr-x usr/share/",
        "drwxr-xr-x usr/share/doc/",
        "drwxr-xr-x usr/share/doc/trackiops/",
        "-rw-r--r-- usr/share/doc/trackiops/LICENSE-MIT",
        "drwxr-xr-x var/",
        "drwxr-xr-x var/lib/",
        "drwxr-x--- var/lib/trackiops/",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
}
