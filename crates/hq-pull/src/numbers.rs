//! Whole numbers in requests: what is none, or out of its range, is told with the name of its field, the value and the range.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

pub(crate) fn max_fails<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    value.deserialize_any(Whole::new("max_fails", 0..=u64::MAX.into(), true))
}

pub(crate) fn count<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    value.deserialize_any(Whole::new("count", 0..=u32::MAX.into(), true))
}

pub(crate) fn take<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    value.deserialize_any(Whole::new("take", 0..=u32::MAX.into(), false)).map(Option::unwrap_or_default)
}

pub(crate) fn retries<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    value.deserialize_any(Whole::new("retries", 0..=u32::MAX.into(), false)).map(Option::unwrap_or_default)
}

pub(crate) fn priority<'de, D: Deserializer<'de>>(value: D) -> Result<i32, D::Error> {
    let range = i32::MIN.into()..=i32::MAX.into();
    value.deserialize_any(Whole::new("priority", range, false)).map(Option::unwrap_or_default)
}

struct Whole<T> {
    field: &'static str,
    range: RangeInclusive<i128>,
    // It may be `null`, which is as if it were not there.
    is_optional: bool,
    number: PhantomData<T>,
}

impl<T: TryFrom<i128>> Whole<T> {
    fn new(field: &'static str, range: RangeInclusive<i128>, is_optional: bool) -> Whole<T> {
        Whole { field, range, is_optional, number: PhantomData }
    }

    fn read<E: Error>(&self, value: i128, shown: Unexpected<'_>) -> Result<Option<T>, E> {
        let number = T::try_from(value).ok().filter(|_| self.range.contains(&value));
        number.map(Some).ok_or_else(|| E::invalid_value(shown, self))
    }
}

impl<T: TryFrom<i128>> Visitor<'_> for Whole<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` to be a whole number from {} to {}", self.field, self.range.start(), self.range.end())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<T>, E> {
        self.read(value.into(), Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<T>, E> {
        self.read(value.into(), Unexpected::Unsigned(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        if self.is_optional { Ok(None) } else { Err(E::invalid_type(Unexpected::Unit, &self)) }
    }
}
