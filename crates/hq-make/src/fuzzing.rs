//! What must hold for any text: called by the fuzzing targets, not for other use.

use std::io;

use crate::expression;
use crate::format::{Piece, Scope, Spec, Template};
use crate::known::{Digest, Known};
use crate::pattern::{Kind, Part, Pattern};
use crate::plan::{Rerun, Wanted};
use crate::read::{Source, read};
use crate::value::Value;
use crate::world::{Digests, Facts, Files, World};

/// A text as an expression of a loop: it ends, and what it gives can be printed.
pub fn expression(text: &str) {
    if let Ok(values) = expression::values(text) {
        for value in values.iter().take(100) {
            let _ = (value.str(), value.repr());
        }
    }
}

struct Names;

impl Scope for Names {
    fn get(&self, name: &str) -> Option<Value> {
        match name {
            "n" => Some(Value::Int(-7)),
            "x" => Some(Value::Float(2.5)),
            "s" => Some(Value::text("söm e")),
            "l" => Some(Value::list(vec![Value::Int(1), Value::None])),
            "d" => Some(Value::dict(vec![(Value::text("k"), Value::Bool(true))])),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        ["n", "x", "s", "l", "d"].map(str::to_owned).to_vec()
    }
}

/// A text as a template: it is filled in, or refused at one of its places; as a pattern, what matches it is printed again.
pub fn template(text: &str) {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            assert!(text.is_char_boundary(error.at), "an error names a place in the text");
            return;
        }
    };
    if let Ok(filled) = template.expand(&Names) {
        let fields = template.fields().len();
        assert!(
            fields > 0 || filled == text.replace("{{", "{").replace("}}", "}"),
            "only fields are replaced"
        );
    }
    let mut parts = Vec::new();
    for piece in template.pieces.iter().take(12) {
        parts.push(match piece {
            Piece::Literal(text) => Part::Literal(text.clone()),
            Piece::Field(field) => {
                let spec = field.spec.as_literal().and_then(|spec| Spec::parse(spec).ok());
                Part::Variable(usize::from(field.name.as_str() > "m"), spec)
            }
        });
    }
    let pattern = Pattern::new(parts);
    for kinds in [[Kind::Text, Kind::Int], [Kind::Float, Kind::Text]] {
        for name in [text, "a/b_-007.5e+3.x", "x"] {
            for values in pattern.matches(name, &kinds).unwrap_or_default() {
                let mut again = String::new();
                for part in &pattern.parts {
                    match part {
                        Part::Literal(text) => again += text,
                        Part::Variable(at, None) => again += &values[*at].str(),
                        Part::Variable(at, Some(spec)) => {
                            again +=
                                &crate::format::apply(&values[*at], spec).expect("what matched is printed");
                        }
                    }
                }
                assert_eq!(again, name, "what matches prints the name");
            }
        }
    }
}

struct Nothing;

impl Files for Nothing {
    fn facts(&self, path: &[u8]) -> io::Result<Option<Facts>> {
        let facts = Facts { is_dir: false, size: 0, mtime_ns: path.len() as i64, ctime_ns: 0, inode: 0 };
        // Some are there, depending on nothing but the name.
        Ok(path.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).is_multiple_of(2).then_some(facts))
    }
}

impl Digests for Nothing {
    fn digest(&self, path: &[u8]) -> io::Result<Digest> {
        Ok(self.of_text(path))
    }

    fn of_text(&self, text: &[u8]) -> Digest {
        [text.len() as u8; 32]
    }
}

/// Rules, and after a NUL byte targets: they are planned in every mode and shown in every way, or refused.
pub fn files(bytes: &[u8]) {
    let (rules, targets) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b"t: {out: [a, b_1]}\n"[..]),
    };
    let source = |name, text| Source { name, text };
    let Ok(make) = read(source("rules.yaml", rules), source("targets.yaml", targets)) else { return };
    let mut known = Known::default();
    for rerun in [Rerun::Exists, Rerun::Mtime, Rerun::Hash, Rerun::Hash] {
        let wanted = Wanted { base: b"/w".to_vec(), rerun, check: true, ..Wanted::default() };
        let world = World { files: &Nothing, digests: &Nothing, python: None, known: &known, now_ns: 0 };
        let Ok(plan) = crate::search::plan(&make, &wanted, &world) else { continue };
        for run in &plan.runs {
            assert!(
                run.after.iter().all(|before| before < &run.id),
                "each run stands after those it waits for"
            );
            assert!(run.script.starts_with(b"#!/usr/bin/env bash\n"));
        }
        let _ = crate::explain::explain(&plan, &[]);
        let _ = crate::summary::summary(&plan).to_string();
        let _ = crate::order::cost(&plan, crate::order::Node { cpus: 4, gpus: 1 });
        for of in [crate::picture::GraphOf::Rules, crate::picture::GraphOf::Files] {
            let _ = crate::picture::graph(&plan, of, crate::picture::GraphAs::Svg, &[]);
        }
        let mut text = crate::known::HEADER.as_bytes().to_vec();
        text.extend_from_slice(&plan.adopted);
        known = Known::read(&text);
        assert_eq!(known.skipped, 0, "what is remembered is understood");
    }
}
