//! Errors as Python sees them. Their classes are in `headquarters/_base.py`, where they have texts and attributes.

use hq_client::ClientError;
use hq_client::options::OptionsError;
use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

pyo3::import_exception!(headquarters._base, NativeError);
pyo3::import_exception!(headquarters._base, ServerLost);
pyo3::import_exception!(headquarters._base, Forked);

/// What the client library says.
pub(crate) fn of_client(error: &ClientError) -> PyErr {
    let arguments = (error.code(), error.to_string());
    match error {
        ClientError::Lost(_) | ClientError::Replaced { .. } => ServerLost::new_err(arguments),
        _ => NativeError::new_err(arguments),
    }
}

/// Options that are none.
pub(crate) fn of_options(error: &OptionsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An answer that does not belong to the request.
pub(crate) fn unexpected() -> PyErr {
    of_client(&ClientError::Unexpected)
}
