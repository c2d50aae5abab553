//! The decisions of Headquarters, as pure code.
//!
//! [`server::Server`] and [`worker::Worker`] are state machines: *inputs and the time go in, effects
//! come out*. Nothing here knows a clock, a socket, a thread or a random number. The server process,
//! the worker process and the simulator are shells around the same two machines.

pub mod alloc;
pub mod attempt;
pub mod cause;
pub mod client_messages;
pub mod client_pages;
pub mod clock_gap;
pub mod end_messages;
pub mod event_filter;
pub mod explanation;
pub mod feed;
pub mod interrupt;
pub mod job_shape;
pub mod keeping;
pub mod limit_value;
pub mod limits;
pub mod load_history;
pub mod log;
pub mod mark;
pub mod measures;
pub mod never;
mod new_jobs;
pub mod node_messages;
pub mod object_messages;
pub mod output_messages;
pub mod overview;
pub mod record;
pub mod relay;
pub mod request_error;
pub mod series;
pub mod server;
mod server_info;
pub mod task_use;
pub mod worker;
mod worker_info;
pub mod worker_messages;
mod worker_secret;

pub use worker_secret::WorkerSecret;
