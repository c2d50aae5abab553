//! End to end through the real program: a server, workers and clients as processes.

mod bad_input;
mod cluster;
<<<<<<< HEAD
mod graphs;
=======
mod enforce;
mod explain;
>>>>>>> main
mod jobs;
mod journal;
mod outputs;
mod reference;
mod run;
mod server;
mod submit;
mod workers;
