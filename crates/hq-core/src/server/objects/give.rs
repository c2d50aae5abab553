//! Objects that clients give.
