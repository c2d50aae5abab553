//! Values in the tables of job files that are tables themselves, or read alike everywhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Display};

use hq_model::request::check_variants;
use hq_model::{OnClose, Request, ResourceRequest};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::prepare::request;
use super::task::ResourceOptions;
use super::values::{self, OutputArg};
use super::word::Word;

/// Where an output goes.
pub(super) enum Output {
    Text(String),
    Table(OutputTable),
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Output, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Output;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path as a string, or a table with path and on_close")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Output, E> {
                Ok(Output::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Output, A::Error> {
                OutputTable::deserialize(MapAccessDeserializer::new(table)).map(Output::Table)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Where, and what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputTable {
    path: Option<String>,
    #[serde(alias = "mode")]
    on_close: Option<String>,
}

/// What a task asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestTable {
    #[serde(default)]
    n_nodes: u32,
    #[serde(default)]
    ranks_per_node: u32,
    /// In all.
    #[serde(default)]
    ranks: u32,
    #[serde(default)]
    exclusive: bool,
    time_request: Option<Word>,
    weight: Option<Word>,
    #[serde(default)]
    resources: BTreeMap<String, Word>,
}

/// Without any, one CPU. A request that names no CPUs asks for none.
pub(super) fn requests(tables: Vec<RequestTable>) -> Result<Vec<Request>, String> {
    if tables.is_empty() {
        return Ok(vec![request(&ResourceOptions::default()).map_err(|error| error.to_string())?]);
    }
    let one = |table: RequestTable| -> Result<Request, String> {
        let resource = |(name, amount): (String, Word)| -> Result<ResourceRequest, String> {
            let text = amount.to_string();
            values::resource(&format!("{name}={text}")).map_err(|error| format!("{name} = {text}: {error}"))
        };
        let nodes = table.n_nodes.max(1);
        if table.ranks > 0 && (table.ranks_per_node > 0 || !table.ranks.is_multiple_of(nodes)) {
            return Err(
                "ranks is the total number, divided evenly among the nodes: use ranks_per_node, or ranks \
                with a multiple of n_nodes"
                    .into(),
            );
        }
        let ranks_per_node = if table.ranks > 0 { table.ranks / nodes } else { table.ranks_per_node };
        if table.n_nodes > 0 && ranks_per_node == 0 && !table.resources.is_empty() {
            return Err("n_nodes requests whole workers; omit resources, or use ranks_per_node".into());
        }
        Ok(Request {
            nodes: table.n_nodes.max(u32::from(ranks_per_node > 0)),
            ranks: ranks_per_node,
            exclusive: table.exclusive,
            resources: table.resources.into_iter().map(resource).collect::<Result<_, _>>()?,
            time_request: option("time_request", table.time_request, values::duration)?.unwrap_or_default(),
            weight: option("weight", table.weight, values::weight)?
                .unwrap_or(hq_model::request::WEIGHT_NEUTRAL),
        })
    };
    let requests: Vec<Request> =
        tables.into_iter().map(one).collect::<Result<_, _>>().map_err(|error| format!("request: {error}"))?;
    check_variants(&requests).map_err(|error| format!("request: {error}"))?;
    Ok(requests)
}

/// A value that may be left out.
pub(super) fn option<W: Display, T>(
    key: &str,
    value: Option<W>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    value.map(|word| named(key, parse(&word.to_string()))).transpose()
}

/// A path.
pub(super) fn path(key: &str, text: &str) -> Result<OsString, String> {
    named(key, values::path(text.into()))
}

/// What is wrong with a value, with its key.
pub(super) fn named<T>(key: &str, value: Result<T, String>) -> Result<T, String> {
    value.map_err(|error| format!("{key}: {error}"))
}

/// Where an output goes.
pub(super) fn output(key: &str, output: Option<Output>) -> Result<Option<OutputArg>, String> {
    let (path, on_close) = match output {
        None => return Ok(None),
        Some(Output::Text(text)) => (Some(text), None),
        Some(Output::Table(table)) => (table.path, table.on_close),
    };
    let on_close = match on_close.as_deref() {
        None | Some("none") => OnClose::Keep,
        Some(word) => OnClose::REMOVING
            .into_iter()
            .find(|on_close| on_close.word() == Some(word))
            .ok_or_else(|| format!("{key}: `{word}` is neither rm-if-finished nor rm-if-empty"))?,
    };
    match path {
        Some(path) => match values::output(path.into()).map_err(|error| format!("{key}: {error}"))? {
            OutputArg::File { path, on_close: OnClose::Keep } => Ok(Some(OutputArg::File { path, on_close })),
            suffixed @ OutputArg::File { .. } => Ok(Some(suffixed)),
            OutputArg::None => Ok(Some(OutputArg::None)),
        },
        None => Ok(Some(OutputArg::File { path: None, on_close })),
    }
}
