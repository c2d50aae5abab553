//! Why bytes are no message.

/// What is wrong with bytes received or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// They do not follow the encoding.
    #[error("damaged {message}: {reason}")]
    Damaged {
        /// The message they should be.
        message: &'static str,
        /// Where and how they break the encoding.
        reason: String,
    },
    /// A field that must be there is not, or has a value only a later release knows.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// The message is of a kind only a later release knows.
    #[error("unknown kind {number} of {message}: it comes from a later release of hq")]
    UnknownKind {
        /// The message.
        message: &'static str,
        /// The field number of the kind.
        number: u32,
    },
    /// A record of the journal is of a kind only a later release knows.
    #[error("unknown kind {number} of record: the journal was written by a later release of hq")]
    UnknownRecord {
        /// The field number of the kind.
        number: u32,
        /// True when the state cannot be rebuilt without it; else it may be skipped.
        critical: bool,
    },
    /// An enumeration has a value only a later release knows.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// The value.
        value: i32,
    },
    /// A number is too small or too large.
    #[error("{field} is {value}, which is not in {min} to {max}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
        /// The smallest that is allowed.
        min: u64,
        /// The largest that is allowed.
        max: u64,
    },
    /// Two things that belong together have different counts.
    #[error("{field} holds {found} values where {expected} belong")]
    Count {
        /// The field.
        field: &'static str,
        /// Values in it.
        found: u64,
        /// Values that should be.
        expected: u64,
    },
    /// A text is too long.
    #[error("{field} has {length} bytes, the limit is {limit}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its bytes.
        length: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// A rule of the field is broken.
    #[error("{field} {rule}")]
    Rule {
        /// The field.
        field: &'static str,
        /// What it must be or have.
        rule: &'static str,
    },
    /// A rule of the model is broken.
    #[error("{field}: {reason}")]
    Model {
        /// The field.
        field: &'static str,
        /// What the model says.
        reason: String,
    },
    /// The message would need far more memory than it has bytes.
    #[error("{message} of {length} bytes needs more than {factor_max} times that in memory")]
    Inflated {
        /// The message.
        message: &'static str,
        /// Its length.
        length: usize,
        /// What such a message may need.
        factor_max: usize,
    },
}

impl ProtoError {
    /// True of a message that follows the encoding and says what cannot be, or what only a later release knows: it can be
    /// answered.
    pub fn is_in_order(&self) -> bool {
        !matches!(self, ProtoError::Damaged { .. })
    }

    /// True of what only a later release knows.
    pub fn is_of_later_release(&self) -> bool {
        matches!(
            self,
            ProtoError::UnknownKind { .. }
                | ProtoError::UnknownRecord { .. }
                | ProtoError::UnknownValue { .. }
                | ProtoError::Missing { .. }
        )
    }
}

/// `value` when it is in `min..=max`.
pub(crate) fn in_range(field: &'static str, value: u64, min: u64, max: u64) -> Result<u64, ProtoError> {
    if value < min || value > max {
        return Err(ProtoError::OutOfRange { field, value, min, max });
    }
    Ok(value)
}

/// `value` when it fits a byte.
pub(crate) fn byte(field: &'static str, value: u32) -> Result<u8, ProtoError> {
    u8::try_from(value).map_err(|_| ProtoError::OutOfRange {
        field,
        value: u64::from(value),
        min: 0,
        max: u64::from(u8::MAX),
    })
}

/// `value` when it fits two bytes.
pub(crate) fn short(field: &'static str, value: u32) -> Result<u16, ProtoError> {
    u16::try_from(value).map_err(|_| ProtoError::OutOfRange {
        field,
        value: u64::from(value),
        min: 0,
        max: u64::from(u16::MAX),
    })
}

/// An error unless the rule is kept.
pub(crate) fn rule(field: &'static str, is_kept: bool, rule: &'static str) -> Result<(), ProtoError> {
    if is_kept { Ok(()) } else { Err(ProtoError::Rule { field, rule }) }
}

/// An error unless the model accepts the value.
pub(crate) fn model<E: std::fmt::Display>(
    field: &'static str,
    checked: Result<(), E>,
) -> Result<(), ProtoError> {
    checked.map_err(|e| ProtoError::Model { field, reason: e.to_string() })
}

/// An error unless the counts agree.
pub(crate) fn count(field: &'static str, found: u64, expected: u64) -> Result<(), ProtoError> {
    if found == expected { Ok(()) } else { Err(ProtoError::Count { field, found, expected }) }
}

/// The content of a field that must be there.
pub(crate) fn present<T>(field: &'static str, value: Option<T>) -> Result<T, ProtoError> {
    value.ok_or(ProtoError::Missing { field })
}
