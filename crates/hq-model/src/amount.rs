//! Amounts of a resource: fixed point with four decimals.

use std::fmt;
use std::str::FromStr;

/// Units in one whole.
pub const UNITS: u64 = 10_000;

/// An amount in units of 1/10000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub u64);

/// A text that is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Not a number.
    #[error("`{0}` is not an amount: use a number such as 2 or 0.5")]
    NotANumber(String),
    /// More decimals than are kept.
    #[error("`{0}` has more than four decimals")]
    TooPrecise(String),
    /// More than can be counted.
    #[error("`{0}` is too large: amounts go up to {max}", max = Amount::MAX.wholes())]
    TooLarge(String),
}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// The largest one: sums over thousands of workers stay far from overflow.
    pub const MAX: Amount = Amount(1 << 50);

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

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim();
        let not_a_number = || AmountError::NotANumber(text.into());
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| {
            let plain = part.replace('_', "");
            (!plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit())).then_some(plain)
        };
        let whole = digits(whole).ok_or_else(not_a_number)?;
        let decimals = digits(decimals).ok_or_else(not_a_number)?;
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > 4 {
            return Err(AmountError::TooPrecise(text.into()));
        }
        let units: u64 = format!("{decimals:0<4}").parse().map_err(|_| not_a_number())?;
        let whole: u64 = whole.parse().map_err(|_| AmountError::TooLarge(text.into()))?;
        let whole = whole.checked_mul(UNITS).and_then(|whole| whole.checked_add(units));
        let amount = whole.map(Amount).filter(|amount| *amount <= Amount::MAX);
        amount.ok_or_else(|| AmountError::TooLarge(text.into()))
    }
}

/// Prints the shortest form: `2`, `0.5`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fraction() == 0 {
            return write!(f, "{}", self.wholes());
        }
        let decimals = format!("{:04}", self.fraction());
        write!(f, "{}.{}", self.wholes(), decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_decimals_are_kept_exactly() {
        for (text, units) in [
            ("2", 20_000),
            ("0.5", 5_000),
            ("0.0001", 1),
            ("1_000", 10_000_000),
            ("1.50000", 15_000),
            (" 3 ", 30_000),
        ] {
            assert_eq!(text.parse(), Ok(Amount(units)), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_its_reason() {
        for (text, error) in [
            ("", "`` is not an amount: use a number such as 2 or 0.5"),
            ("-1", "`-1` is not an amount: use a number such as 2 or 0.5"),
            ("1.", "`1.` is not an amount: use a number such as 2 or 0.5"),
            ("0.00001", "`0.00001` has more than four decimals"),
            ("99999999999999999999", "`99999999999999999999` is too large: amounts go up to 112589990684"),
            ("200000000000", "`200000000000` is too large: amounts go up to 112589990684"),
        ] {
            assert_eq!(text.parse::<Amount>().map_err(|e| e.to_string()), Err(error.into()));
        }
    }

    #[test]
    fn the_shortest_form_is_printed() {
        for (units, text) in [(20_000, "2"), (5_000, "0.5"), (12_345, "1.2345"), (0, "0")] {
            assert_eq!(Amount(units).to_string(), text);
        }
    }
}
