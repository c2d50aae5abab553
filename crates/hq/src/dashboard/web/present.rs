//! What is known of the server at any time, for all who watch: its counts, whether it answers, and how that was before.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use hq_core::client_messages::Overview;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::series::{Point, Series};
use super::super::source::{News, Watcher};
use super::stream;
use crate::error::HqError;
use crate::render;

/// What is known.
pub(super) struct Present {
    inner: Arc<Mutex<Inner>>,
    frames: watch::Receiver<Bytes>,
    allows_actions: bool,
}

struct Inner {
    overview: Box<Overview>,
    lost: Option<String>,
    series: Series,
}

impl Present {
    /// Begins to watch the server of a directory.
    pub(super) fn watch(server_dir: &Path, allows_actions: bool) -> Result<Present, HqError> {
        let (watcher, overview) = Watcher::connect(server_dir)?;
        let mut series = Series::default();
        series.push(Point::of(&overview));
        let first = stream::named("overview", &document(&overview, allows_actions));
        let inner = Arc::new(Mutex::new(Inner { overview, lost: None, series }));
        let (tell, frames) = watch::channel(first);
        let written = Arc::clone(&inner);
        thread::Builder::new().name("hq-watch".to_owned()).spawn(move || {
            watcher.run(|news| {
                let mut inner = lock(&written);
                let frame = match news {
                    News::Overview(overview) => {
                        inner.series.push(Point::of(&overview));
                        let frame = stream::named("overview", &document(&overview, allows_actions));
                        (inner.overview, inner.lost) = (overview, None);
                        frame
                    }
                    News::Lost(why) => {
                        let frame = stream::named("lost", &json!({ "error": why }));
                        inner.lost = Some(why);
                        frame
                    }
                    // Nobody asked.
                    News::Answer(..) | News::Done(..) => return true,
                };
                drop(inner);
                tell.send(frame).is_ok()
            });
        })?;
        Ok(Present { inner, frames, allows_actions })
    }

    /// The counts as they were last, and why there are no later ones.
    pub(super) fn overview(&self) -> Value {
        let inner = lock(&self.inner);
        let mut document = document(&inner.overview, self.allows_actions);
        document["server_lost"] = inner.lost.as_deref().into();
        document
    }

    /// Name of the server.
    pub(super) fn uid(&self) -> String {
        lock(&self.inner).overview.uid.clone()
    }

    /// How it was: a list for each value.
    pub(super) fn series(&self) -> Value {
        let inner = lock(&self.inner);
        let points = inner.series.points();
        let column = |value: fn(&Point) -> Value| points.iter().map(value).collect::<Vec<_>>();
        json!({
            "at": column(|point| (point.at.0 as f64 / 1e6).into()),
            "ended": column(|point| point.ended.into()),
            "failed": column(|point| point.failed.into()),
            "running": column(|point| point.running.into()),
            "waiting": column(|point| point.waiting.into()),
            "cpus": column(|point| point.cpus.into()),
            "gpus": column(|point| point.gpus.into()),
            "memory": column(|point| point.memory.into()),
        })
    }

    /// The counts whenever they have changed, as parts of a stream.
    pub(super) fn frames(&self) -> watch::Receiver<Bytes> {
        self.frames.clone()
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn document(overview: &Overview, allows_actions: bool) -> Value {
    let mut document = render::overview::document(overview);
    document["allows_actions"] = allows_actions.into();
    document
}
