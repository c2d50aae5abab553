//! Memory sizes with units.
