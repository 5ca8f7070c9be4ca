//! `/api/v1`: the parameters are command-line flags, and the answers are output of commands.

mod answers;
mod endpoints;
mod openapi;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;

use super::jobs::Jobs;
use super::program::Program;
use super::{live, state};
pub use answers::{Said, refuse, refuse_job};
use answers::{arrow, rows, stacks, tagged, written};
pub use endpoints::{ENDPOINTS, Endpoint, Kind};
pub use openapi::openapi;

/// Answers requests.
#[derive(Clone, Debug)]
pub struct Api {
    stores: Arc<[PathBuf]>,
    socket: PathBuf,
    program: Program,
    jobs: Jobs,
}

/// Parameters of a request.
struct Parameters {
    /// In the order of the request.
    given: Vec<(String, String)>,
}

impl Api {
    /// An API for these stores, and for the recorder at this socket.
    pub fn new(stores: Vec<PathBuf>, socket: PathBuf, program: Program) -> Self {
        Self {
            stores: stores.into(),
            socket,
            program,
            jobs: Jobs::new(program),
        }
    }

    /// Its paths.
    pub(super) fn router(self) -> Router {
        let program = self.program;
        let describe = move || async move { written(&openapi(&(program.commands)())) };
        let mut router = Router::new()
            .route("/api/v1/openapi.json", get(describe))
            .route("/api/v1/meta", get(meta));
        for endpoint in ENDPOINTS {
            let answer = move |State(api): State<Self>,
                               RawQuery(query): RawQuery,
                               headers: HeaderMap| async move {
                api.answer(endpoint, query.as_deref().unwrap_or_default(), &headers)
                    .await
            };
            router = router.route(&format!("/api/v1/{}", endpoint.name), get(answer));
        }
        let unknown = || async {
            refuse(
                StatusCode::NOT_FOUND,
                "there is nothing here; /api/v1/openapi.json lists what there is",
            )
        };
        router.fallback(unknown).with_state(self)
    }

    async fn answer(
        &self,
        endpoint: &'static Endpoint,
        query: &str,
        headers: &HeaderMap,
    ) -> Response {
        let parameters = match Parameters::parse(query, endpoint) {
            Ok(parameters) => parameters,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        if endpoint.answer == Kind::Live {
            let mut words = self.words(endpoint, &parameters, &[]);
            words.push(flag("socket", self.socket.as_os_str()));
            return live::follow(&self.jobs, words, parameters.first("since"), headers);
        }
        let tag = self.tag(endpoint, query, &parameters).await;
        let is_known = |tag: &str| {
            let known = headers.get_all(IF_NONE_MATCH).into_iter();
            known
                .filter_map(|of| of.to_str().ok())
                .flat_map(|of| of.split(','))
                .any(|of| {
                    let of = of.trim();
                    of == "*" || of.strip_prefix("W/").unwrap_or(of) == tag
                })
        };
        // Weak, because the compressed answer has different bytes.
        let weak = tag.as_ref().map(|tag| format!("W/{tag}"));
        if tag.as_deref().is_some_and(is_known) {
            return tagged(StatusCode::NOT_MODIFIED.into_response(), weak);
        }
        let is_arrow = parameters.first("format") == Some("arrow");
        let format: &[(&str, &str)] = match (endpoint.answer, is_arrow) {
            (Kind::Rows, true) => &[("format", "arrow")],
            (Kind::Rows, false) | (Kind::Objects, _) => &[("format", "json")],
            _ => &[],
        };
        let mut words = self.words(endpoint, &parameters, format);
        words.extend(
            self.stores
                .iter()
                .map(|store| flag("store", store.as_os_str())),
        );
        let memory = trackiops_store::read_memory().to_string();
        words.push(flag("max-read-memory", memory.as_ref()));
        let answered = match self.jobs.run(&words).await {
            Ok(answered) => answered,
            Err(error) => return refuse_job(&error),
        };
        let said = Said::read(&answered.stderr);
        match answered.status.code() {
            Some(status) if self.program.has_answered(status) => {
                let answer = match (endpoint.answer, is_arrow) {
                    (Kind::Rows, true) => arrow(answered, &said.notes),
                    (Kind::Stacks, _) => stacks(&answered.stdout, &said),
                    _ => rows(&answered, &said),
                };
                tagged(answer, weak)
            }
            Some(_) => refuse(StatusCode::BAD_REQUEST, &said.notes.join("; ")),
            None => refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                &format!("the question has ended early ({})", answered.status),
            ),
        }
    }

    /// The command line, without the store.
    fn words(
        &self,
        endpoint: &Endpoint,
        parameters: &Parameters,
        more: &[(&str, &str)],
    ) -> Vec<OsString> {
        let usual = endpoint.usual.iter();
        let usual = usual.filter(|(name, _)| parameters.first(name).is_none());
        let given = parameters.given.iter().filter(|(name, _)| name != "format");
        let given = given.map(|(name, value)| (&**name, &**value));
        let flags = given.chain(usual.chain(more).copied());
        let command = endpoint.command.iter().map(Into::into);
        // The client must not learn which files this host has.
        let stored = endpoint.takes("file").then(|| "--stored-names".into());
        command
            .chain(stored)
            .chain(flags.map(|(name, value)| flag(name, value.as_ref())))
            .collect()
    }

    /// The tag of the answer, if its range has fixed times.
    async fn tag(
        &self,
        endpoint: &Endpoint,
        query: &str,
        parameters: &Parameters,
    ) -> Option<String> {
        let range = state::fixed_range(parameters.first("since"), parameters.first("until"))?;
        let stores = Arc::clone(&self.stores);
        let question = format!("{}?{query}", endpoint.name);
        let reads = endpoint.reads(parameters.given.iter().map(|(_, value)| &**value));
        let tag = move || state::tag(&stores, range, &question, reads);
        let tag = tokio::task::spawn_blocking(tag);
        tag.await.ok()?.ok()
    }
}

/// One argument, whatever characters the value contains.
fn flag(name: &str, value: &std::ffi::OsStr) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value);
    flag
}

impl Parameters {
    fn parse(query: &str, endpoint: &Endpoint) -> Result<Self, String> {
        let mut given = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !endpoint.takes(&name) {
                return Err(format!(
                    "{} takes no parameter `{name}`; it takes {}",
                    endpoint.name,
                    endpoint.parameters().join(", ")
                ));
            }
            let is_format = ["json", "arrow"].contains(&&*value);
            if name == "format" && !is_format {
                return Err(format!("format is json or arrow, not `{value}`"));
            }
            if value.contains('\0') {
                return Err(format!("{name} has a zero byte, which no name has"));
            }
            if name == "columns" && value == "help" {
                return Err(
                    "columns lists names; docs/reference/columns.md has all of them".to_owned(),
                );
            }
            given.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { given })
    }

    fn first(&self, name: &str) -> Option<&str> {
        let mut given = self.given.iter();
        given.find(|(of, _)| of == name).map(|(_, value)| &**value)
    }
}

/// Describes the stores and the recorder.
async fn meta(State(api): State<Api>) -> Response {
    let stores = Arc::clone(&api.stores);
    let of_stores = tokio::task::spawn_blocking(move || state::describe(&stores));
    let socket = flag("socket", api.socket.as_os_str());
    let status = [OsString::from("status"), "--json".into(), socket];
    let recorder = async {
        let answered = api.jobs.run(&status).await.ok()?;
        serde_json::from_slice::<Value>(&answered.stdout).ok()
    };
    let (of_stores, recorder) = tokio::join!(of_stores, recorder);
    match of_stores {
        Ok(Ok(mut meta)) => {
            meta["version"] = env!("CARGO_PKG_VERSION").into();
            meta["recorder"] = recorder.unwrap_or_default();
            tagged(written(&meta), None)
        }
        Ok(Err(error)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_argument() {
        let value = "--output=/etc/passwd; $(x) \"";
        let words = flag("file", value.as_ref());
        assert_eq!(words, OsString::from(format!("--file={value}")));
    }
}
