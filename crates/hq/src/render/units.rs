//! How amounts and policies are written in JSON: as users write them, or, in version 0, as programs read them that were
//! written for HyperQueue.

use std::cell::Cell;
use std::time::Duration;

use hq_model::{Amount, AmountRequest, Policy};
use serde_json::{Value, json};

use super::text;

/// The version in which amounts are ten-thousandths, and nothing says which version it is.
pub(crate) const VERSION_RAW: u32 = 0;

thread_local! {
    static IS_RAW: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread writes documents of that version.
pub(crate) fn set_version(version: u32) {
    IS_RAW.set(version == VERSION_RAW);
}

/// True in version 0.
pub(super) fn is_raw() -> bool {
    IS_RAW.get()
}

/// An amount of a resource.
pub(super) fn amount(amount: Amount) -> Value {
    if is_raw() { amount.0.into() } else { text::amount(amount) }
}

/// How much a request asks for, without its policy.
pub(super) fn asked(request: &AmountRequest) -> Value {
    match request {
        AmountRequest::All if is_raw() => "All".into(),
        AmountRequest::All => "all".into(),
        AmountRequest::Some(asked, _) => amount(*asked),
    }
}

/// How much a request asks for, and how it is to be chosen.
pub(super) fn request(request: &AmountRequest) -> Value {
    match request {
        AmountRequest::All => asked(request),
        AmountRequest::Some(amount, policy) if is_raw() => json!({ raw_word(*policy): amount.0 }),
        AmountRequest::Some(amount, policy) => json!({ policy.to_string(): text::amount(*amount) }),
    }
}

/// The weight of a variant.
pub(super) fn weight(weight: u32) -> Value {
    if is_raw() {
        return weight.into();
    }
    (f64::from(weight) / f64::from(hq_model::request::WEIGHT_NEUTRAL)).into()
}

/// How long a worker must live, or will.
pub(super) fn time(duration: Duration) -> Value {
    if is_raw() {
        return json!({ "secs": duration.as_secs(), "nanos": duration.subsec_nanos() });
    }
    duration.as_secs_f64().into()
}

fn raw_word(policy: Policy) -> &'static str {
    match policy {
        Policy::Compact => "Compact",
        Policy::CompactStrict => "ForceCompact",
        Policy::Tight => "Tight",
        Policy::TightStrict => "ForceTight",
        Policy::Scatter => "Scatter",
    }
}
