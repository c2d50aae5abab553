//! End to end through the real program: a server, workers and clients as processes.

mod bad_input;
mod browser;
mod callers;
mod cluster;
mod config;
mod dashboard;
mod end_by;
mod enforce;
mod entries;
mod explain;
mod failures;
mod follow;
mod functions;
mod graphs;
mod jobs;
mod journal;
mod lifeline;
mod logs;
mod make;
mod matrix;
mod metrics;
mod nodes;
mod outputs;
#[path = "../../../../tests/patience.rs"]
mod patience;
mod printed;
mod promised;
mod reference;
mod run;
mod run_state;
mod server;
mod streams;
mod submit;
mod terminal;
mod web;
mod workers;
