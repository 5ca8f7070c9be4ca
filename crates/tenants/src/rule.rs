//! One rule: conditions on a row, and the tenant of the rows that meet them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use trackiops_schemas::container::{ContainerOf, namespace_and_pod};
use trackiops_schemas::identity::Tenant;

use crate::groups::{Group, Groups};
use crate::pattern::{Captures, Pattern};
use crate::template::Template;

/// A rule as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    tenant: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    path: Option<String>,
    mount: Option<String>,
    volume: Option<String>,
    claim: Option<String>,
    user: Option<NameOrNumber>,
    group: Option<NameOrNumber>,
    cgroup: Option<String>,
    container: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a name, a pattern or a number")]
enum NameOrNumber {
    Name(String),
    Number(u32),
}

impl From<NameOrNumber> for String {
    fn from(written: NameOrNumber) -> Self {
        match written {
            NameOrNumber::Name(name) => name,
            NameOrNumber::Number(number) => number.to_string(),
        }
    }
}

/// The subject of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Path,
    Mount,
    Volume,
    Claim,
    User,
    Group,
    Cgroup,
    Container,
    Pod,
    Namespace,
}

/// The facts about a row that rules use.
#[derive(Clone, Copy, Debug)]
pub struct Known<'r> {
    /// The name of the mount.
    pub mount: Option<&'r str>,
    /// The volume of this mount, if it is one.
    pub volume: Option<VolumeOf<'r>>,
    /// The file's name at the time.
    pub path: Option<&'r str>,
    /// The user and the cgroup.
    pub tenant: &'r Tenant,
}

/// A volume of Kubernetes or of a container engine.
#[derive(Clone, Copy, Debug)]
pub struct VolumeOf<'r> {
    /// Its name.
    pub name: &'r str,
    /// Its claim, if known.
    pub claim: Option<&'r str>,
}

/// Whether a rule applies to a row.
pub(crate) enum Verdict {
    Yes(Captures),
    No,
    /// Undecided: a value that the rule needs is unknown.
    Unknown,
}

/// The values of a subject in a row. A condition must match one of them.
struct Texts<'r> {
    known: Vec<Cow<'r, str>>,
    /// Whether `known` is complete.
    are_all: bool,
}

impl<'r> Texts<'r> {
    const UNKNOWN: Self = Self {
        known: Vec::new(),
        are_all: false,
    };

    fn all(texts: impl IntoIterator<Item = &'r str>) -> Self {
        let known = texts.into_iter().map(Cow::Borrowed).collect();
        let are_all = true;
        Self { known, are_all }
    }

    fn one(text: Option<&'r str>) -> Self {
        text.map_or(Self::UNKNOWN, |text| Self::all([text]))
    }
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    conditions: Vec<(Subject, Pattern)>,
    tenant: Template,
    labels: Vec<(String, Template)>,
}

impl TryFrom<Written> for Rule {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let subjects = [
            ("path", Subject::Path, written.path),
            ("mount", Subject::Mount, written.mount),
            ("volume", Subject::Volume, written.volume),
            ("claim", Subject::Claim, written.claim),
            ("user", Subject::User, written.user.map(Into::into)),
            ("group", Subject::Group, written.group.map(Into::into)),
            ("cgroup", Subject::Cgroup, written.cgroup),
            ("container", Subject::Container, written.container),
            ("pod", Subject::Pod, written.pod),
            ("namespace", Subject::Namespace, written.namespace),
        ];
        let mut conditions = Vec::new();
        for (key, subject, text) in subjects {
            let Some(text) = text else { continue };
            let is_absolute = text.starts_with(['/', '*', '{', '[', '?']);
            if matches!(subject, Subject::Path | Subject::Cgroup) && !is_absolute {
                return Err(format!(
                    "{key} = \"{text}\": names of files and cgroups begin with `/`"
                ));
            }
            let pattern = match subject {
                Subject::Mount => Pattern::of_mounts(&text),
                _ => Pattern::parse(&text),
            };
            let pattern = pattern.map_err(|why| format!("{key} = \"{text}\": {why}"))?;
            conditions.push((subject, pattern));
        }
        let is_kept = |name: &str| {
            let mut patterns = conditions.iter().map(|(_, pattern)| pattern);
            patterns.any(|pattern| pattern.names().any(|kept| kept == name))
        };
        let template = |key: &str, text: &str| {
            let template = Template::parse(text).ok_or_else(|| {
                format!("{key} = \"{text}\": a brace without a name; write {{name}}")
            })?;
            if let Some(name) = template.names().find(|name| !is_kept(name)) {
                return Err(format!(
                    "{key} = \"{text}\": no condition of the rule has {{{name}}}"
                ));
            }
            Ok(template)
        };
        if written.tenant.is_empty() {
            return Err("tenant is empty".into());
        }
        let tenant = template("tenant", &written.tenant)?;
        let labels = written.labels.iter();
        let labels = labels.map(|(key, text)| Ok((key.clone(), template(key, text)?)));
        Ok(Self {
            labels: labels.collect::<Result<_, String>>()?,
            tenant,
            conditions,
        })
    }
}

impl Rule {
    /// Whether the rule applies to every row.
    pub(crate) fn is_of_all(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether the rule needs groups.
    pub(crate) fn needs_groups(&self) -> bool {
        let mut subjects = self.conditions.iter().map(|(subject, _)| *subject);
        subjects.any(|subject| subject == Subject::Group)
    }

    /// Whether the rule applies to a row.
    pub(crate) fn verdict(&self, known: &Known<'_>, groups: &Groups) -> Verdict {
        let mut captures = Captures::new();
        let mut is_unknown = false;
        for (subject, pattern) in &self.conditions {
            let texts = subject.texts(known, groups);
            let mut candidates = texts.known.iter();
            if !candidates.any(|text| pattern.matches(text, &mut captures)) {
                if texts.are_all {
                    return Verdict::No;
                }
                is_unknown = true;
            }
        }
        match is_unknown {
            true => Verdict::Unknown,
            false => Verdict::Yes(captures),
        }
    }

    /// The tenant's name, and its labels as the text of a JSON object; `None` without any.
    pub(crate) fn named(&self, captures: &Captures) -> (String, Option<String>) {
        let labels = self.labels.iter();
        let labels: BTreeMap<_, _> = labels
            .map(|(key, text)| (key.as_str(), text.complete(captures)))
            .collect();
        // Serializing strings cannot fail.
        let labels =
            (!labels.is_empty()).then(|| serde_json::to_string(&labels).unwrap_or_default());
        (self.tenant.complete(captures), labels)
    }
}

impl Subject {
    fn texts<'r>(self, known: &Known<'r>, groups: &'r Groups) -> Texts<'r> {
        let tenant = known.tenant;
        match self {
            Self::Mount => Texts::one(known.mount),
            Self::Volume | Self::Claim => match (known.mount, known.volume) {
                (_, Some(volume)) => Texts::one(match self {
                    Self::Volume => Some(volume.name),
                    _ => volume.claim,
                }),
                // The mount is not a volume, so there is neither a volume nor a claim.
                (Some(_), None) => Texts::all([]),
                (None, None) => Texts::UNKNOWN,
            },
            // `(other)` and `(missed)` stand for any files.
            Self::Path => Texts::one(known.path.filter(|path| path.starts_with('/'))),
            // A user who is missing in `/etc/passwd` is known only by number.
            Self::User => match tenant.uid {
                None => Texts::UNKNOWN,
                Some(uid) => Texts {
                    known: [
                        Some(uid.to_string().into()),
                        tenant.user.as_deref().map(Cow::Borrowed),
                    ]
                    .into_iter()
                    .flatten()
                    .collect(),
                    are_all: true,
                },
            },
            Self::Group => match tenant.uid {
                None => Texts::UNKNOWN,
                Some(uid) => {
                    let names = |group: &'r Group| [Some(&*group.gid), group.name.as_deref()];
                    Texts::all(groups.of(uid).iter().flat_map(names).flatten())
                }
            },
            Self::Cgroup => Texts::one(cgroup_path(tenant)),
            Self::Container | Self::Pod | Self::Namespace => self.of_container(tenant),
        }
    }

    /// The container, its pod or its namespace. Outside a container, there are none.
    fn of_container(self, tenant: &Tenant) -> Texts<'_> {
        let Some(cgroup) = cgroup_path(tenant) else {
            return Texts::UNKNOWN;
        };
        let of = ContainerOf::cgroup(cgroup);
        let id = of.id.filter(|_| self == Self::Container);
        let name = tenant.container.as_deref().map(|names| {
            let (namespace, pod) = namespace_and_pod(names);
            match self {
                Self::Namespace => namespace,
                Self::Pod => pod,
                _ => names.split('/').nth(2),
            }
        });
        Texts {
            // For containers of pods, the names become known later than the id.
            are_all: name.is_some() || of.pod.is_none(),
            known: [id, name.flatten()]
                .into_iter()
                .flatten()
                .map(Cow::Borrowed)
                .collect(),
        }
    }
}

/// The path of the cgroup. `?id` is a cgroup that was gone before its path was known.
fn cgroup_path(tenant: &Tenant) -> Option<&str> {
    tenant
        .cgroup
        .as_deref()
        .filter(|path| path.starts_with('/'))
}
