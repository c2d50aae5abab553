//! What the tasks of a submit may be, whatever else there is.

use hq_model::body::Mpi;
use hq_model::job::Target;
use hq_model::{Body, Request, Submit, pulled};

use super::count_of;
use crate::client_messages::{ClientRequest, RequestError};
use crate::limits::LOCALITY_KEY_MAX;

/// What starts ranks that are no world of MPI.
const WITHOUT_MPI: [&str; 2] = ["direct", "none"];

/// Refuses what no worker and no relay could execute.
pub(in crate::server) fn check_spec(submit: &Submit) -> Result<(), RequestError> {
    let invalid = |text: &str| Err(RequestError::Invalid(text.into()));
    let spec = &submit.spec;
    if spec.body.is_empty() {
        return invalid("A task needs a program.");
    }
    if let Some(function) = spec.body.function() {
        function.check().map_err(|rule| RequestError::Invalid(format!("The function of a task {rule}.")))?;
        let has_ranks = spec.requests.iter().any(|request| request.ranks > 0);
        if spec.requests.iter().any(|request| request.nodes > 0 && request.ranks == 0) {
            return invalid("A function is called on whole nodes only by ranks: say how many each node has.");
        }
        if !has_ranks && (function.mpi != Mpi::Warm || function.gathers) {
            return invalid("A function without ranks has no world, and gathers nothing.");
        }
        if has_ranks && WITHOUT_MPI.contains(&spec.launcher.as_str()) {
            return invalid("The ranks of a function are started by a launcher of MPI.");
        }
        if spec.service || !spec.stdin.is_empty() {
            return invalid("A function has no standard input, and is no service.");
        }
    }
    if spec.requests.is_empty() {
        return invalid("A task needs a resource request.");
    }
    check_pulled(submit)?;
    if spec.body == Body::Given {
        return Err(RequestError::Invalid("A task of an object is made by giving that.".into()));
    }
    crate::server::objects::check(spec)?;
    if spec.locality.as_ref().is_some_and(|key| key.len() > LOCALITY_KEY_MAX) {
        return invalid(&format!("A locality key may be {LOCALITY_KEY_MAX} bytes long at most."));
    }
    hq_model::request::check_variants(&spec.requests)
        .map_err(|error| RequestError::Invalid(format!("Invalid resource request: {error}.")))?;
    Ok(())
}

// Pulled tasks ask for what relays have and nothing else, and nobody else does.
fn check_pulled(submit: &Submit) -> Result<(), RequestError> {
    let invalid = |text: &str| Err(RequestError::Invalid(text.into()));
    let spec = &submit.spec;
    if !spec.body.is_pulled() {
        return match spec.requests.iter().any(Request::is_pulled) {
            true => invalid(
                "Resources whose names begin with `pulled/` are those of relays: give yours another name.",
            ),
            false => Ok(()),
        };
    }
    let Target::Open(job) = submit.target else {
        return invalid("Pulled tasks go into an open job, which is their bag.");
    };
    let asks_for_one = |request: &Request| {
        let (time_request, weight) = (request.time_request, request.weight);
        let tags: Vec<String> = request.tags().map(str::to_owned).collect();
        let are_tags = pulled::tags_of(&tags).is_ok_and(|plain| plain == tags);
        are_tags && Request { time_request, weight, ..Request::pulled(job, &tags) } == *request
    };
    if spec.requests.len() != 1 || !spec.requests.iter().all(asks_for_one) {
        return invalid("A pulled task asks for no resources but its tags.");
    }
    if spec.service || spec.speculate.is_some() || spec.has_aftermath() {
        return invalid("A pulled task is no service, prints nothing, and is not started a second time.");
    }
    let count = count_of(&submit.ids) as usize;
    if submit.keys.len() != count || submit.entries.len() != count {
        return invalid("A pulled task has a name and an entry.");
    }
    for (name, entry) in submit.keys.iter().zip(submit.entries.iter()) {
        match pulled::parts_of(entry) {
            Some((said, payload)) if said == name && payload.len() <= pulled::PAYLOAD_BYTES_MAX => {}
            _ => return invalid("The entry of a pulled task holds its name and at most 64 KiB of payload."),
        }
    }
    Ok(())
}

/// True when a request changes something. Stopping a worker is kept by no record.
pub(super) fn is_change(body: &ClientRequest) -> bool {
    matches!(
        body,
        ClientRequest::Submit { .. }
            | ClientRequest::SubmitAll { .. }
            | ClientRequest::Resubmit { .. }
            | ClientRequest::SubmitJobs { .. }
            | ClientRequest::OpenJob { .. }
            | ClientRequest::Defer { .. }
            | ClientRequest::Ready { .. }
            | ClientRequest::CloseJobs { .. }
            | ClientRequest::SetBudget { .. }
            | ClientRequest::Cancel { .. }
            | ClientRequest::ForgetJobs { .. }
    )
}
