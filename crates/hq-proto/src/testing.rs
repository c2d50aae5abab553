//! Generators of arbitrary valid messages.
