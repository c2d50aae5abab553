//! Memory sizes: with units, or plain numbers as they are found in the field.

use crate::Amount;

/// A text that is no memory size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Not of the grammar.
    #[error("`{0}` is not a memory size: use 4GiB, 500MB, or a number of MiB")]
    Malformed(String),
    /// More than can be counted.
    #[error("`{0}` is too large for a memory size")]
    TooLarge(String),
}

const MIB: f64 = 1024.0 * 1024.0;
/// A plain number from here on is bytes: nobody asks for 16 TiB, nobody limits to 16 MiB.
const PLAIN_BYTES_FROM: f64 = (1u64 << 24) as f64;

/// Parses a memory size into MiB, rounded up to whole ones if it is given in bytes or with a unit. A plain number
/// below 2^24 is MiB (four decimals), from there on bytes.
///
/// # Errors
/// Says what could be written.
pub fn parse(text: &str) -> Result<Amount, MemoryError> {
    let trimmed = text.trim();
    let malformed = || MemoryError::Malformed(text.into());
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let value: f64 = number.replace('_', "").parse().map_err(|_| malformed())?;
    let bytes = match unit.trim().to_ascii_lowercase().as_str() {
        "" if value < PLAIN_BYTES_FROM => return number.parse().map_err(|_| malformed()),
        "" | "b" => value,
        "k" | "kib" => value * 1024.0,
        "kb" => value * 1e3,
        "m" | "mib" => value * MIB,
        "mb" => value * 1e6,
        "g" | "gib" => value * MIB * 1024.0,
        "gb" => value * 1e9,
        "t" | "tib" => value * MIB * MIB,
        "tb" => value * 1e12,
        _ => return Err(malformed()),
    };
    let mib = (bytes / MIB).ceil();
    if mib > Amount::MAX.wholes() as f64 {
        return Err(MemoryError::TooLarge(text.into()));
    }
    Ok(Amount::whole(mib as u64))
}

/// Prints MiB for people: `512 MiB`, `4 GiB`, `1.5 GiB`.
pub fn format(mib: Amount) -> String {
    let value = mib.0 as f64 / crate::amount::UNITS as f64;
    if value >= 1024.0 * 1024.0 {
        short(value / 1024.0 / 1024.0, "TiB")
    } else if value >= 1024.0 {
        short(value / 1024.0, "GiB")
    } else {
        format!("{mib} MiB")
    }
}

fn short(value: f64, unit: &str) -> String {
    let text = format!("{value:.2}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_plain_numbers() {
        for (text, mib) in [
            ("4GiB", 4096),
            ("4g", 4096),
            ("64GB", 61_036),
            ("500", 500),
            ("16777215", 16_777_215),
            ("16777216", 16),
            ("1073741824", 1024),
            ("1B", 1),
            ("1_000 MiB", 1000),
        ] {
            assert_eq!(parse(text), Ok(Amount::whole(mib)), "{text}");
        }
        assert_eq!(parse("0.5"), Ok(Amount(5000)));
        for text in ["", "GiB", "4 lightyears", "-1", "1e9"] {
            assert_eq!(parse(text), Err(MemoryError::Malformed(text.into())));
        }
    }

    #[test]
    fn sizes_are_shown_with_their_unit() {
        for (mib, text) in [(512, "512 MiB"), (4096, "4 GiB"), (1536, "1.5 GiB"), (2 << 20, "2 TiB")] {
            assert_eq!(format(Amount::whole(mib)), text);
        }
    }
}
