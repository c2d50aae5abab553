//! Errors as Python sees them. Their classes are in `headquarters/_base.py`, where they have texts and attributes.

use std::borrow::Cow;

use hq_client::ClientError;
use hq_client::options::OptionsError;
use hq_core::client_messages::RequestError;
use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

pyo3::import_exception!(headquarters._base, NativeError);
pyo3::import_exception!(headquarters._base, ServerLost);
pyo3::import_exception!(headquarters._base, Forked);

/// What the client library says.
pub(crate) fn of_client(error: &ClientError) -> PyErr {
    let text = error.to_string();
    let text = match hint(error) {
        Some(hint) => format!("{}: {hint}", text.trim_end_matches('.')),
        None => text,
    };
    let arguments = (error.code(), text);
    match error {
        ClientError::Lost(_) | ClientError::Replaced { .. } => ServerLost::new_err(arguments),
        _ => NativeError::new_err(arguments),
    }
}

// What to do next, in the words of programs where those of the command line would not help.
fn hint(error: &ClientError) -> Option<Cow<'static, str>> {
    match error {
        ClientError::Refused(RequestError::NoJob(_)) => Some("`Client.jobs()` has those that are there".into()),
        ClientError::Refused(RequestError::JobNotOpen(_)) => Some(
            "an executor closes its job at the end of its `with` block and by `shutdown`, and `Client.close_job` does; \
             use another job, or leave `with` out where one is to go on"
                .into(),
        ),
        _ => error.hint(),
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
