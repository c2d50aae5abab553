//! Names against patterns: tables, and round trips of what is printed.

use proptest::prelude::*;

use super::*;
use crate::format::{Piece, Template};

/// A pattern of a template in which every field is a variable.
fn pattern(text: &str) -> (Pattern, Vec<String>) {
    let template = Template::parse(text).expect("a template");
    let mut names: Vec<String> = Vec::new();
    let mut parts = Vec::new();
    for piece in &template.pieces {
        match piece {
            Piece::Literal(text) => parts.push(Part::Literal(text.clone())),
            Piece::Field(field) => {
                let at = names.iter().position(|name| *name == field.name).unwrap_or_else(|| {
                    names.push(field.name.clone());
                    names.len() - 1
                });
                let spec = field.spec.as_literal().expect("a plain format");
                let spec = (!spec.is_empty()).then(|| Spec::parse(spec).expect("a format"));
                parts.push(Part::Variable(at, spec));
            }
        }
    }
    (Pattern::new(parts), names)
}

#[track_caller]
fn check(text: &str, kind: Kind, name: &str, found: &str) {
    let (pattern, names) = pattern(text);
    let kinds = vec![kind; names.len()];
    let shown = match pattern.matches(name, &kinds) {
        Err(TooHard) => "too hard".to_owned(),
        Ok(ways) => {
            let way = |values: &Vec<Value>| {
                let pairs: Vec<_> = names
                    .iter()
                    .zip(values)
                    .map(|(name, value)| format!("{name}={}", value.repr()))
                    .collect();
                pairs.join(" ")
            };
            ways.iter().map(way).collect::<Vec<_>>().join(" | ")
        }
    };
    assert_eq!(shown, found, "{text} {name}");
}

#[test]
fn names_are_matched_as_wholes() {
    use Kind::{Int, Text};
    check("an_{n}.npy", Text, "an_7.npy", "n='7'");
    check("an_{n}.npy", Text, "an_007.npy", "n='007'");
    check("an_{n}.npy", Text, "an_.npy", "");
    check("an_{n}.npy", Text, "an_7.npz", "");
    check("an_{n}.npy", Text, "an_a/b.npy", "");
    check("an_{n}.npy", Text, "an_größe.npy", "n='größe'");
    check("{d}/x", Text, "a/x", "d='a'");
    check("{d}/x", Text, "a/b/x", "");
    check("./a/../an_{n}", Text, "an_1", "n='1'");
    check("an_{n:03d}.npy", Int, "an_007.npy", "n=7");
    check("an_{n:03d}.npy", Int, "an_7.npy", "");
    check("an_{n:03d}.npy", Int, "an_1234.npy", "n=1234");
    check("an_{n:03d}.npy", Int, "an_0123.npy", "");
    check("an_{n:03d}.npy", Int, "an_-07.npy", "n=-7");
    check("an_{n}.npy", Int, "an_7.npy", "n=7");
    check("an_{n}.npy", Int, "an_07.npy", "");
    check("{x:.2f}", Kind::Float, "3.14", "x=3.14");
    check("{x:.2f}", Kind::Float, "3.1", "");
    check("{x}", Kind::Float, "0.5", "x=0.5");
    check("{x}", Kind::Float, "1e-07", "x=1e-07");
    check("{x}", Kind::Float, "1e-7", "");
    check("{n:x}", Int, "ff", "n=255");
    check("{n:#06x}", Int, "0x00ff", "n=255");
    check("{n:,}", Int, "1,234", "n=1234");
    check("{n:,}", Int, "12,34", "");
}

#[test]
fn several_variables_must_have_one_way() {
    use Kind::Text;
    check("{a}_{b}", Text, "x_y", "a='x' b='y'");
    check("{a}_{b}", Text, "x_y_z", "a='x' b='y_z' | a='x_y' b='z'");
    check("{a}-{b}.{c}", Text, "x-y.z", "a='x' b='y' c='z'");
    check("{a}/{a}.txt", Text, "x/x.txt", "a='x'");
    check("{a}/{a}.txt", Text, "x/y.txt", "");
    check("{a}{b}", Text, "xyz", "a='x' b='yz' | a='xy' b='z'");
    check("{a}_{b}_{c}_{d}_{e}_{a}", Text, &format!("x{}y", "_".repeat(200)), "too hard");
}

#[test]
fn all_that_a_format_prints_is_matched_to_what_was_printed() {
    proptest!(|(number in any::<i32>(), spec in "(0?[1-9])?[,_]?[dxob]?|\\+?0?[1-9]?|[x.]?[<>=^][0-9]")| {
        let Ok(spec) = Spec::parse(&spec) else { return Ok(()) };
        let Ok(text) = apply(&Value::Int(i64::from(number)), &spec) else { return Ok(()) };
        prop_assert_eq!(value_of(&text, Kind::Int, Some(&spec)), Some(Value::Int(i64::from(number))), "{:?} {}", spec, text);
    });
    proptest!(|(word in "[a-z]{1,5}", spec in "([.]?[<>^])?[1-9]")| {
        let Ok(spec) = Spec::parse(&spec) else { return Ok(()) };
        let text = apply(&Value::text(word.clone()), &spec).expect("a text");
        prop_assert_eq!(value_of(&text, Kind::Text, Some(&spec)), Some(Value::text(word)));
    });
}

#[test]
fn what_is_matched_prints_the_name_again() {
    proptest!(|(text in "[-+0-9a-fx_, .%]{1,8}", spec in "[x0.]?[<>=^]?[+ -]?#?0?[0-9]?[,_]?(\\.[0-9])?[bcdeEfFgGnosxX%]?")| {
        let Ok(spec) = Spec::parse(&spec) else { return Ok(()) };
        for kind in [Kind::Text, Kind::Int, Kind::Float] {
            if let Some(value) = value_of(&text, kind, Some(&spec)) {
                prop_assert_eq!(apply(&value, &spec).ok(), Some(text.clone()));
            }
        }
    });
}
