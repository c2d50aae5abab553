//! Numbers with the words for what they count.

use std::fmt::Display;

/// Prints a number of things: `1 task`, `2 tasks`, `1 entry`, `0 entries`.
pub fn counted<N: Display + TryInto<u64> + Copy>(number: N, thing: &str) -> String {
    match thing.strip_suffix('y') {
        _ if number.try_into().is_ok_and(|number| number == 1) => format!("{number} {thing}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{number} {stem}ies"),
        _ => format!("{number} {thing}s"),
    }
}

/// The same with what is true of them, of one and of several: `1 task was`, `2 tasks were`.
pub fn counted_are<N: Display + TryInto<u64> + Copy>(
    number: N,
    thing: &str,
    of_one: &str,
    of_many: &str,
) -> String {
    let is_one = number.try_into().is_ok_and(|number| number == 1);
    format!("{} {}", counted(number, thing), if is_one { of_one } else { of_many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one() {
        let cases = [
            (counted(0_u32, "task"), "0 tasks"),
            (counted(1_usize, "task"), "1 task"),
            (counted(u64::MAX, "task"), "18446744073709551615 tasks"),
            (counted(1_u64, "entry"), "1 entry"),
            (counted(2_u64, "entry"), "2 entries"),
            (counted(2_u64, "key"), "2 keys"),
            (counted(3_u64, "more worker"), "3 more workers"),
            (counted_are(1_u64, "job", "is", "are"), "1 job is"),
            (counted_are(0_u64, "job", "is", "are"), "0 jobs are"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
