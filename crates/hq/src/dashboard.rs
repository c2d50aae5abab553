//! `hq dashboard`: what goes on, live or replayed from a journal, on a terminal or in a browser.
//!
//! `model` is all that is shown and chosen, as data; `screens` draw it; `source` and `replay` answer what it wants to know;
//! `terminal` is the thin shell around these. `web` serves what `source` tells to a page that chooses and draws itself.

mod model;
mod replay;
mod screens;
mod series;
mod source;
mod terminal;
mod text;
mod wants;
mod web;

pub(crate) use replay::Replayer;
pub(crate) use source::Source;
pub(crate) use terminal::{Look, live, replayed};
pub(crate) use web::{Served, WebPlace, serve};
