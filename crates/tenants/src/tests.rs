use trackiops_schemas::identity::Tenant;

use super::*;

fn tenant(packed: &str, user: Option<&str>, container: Option<&str>) -> Tenant {
    Tenant {
        user: user.map(Into::into),
        container: container.map(Into::into),
        ..packed.parse().unwrap()
    }
}

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap()
}

/// Name and labels that rules give.
fn named(rules: &Rules, path: &str, tenant: &Tenant) -> Option<(String, Option<String>)> {
    let known = Known {
        volume: None,
        mount: Some("srv:/exp"),
        path: Some(path).filter(|path| !path.is_empty()),
        tenant,
    };
    rules.of(&known).map(|found| (found.name, found.labels))
}

fn name(rules: &Rules, path: &str, tenant: &Tenant) -> Option<String> {
    named(rules, path, tenant).map(|(name, _)| name)
}

#[test]
fn the_first_rule_that_applies_names_the_tenant() {
    let rules = rules(
        r#"
        [[rule]]
        path = "/mnt/vols/{customer}/{tier}-*/**"
        tenant = "{customer}"
        labels = { tier = "{tier}", region = "eu" }
        [[rule]]
        mount = "srv:/e*"
        user = "backup"
        tenant = "backup"
        [[rule]]
        tenant = "rest"
        "#,
    );
    let of = tenant("7:/a", Some("backup"), None);
    assert_eq!(
        named(&rules, "/mnt/vols/acme/gold-1/a/b", &of),
        Some((
            "acme".into(),
            Some(r#"{"region":"eu","tier":"gold"}"#.into())
        ))
    );
    assert_eq!(
        named(&rules, "/mnt/other", &of),
        Some(("backup".into(), None))
    );
    let of = tenant("7:/a", Some("ann"), None);
    assert_eq!(name(&rules, "/mnt/other", &of).as_deref(), Some("rest"));
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let rules = rules(
        "[[rule]]\nuser = 'root'\ntenant = 'system'\n[[rule]]\npath = '/mnt/a/**'\nuser = 1000\ntenant = 'a'\n[[rule]]\ntenant = 'rest'\n",
    );
    let [root, ann, bob] = [("0", Some("root")), ("1000", Some("ann")), ("1001", None)]
        .map(|(uid, user)| tenant(uid, user, None));
    // The path does not matter if the user decides.
    for path in ["", "(other)", "/mnt/a/x"] {
        assert_eq!(name(&rules, path, &root).as_deref(), Some("system"));
        assert_eq!(name(&rules, path, &bob).as_deref(), Some("rest"));
    }
    assert_eq!(name(&rules, "/mnt/a/x", &ann).as_deref(), Some("a"));
    assert_eq!(name(&rules, "/mnt/b/x", &ann).as_deref(), Some("rest"));
    for path in ["", "(other)", "(missed)"] {
        assert_eq!(name(&rules, path, &ann), None, "{path}");
    }
    assert_eq!(name(&rules, "/mnt/a/x", &Tenant::default()), None);
}

#[test]
fn a_container_is_matched_by_id_pod_and_namespace() {
    let id = "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce";
    let pod = format!("7:/kubepods/pod{}/{id}", "a".repeat(32));
    let docker = format!("7:/system.slice/docker-{id}.scope");
    let text = |condition: &str| {
        format!("[[rule]]\n{condition}\ntenant = 't'\n[[rule]]\ntenant = 'rest'\n")
    };
    for (condition, of, expected) in [
        (
            "namespace = 'shop'",
            tenant(&pod, None, Some("shop/web/nginx")),
            Some("t"),
        ),
        (
            "namespace = 'other'",
            tenant(&pod, None, Some("shop/web/nginx")),
            Some("rest"),
        ),
        ("namespace = 'shop'", tenant(&pod, None, None), None),
        (
            "namespace = 'shop'",
            tenant(&docker, None, None),
            Some("rest"),
        ),
        (
            "namespace = 'shop'",
            tenant("7:/user.slice", None, None),
            Some("rest"),
        ),
        ("namespace = 'shop'", tenant("7:?77", None, None), None),
        (
            "pod = 'w*'",
            tenant(&pod, None, Some("shop/web")),
            Some("t"),
        ),
        (
            "container = 'nginx'",
            tenant(&pod, None, Some("shop/web/nginx")),
            Some("t"),
        ),
        (
            "container = '4e07*'",
            tenant(&docker, None, None),
            Some("t"),
        ),
        ("container = '4e07*'", tenant(&pod, None, None), Some("t")),
        ("container = 'nginx'", tenant(&pod, None, None), None),
        (
            "cgroup = '/kubepods/**'",
            tenant(&pod, None, None),
            Some("t"),
        ),
        ("cgroup = '/{slice}/**'", tenant("7:?77", None, None), None),
    ] {
        assert_eq!(
            name(&rules(&text(condition)), "/a", &of).as_deref(),
            expected,
            "{condition} {of:?}"
        );
    }
}

#[test]
fn captures_of_one_name_must_agree() {
    let rules = rules("[[rule]]\npath = '/home/{user}/**'\nuser = '{user}'\ntenant = '{user}'\n");
    let ann = tenant("1000", Some("ann"), None);
    assert_eq!(name(&rules, "/home/ann/x", &ann).as_deref(), Some("ann"));
    assert_eq!(name(&rules, "/home/bob/x", &ann), None);
}

#[test]
fn the_groups_of_a_user_decide() {
    let root = tenant("0", Some("root"), None);
    let by_name = rules("[[rule]]\ngroup = 'root'\ntenant = 'system'\n");
    let by_number = rules("[[rule]]\ngroup = 0\ntenant = 'system'\n");
    let other = rules("[[rule]]\ngroup = 'no-such-group'\ntenant = 'system'\n");
    assert_eq!(name(&by_name, "/a", &root).as_deref(), Some("system"));
    assert_eq!(name(&by_number, "/a", &root).as_deref(), Some("system"));
    assert_eq!(name(&other, "/a", &root), None);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, expected) in [
        ("", "line 1: there is no [[rule]]"),
        ("[[rule]]\npath = '/a'\n", "line 1: missing field `tenant`"),
        (
            "\n[[rule]]\npaht = '/a'\ntenant = 'a'\n",
            "line 3: unknown field `paht`",
        ),
        ("[[rules]]\n", "line 1: unknown field `rules`"),
        (
            "[[rule]]\ntenant = '{x}'\n",
            "no condition of the rule has {x}",
        ),
        ("[[rule]]\ntenant = 'a{'\n", "a brace without a name"),
        ("[[rule]]\ntenant = ''\n", "tenant is empty"),
        (
            "[[rule]]\npath = 'vols/*'\ntenant = 'a'\n",
            "begin with `/`",
        ),
        (
            "[[rule]]\npath = '/[z'\ntenant = 'a'\n",
            "`[` without characters",
        ),
        (
            "[[rule]]\nuser = -1\ntenant = 'a'\n",
            "expected a name, a pattern or a number",
        ),
        (
            "[[rule]]\ntenant = 'a'\n\n[[rule]]\nuser = 'b'\ntenant = 'b'\n",
            "line 4: the rule before it applies to everything",
        ),
        ("[[rule]\n", "line 1: "),
    ] {
        let error = Rules::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
