//! The extension module `headquarters._native`: what Python needs of the client library, and nothing else.
//!
//! All that can be said in Python is said there (`python/headquarters`); here are bytes, sockets and options.

mod calls;
mod error;
mod jobs;
mod objects;
mod session;
mod waiting;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let python = module.py();
    module.add("NativeError", python.get_type::<error::NativeError>())?;
    module.add("ServerLost", python.get_type::<error::ServerLost>())?;
    module.add("Forked", python.get_type::<error::Forked>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<calls::Calls>()?;
    module.add_class::<objects::Objects>()?;
    module.add_function(wrap_pyfunction!(calls::find_open_job, module)?)?;
    module.add_class::<session::Session>()
}
