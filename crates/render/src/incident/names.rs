//! The names of a report, each stored once, so that pseudonyms replace all of them in one place.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use serde::Serialize;
use trackiops_query::group::TenantKey;
use trackiops_schemas::columns::{
    CGROUP, CONTAINER, FILEID, HOST, MOUNT, OP, PATH, TENANT_NAME, UID, USER,
};
use trackiops_schemas::identity::Tenant;

use super::IncidentError;
use crate::pseudonym::columns::TranslateError;
use crate::pseudonym::{self, Check, Key, Pseudonyms, Way};

/// The tenants of each host, with the names that they have in an answer about the whole range.
pub type TenantNames = HashMap<(Arc<str>, TenantKey), Arc<Tenant>>;

/// Lists of names. Rows refer to them by index.
#[derive(Debug, Default, Serialize)]
pub struct Names {
    hosts: Vec<String>,
    mounts: Vec<String>,
    paths: Vec<String>,
    operations: Vec<String>,
    /// Text, because numbers in JavaScript have only 53 bits.
    #[serde(serialize_with = "as_text")]
    fileids: Vec<i64>,
    tenants: Tenants,
    #[serde(skip)]
    known: Known,
}

#[derive(Debug, Default, Serialize)]
struct Tenants {
    uid: Vec<Option<i64>>,
    user: Vec<Option<String>>,
    cgroup: Vec<Option<String>>,
    container: Vec<Option<String>>,
    tenant_name: Vec<Option<String>>,
}

/// Indices in the lists.
#[derive(Debug, Default)]
struct Known {
    texts: HashMap<(&'static str, String), usize>,
    fileids: HashMap<i64, usize>,
    tenants: HashMap<(Arc<str>, TenantKey), usize>,
}

fn as_text<S: serde::Serializer>(numbers: &[i64], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(
        numbers
            .iter()
            .map(|number| number.cast_unsigned().to_string()),
    )
}

impl Names {
    pub fn host(&mut self, name: &str) -> usize {
        place(&mut self.known, HOST, &mut self.hosts, name)
    }

    pub fn mount(&mut self, name: &str) -> usize {
        place(&mut self.known, MOUNT, &mut self.mounts, name)
    }

    pub fn path(&mut self, name: &str) -> usize {
        place(&mut self.known, PATH, &mut self.paths, name)
    }

    pub fn operation(&mut self, name: &str) -> usize {
        place(&mut self.known, OP, &mut self.operations, name)
    }

    pub fn fileid(&mut self, fileid: u64) -> usize {
        let fileid = fileid.cast_signed();
        *self.known.fileids.entry(fileid).or_insert_with(|| {
            self.fileids.push(fileid);
            self.fileids.len() - 1
        })
    }

    /// Each host has its own names of users, containers and tenants.
    pub fn tenant(&mut self, host: &Arc<str>, key: &TenantKey, named: &TenantNames) -> usize {
        let Tenants {
            uid,
            user,
            cgroup,
            container,
            tenant_name: name,
        } = &mut self.tenants;
        let key = (Arc::clone(host), key.clone());
        let tenant = named.get(&key).unwrap_or(&key.1.tenant);
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        *self.known.tenants.entry(key.clone()).or_insert_with(|| {
            uid.push(tenant.uid.map(i64::from));
            user.push(text(&tenant.user));
            cgroup.push(text(&tenant.cgroup));
            container.push(text(&tenant.container));
            name.push(text(&tenant.name));
            uid.len() - 1
        })
    }

    /// Replaces all names. Fails if a name remains, or if the pseudonyms do not translate back.
    pub fn hide(&mut self, key: &Key, with: &mut Pseudonyms) -> Result<(), IncidentError> {
        let mut check = Check::new(key);
        let plain = self.batches()?;
        let mut hidden = Vec::new();
        for batch in &plain {
            let made = pseudonym::apply(batch, with)?;
            check.leads_back(batch, &made)?;
            hidden.push(made);
        }
        self.replace(&hidden);
        for batch in self.batches()? {
            check.tells_nothing(&batch)?;
        }
        Ok(())
    }

    /// A batch for each list.
    fn batches(&self) -> Result<Vec<RecordBatch>, TranslateError> {
        let texts = |texts: &[String]| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(texts.iter()))
        };
        let optional = |texts: &[Option<String>]| -> ArrayRef {
            Arc::new(StringArray::from_iter(texts.iter().map(Option::as_deref)))
        };
        let Tenants {
            uid,
            user,
            cgroup,
            container,
            tenant_name: name,
        } = &self.tenants;
        let fileids: ArrayRef = Arc::new(Int64Array::from(self.fileids.clone()));
        let uid: ArrayRef = Arc::new(Int64Array::from(uid.clone()));
        let lists = [
            vec![(HOST, texts(&self.hosts))],
            vec![(MOUNT, texts(&self.mounts))],
            vec![(PATH, texts(&self.paths))],
            vec![(OP, texts(&self.operations))],
            vec![(FILEID, fileids)],
            vec![
                (UID, uid),
                (USER, optional(user)),
                (CGROUP, optional(cgroup)),
                (CONTAINER, optional(container)),
                (TENANT_NAME, optional(name)),
            ],
        ];
        let batch = |list| RecordBatch::try_from_iter(list);
        Ok(lists.into_iter().map(batch).collect::<Result<_, _>>()?)
    }

    /// Takes the lists from batches in the form of [`Self::batches`].
    fn replace(&mut self, batches: &[RecordBatch]) {
        let optional = |batch: &RecordBatch, name: &str| -> Vec<Option<String>> {
            let texts = batch[name].as_string::<i32>().iter();
            texts.map(|text| text.map(str::to_owned)).collect()
        };
        let numbers = |batch: &RecordBatch, name: &str| -> Vec<Option<i64>> {
            batch[name].as_primitive::<Int64Type>().iter().collect()
        };
        let texts =
            |batch: &RecordBatch, name| optional(batch, name).into_iter().flatten().collect();
        let [hosts, mounts, paths, operations, fileids, tenants] = batches else {
            return;
        };
        self.hosts = texts(hosts, HOST);
        self.mounts = texts(mounts, MOUNT);
        self.paths = texts(paths, PATH);
        self.operations = texts(operations, OP);
        self.fileids = numbers(fileids, FILEID).into_iter().flatten().collect();
        self.tenants = Tenants {
            uid: numbers(tenants, UID),
            user: optional(tenants, USER),
            cgroup: optional(tenants, CGROUP),
            container: optional(tenants, CONTAINER),
            tenant_name: optional(tenants, TENANT_NAME),
        };
    }
}

fn place(known: &mut Known, of: &'static str, list: &mut Vec<String>, name: &str) -> usize {
    let place = known.texts.entry((of, name.to_owned()));
    *place.or_insert_with(|| {
        list.push(name.to_owned());
        list.len() - 1
    })
}

/// Pseudonyms of a key.
pub fn pseudonyms(key: &Key) -> Pseudonyms {
    Pseudonyms::new(key, Way::Hide)
}
