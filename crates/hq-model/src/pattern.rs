//! Placeholders.
