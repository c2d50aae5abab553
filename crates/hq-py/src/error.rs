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
    let ClientError::Refused(refused) = error else { return error.hint() };
    match refused.one() {
        RequestError::NoJob(_) => Some("`Client.jobs()` has those that are there".into()),
        RequestError::JobNotOpen(_) => Some(
            "an executor closes its job at the end of its `with` block, by `shutdown` and with its program, and the server \
             when a program was killed and nobody came back in time (`linger`); use another job: one that \
             `Client.open_job` has made goes on until `Client.close_job`"
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
