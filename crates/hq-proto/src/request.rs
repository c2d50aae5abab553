//! Resource requests on the wire.

use std::time::Duration;

use hq_model::{Amount, AmountRequest, Policy, Request, ResourceRequest};

use crate::ProtoError;
use crate::error::{in_range, model, present, rule};
use crate::generated::{self as form, resource_request::Amount as AmountForm};
use crate::limits::RESOURCES_MAX;
use crate::wire::{Wire, list_from_wire, list_to_wire, name, nanos, wire_enum};

wire_enum!(Policy = Policy, "policy": Compact, CompactStrict, Tight, TightStrict, Scatter);

impl Wire for Request {
    type Form = form::Request;

    fn to_wire(&self) -> form::Request {
        form::Request {
            nodes: self.nodes,
            ranks: self.ranks,
            exclusive: self.exclusive,
            resources: list_to_wire(&self.resources),
            time_request_ns: nanos(self.time_request),
            weight: self.weight,
        }
    }

    fn from_wire(request: form::Request) -> Result<Request, ProtoError> {
        in_range("resources of a request", request.resources.len() as u64, 0, RESOURCES_MAX as u64)?;
        let resources: Vec<ResourceRequest> = list_from_wire(request.resources)?;
        let is_sorted = resources.is_sorted_by(|a, b| a.name < b.name);
        rule("resources of a request", is_sorted, "must be sorted by name, each once")?;
        let request = Request {
            nodes: request.nodes,
            ranks: request.ranks,
            exclusive: request.exclusive,
            resources,
            time_request: Duration::from_nanos(request.time_request_ns),
            weight: request.weight,
        };
        model("request", request.check_nodes())?;
        Ok(request)
    }
}

impl Wire for ResourceRequest {
    type Form = form::ResourceRequest;

    fn to_wire(&self) -> form::ResourceRequest {
        let (amount, policy) = match self.amount {
            AmountRequest::All => (AmountForm::All(form::Nothing {}), form::Policy::Unspecified as i32),
            AmountRequest::Some(amount, policy) => (AmountForm::Units(amount.0), policy.to_wire()),
        };
        form::ResourceRequest { name: self.name.clone(), amount: Some(amount), policy }
    }

    fn from_wire(resource: form::ResourceRequest) -> Result<ResourceRequest, ProtoError> {
        let amount = match present("amount of a resource", resource.amount)? {
            AmountForm::All(_) => AmountRequest::All,
            AmountForm::Units(units) => {
                let units = in_range("amount of a resource", units, 1, Amount::MAX.0)?;
                AmountRequest::Some(Amount(units), Policy::from_wire(resource.policy)?)
            }
        };
        Ok(ResourceRequest { name: resource_name(resource.name)?, amount })
    }
}

/// The name of a pool.
pub(crate) fn resource_name(text: String) -> Result<String, ProtoError> {
    let text = name("name of a resource", text)?;
    model("name of a resource", hq_model::request::check_name(&text))?;
    Ok(text)
}
