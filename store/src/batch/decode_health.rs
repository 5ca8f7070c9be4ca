//! Decodes rows of health from record batches.

use std::sync::Arc;

use arrow::array::{
    Array, AsArray, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use trackiops_schemas::captured::{Captured, Stream, StreamBytes};
use trackiops_schemas::columns;
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::row::Health;
use trackiops_schemas::time::UtcMs;

use super::decode::{BatchError, Counters, column, elements, text};
use crate::column_values::{time_of, unsigned};

/// A row of a health segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHealth<'a> {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: &'a str,
    /// The recorder's account of itself.
    pub health: Health,
}

/// Decodes the rows of a batch of a health segment, in order.
pub fn decode_health<'a>(
    batch: &'a RecordBatch,
    mut each: impl FnMut(StoredHealth<'a>),
) -> Result<(), BatchError> {
    let times: Option<&TimestampMicrosecondArray> = column(batch, columns::TIME)?;
    let hosts: Option<&StringArray> = column(batch, columns::HOST)?;
    let counters = Counters::new(batch, "", &Health::COUNTERS)?;
    let pending = PendingColumns::new(batch)?;
    let filters: Option<&StringArray> = column(batch, columns::FILTER)?;
    let sources: Option<&StringArray> = column(batch, columns::SOURCE)?;
    let captured = StreamColumns::new(batch)?;
    for i in 0..batch.num_rows() {
        each(StoredHealth {
            time: time_of(times.map_or(0, |times| times.value(i))),
            host: text(hosts, i).unwrap_or_default(),
            health: Health {
                pending: pending.as_ref().and_then(|pending| pending.at(i)),
                filter: text(filters, i).map(Arc::from),
                source: text(sources, i).map(Arc::from),
                captured: captured
                    .as_ref()
                    .map(|columns| columns.at(i))
                    .unwrap_or_default(),
                ..Health::of_counters(counters.at(i))
            },
        });
    }
    Ok(())
}

/// The columns of pending requests in a health row.
struct PendingColumns<'a> {
    requests_max: &'a Int64Array,
    age_ms_max: &'a Int64Array,
    /// `None` if no row has any.
    clients: Option<ClientColumns<'a>>,
}

/// The columns of the clients with pending requests.
struct ClientColumns<'a> {
    lists: &'a ListArray,
    clients: &'a Int64Array,
    servers: &'a StringArray,
    mounts: &'a ListArray,
    mount_names: &'a StringArray,
    client_requests_max: &'a Int64Array,
    client_age_ms_max: &'a Int64Array,
}

impl<'a> PendingColumns<'a> {
    /// `None` if the batch does not have the numbers of all clients.
    fn new(batch: &'a RecordBatch) -> Result<Option<Self>, BatchError> {
        let number = |name| column::<Int64Array>(batch, name);
        let (Some(requests_max), Some(age_ms_max)) = (
            number(columns::PENDING_REQUESTS_MAX)?,
            number(columns::PENDING_AGE_MS_MAX)?,
        ) else {
            return Ok(None);
        };
        let clients = match column(batch, columns::PENDING_CLIENTS)? {
            None => None,
            Some(lists) => {
                let columns = ClientColumns::of_elements(lists);
                Some(columns.ok_or(BatchError(columns::PENDING_CLIENTS.into()))?)
            }
        };
        Ok(Some(Self {
            requests_max,
            age_ms_max,
            clients,
        }))
    }

    fn at(&self, i: usize) -> Option<Pending> {
        let known = self.requests_max.is_valid(i) && self.age_ms_max.is_valid(i);
        let clients = self.clients.as_ref().map(|clients| clients.at(i));
        known.then(|| Pending {
            requests_max: unsigned(self.requests_max.value(i)),
            age_ms_max: unsigned(self.age_ms_max.value(i)),
            clients: clients.unwrap_or_default(),
        })
    }
}

impl<'a> ClientColumns<'a> {
    fn of_elements(lists: &'a ListArray) -> Option<Self> {
        let elements = lists.values().as_struct_opt()?;
        let field = |name| elements.column_by_name(name).map(|array| array.as_any());
        let mounts: &ListArray = field(columns::MOUNTS)?.downcast_ref()?;
        Some(Self {
            lists,
            clients: field(columns::CLIENT)?.downcast_ref()?,
            servers: field(columns::SERVER)?.downcast_ref()?,
            mounts,
            mount_names: mounts.values().as_any().downcast_ref()?,
            client_requests_max: field(columns::REQUESTS_MAX)?.downcast_ref()?,
            client_age_ms_max: field(columns::AGE_MS_MAX)?.downcast_ref()?,
        })
    }

    fn at(&self, i: usize) -> Vec<PendingClient> {
        let client = |at| PendingClient {
            client: u32::try_from(self.clients.value(at)).unwrap_or(0),
            server: text(Some(self.servers), at).map(str::to_owned),
            mounts: elements(self.mounts, at)
                .map(|at| self.mount_names.value(at).to_owned())
                .collect(),
            requests_max: unsigned(self.client_requests_max.value(at)),
            age_ms_max: unsigned(self.client_age_ms_max.value(at)),
        };
        elements(self.lists, i).map(client).collect()
    }
}

/// The column of captured streams in a health row.
struct StreamColumns<'a> {
    lists: &'a ListArray,
    ends: [&'a StringArray; 2],
    carriers: &'a StringArray,
    directions: &'a StringArray,
    counters: [&'a Int64Array; StreamBytes::COUNT],
}

impl<'a> StreamColumns<'a> {
    /// `None` if the batch does not have the column.
    fn new(batch: &'a RecordBatch) -> Result<Option<Self>, BatchError> {
        let Some(lists) = column::<ListArray>(batch, columns::CAPTURED)? else {
            return Ok(None);
        };
        let columns = Self::of_elements(lists);
        columns
            .map(Some)
            .ok_or(BatchError(columns::CAPTURED.into()))
    }

    fn of_elements(lists: &'a ListArray) -> Option<Self> {
        let elements = lists.values().as_struct_opt()?;
        let text = |name| elements.column_by_name(name)?.as_string_opt();
        let counters = StreamBytes::COUNTERS.iter().map(|counter| {
            let column = elements.column_by_name(counter.name)?;
            column.as_primitive_opt::<Int64Type>()
        });
        let counters: Vec<_> = counters.collect::<Option<_>>()?;
        Some(Self {
            lists,
            ends: [text(columns::CLIENT)?, text(columns::SERVER)?],
            carriers: text(columns::TRANSPORT)?,
            directions: text(columns::DIRECTION)?,
            counters: counters.try_into().ok()?,
        })
    }

    fn at(&self, i: usize) -> Captured {
        let mut captured = Captured::default();
        for at in elements(self.lists, i) {
            let counters = self.counters.map(|column| unsigned(column.value(at)));
            let bytes = StreamBytes::of_counters(counters);
            captured.add(self.stream(at), &bytes);
        }
        captured
    }

    /// `None` for the stream of all others, or if a forged file names no stream.
    fn stream(&self, at: usize) -> Option<Stream> {
        let [client, server] = self.ends;
        Some(Stream {
            client: text(Some(client), at)?.parse().ok()?,
            server: text(Some(server), at)?.parse().ok()?,
            carrier: text(Some(self.carriers), at)?.parse().ok()?,
            direction: text(Some(self.directions), at)?.parse().ok()?,
        })
    }
}
