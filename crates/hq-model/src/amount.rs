//! Amounts of a resource: fixed point with four decimals.

/// Units in one whole.
pub const UNITS: u64 = 10_000;

/// An amount in units of 1/10000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub u64);

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// `count` wholes.
    pub const fn whole(count: u64) -> Amount {
        Amount(count * UNITS)
    }

    /// The whole part.
    pub const fn wholes(self) -> u64 {
        self.0 / UNITS
    }

    /// The part below one whole, in units.
    pub const fn fraction(self) -> u64 {
        self.0 % UNITS
    }
}
