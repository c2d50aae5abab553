//! The tools of all conversions: a trait for types with a form on the wire, and the values that
//! appear everywhere (names, times, durations, enumerations).

use std::time::Duration;

use prost::Message;

use crate::error::{ProtoError, present, rule};
use crate::limits::NAME_BYTES_MAX;

/// A core type with a form on the wire.
pub(crate) trait Wire: Sized {
    /// The generated type.
    type Form;

    /// Never fails: whatever the core holds can be said.
    fn to_wire(&self) -> Self::Form;

    /// Checks what a peer said.
    fn from_wire(form: Self::Form) -> Result<Self, ProtoError>;
}

/// The forms of all values.
pub(crate) fn list_to_wire<T: Wire>(values: &[T]) -> Vec<T::Form> {
    values.iter().map(Wire::to_wire).collect()
}

/// The values of all forms.
pub(crate) fn list_from_wire<T: Wire>(forms: Vec<T::Form>) -> Result<Vec<T>, ProtoError> {
    forms.into_iter().map(T::from_wire).collect()
}

/// The value of a form that must be there.
pub(crate) fn required<T: Wire>(field: &'static str, form: Option<T::Form>) -> Result<T, ProtoError> {
    T::from_wire(present(field, form)?)
}

/// Decodes the generated type, unless it would need far more memory than it has bytes.
pub(crate) fn decode<M: Message + Default>(message: &'static str, bytes: &[u8]) -> Result<M, ProtoError> {
    crate::memory_needed::check(message, std::any::type_name::<M>(), bytes)?;
    M::decode(bytes).map_err(|e| ProtoError::Damaged { message, reason: e.to_string() })
}

/// A name of bounded length.
pub(crate) fn name(field: &'static str, text: String) -> Result<String, ProtoError> {
    if text.len() > NAME_BYTES_MAX {
        return Err(ProtoError::TooLong { field, length: text.len(), limit: NAME_BYTES_MAX });
    }
    rule(field, !text.contains('\0'), "must not hold a zero byte")?;
    Ok(text)
}

/// As much of a text of ours as [`name`] takes: it may quote what somebody has named.
pub(crate) fn cut_name(text: &str) -> String {
    hq_model::notice::cut(text, NAME_BYTES_MAX - '…'.len_utf8())
}

/// Nanoseconds; 584 years at most.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A type whose form is one of the values of a generated enumeration.
macro_rules! wire_enum {
    ($core:ty = $form:ident, $field:literal: $($variant:ident),+ $(,)?) => {
        impl $crate::wire::Wire for $core {
            type Form = i32;

            fn to_wire(&self) -> i32 {
                match self {
                    $(<$core>::$variant => $crate::generated::$form::$variant as i32,)+
                }
            }

            fn from_wire(value: i32) -> Result<Self, $crate::ProtoError> {
                match $crate::generated::$form::try_from(value) {
                    Ok($crate::generated::$form::Unspecified) => Err($crate::ProtoError::Missing { field: $field }),
                    $(Ok($crate::generated::$form::$variant) => Ok(<$core>::$variant),)+
                    Err(_) => Err($crate::ProtoError::UnknownValue { field: $field, value }),
                }
            }
        }
    };
}
pub(crate) use wire_enum;

/// The number of the first field of `bytes` that is none of the numbers below `known`: the kind of a
/// message whose kind this release does not know.
pub(crate) fn unknown_field(bytes: &[u8], is_known: impl Fn(u32) -> bool) -> Option<u32> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, wire_type) = prost::encoding::decode_key(&mut rest).ok()?;
        if !is_known(number) {
            return Some(number);
        }
        prost::encoding::skip_field(wire_type, number, &mut rest, Default::default()).ok()?;
    }
    None
}

/// The error for a message without a kind that is known.
pub(crate) fn no_kind(message: &'static str, bytes: &[u8], kinds: std::ops::Range<u32>) -> ProtoError {
    match unknown_field(bytes, |number| number < kinds.start || kinds.contains(&number)) {
        Some(number) => ProtoError::UnknownKind { message, number },
        None => ProtoError::Missing { field: message },
    }
}
