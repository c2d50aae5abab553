//! What an expression comes to.

use hq_model::{counted, counted_are};
use std::sync::Arc;

use super::parser::{Collected, Expression, Part, Target};
use super::{Refused, Steps, functions, operators};
use crate::value::Value;

/// Evaluates an expression.
///
/// # Errors
/// When it is wrong, or not known here.
pub(super) fn run(expression: &Expression, steps: &mut Steps) -> Result<Value, Refused> {
    Evaluator { steps, names: Vec::new(), depth: 0 }.value(expression)
}

struct Evaluator<'a> {
    steps: &'a mut Steps,
    /// The variables of comprehensions, inner ones last.
    names: Vec<(String, Value)>,
    depth: usize,
}

/// How deep evaluating goes: for each level of nesting a few.
const DEPTH_MAX: usize = 6 * crate::limits::EXPRESSION_NESTING_MAX;

impl Evaluator<'_> {
    fn value(&mut self, expression: &Expression) -> Result<Value, Refused> {
        self.steps.take(1)?;
        if self.depth > DEPTH_MAX {
            return Err(Refused::unknown("such a depth"));
        }
        self.depth += 1;
        let value = match expression {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Comprehension { kind, item, value, parts } => {
                self.comprehension(*kind, item, value.as_deref(), parts)
            }
            Expression::Call { name, arguments, named } => self.call(name, arguments, named),
            Expression::Slice(of, bounds) => self.slice(of, bounds),
            Expression::Dict(pairs) => self.dict(pairs),
            Expression::Compare(first, others) => self.compare(first, others),
            other => self.simple(other),
        };
        self.depth -= 1;
        value
    }

    fn simple(&mut self, expression: &Expression) -> Result<Value, Refused> {
        match expression {
            Expression::Name(name) => {
                let found = self.names.iter().rev().find(|(known, _)| known == name);
                found
                    .map(|(_, value)| value.clone())
                    .ok_or_else(|| Refused::unknown(format!("the name `{name}`")))
            }
            Expression::List(items) => Ok(Value::list(self.values(items)?)),
            Expression::Tuple(items) => Ok(Value::tuple(self.values(items)?)),
            Expression::Set(items) => {
                let items = self.values(items)?;
                Ok(Value::Set(Arc::new(operators::distinct(items, self.steps)?)))
            }
            Expression::Unary("not", of) => Ok(Value::Bool(!operators::is_true(&self.value(of)?))),
            Expression::Unary(sign, of) => operators::unary(sign, &self.value(of)?),
            Expression::Chain(first, others) => {
                let mut left = self.value(first)?;
                for (sign, right) in others {
                    let right = self.value(right)?;
                    left = operators::binary(sign, &left, &right, self.steps)?;
                }
                Ok(left)
            }
            Expression::Power(base, power) => {
                let (base, power) = (self.value(base)?, self.value(power)?);
                operators::binary("**", &base, &power, self.steps)
            }
            Expression::And(all) | Expression::Or(all) => {
                // `or` ends at the first that holds, `and` at the first that does not.
                let ends_with = matches!(expression, Expression::Or(_));
                let mut last = Value::None;
                for one in all {
                    last = self.value(one)?;
                    if operators::is_true(&last) == ends_with {
                        break;
                    }
                }
                Ok(last)
            }
            Expression::If(condition, value, other) => {
                let holds = operators::is_true(&self.value(condition)?);
                self.value(if holds { value } else { other })
            }
            Expression::Item(of, index) => {
                let (of, index) = (self.value(of)?, self.value(index)?);
                operators::item(&of, &index, self.steps)
            }
            Expression::Method { of, name, arguments } => {
                let of = self.value(of)?;
                let arguments = self.values(arguments)?;
                functions::method(&of, name, &arguments, self.steps)
            }
            _ => Err(Refused::unknown("this")),
        }
    }

    fn dict(&mut self, pairs: &[(Expression, Expression)]) -> Result<Value, Refused> {
        let mut dict = Vec::new();
        for (key, value) in pairs {
            dict.push((self.value(key)?, self.value(value)?));
        }
        operators::dict(dict, self.steps)
    }

    fn compare(
        &mut self,
        first: &Expression,
        others: &[(&'static str, Expression)],
    ) -> Result<Value, Refused> {
        let mut left = self.value(first)?;
        for (sign, right) in others {
            let right = self.value(right)?;
            if !operators::compare(sign, &left, &right, self.steps)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn slice(&mut self, of: &Expression, bounds: &[Option<Expression>; 3]) -> Result<Value, Refused> {
        let of = self.value(of)?;
        let mut found = [None, None, None];
        for (found, bound) in found.iter_mut().zip(bounds) {
            *found = match bound.as_ref().map(|bound| self.value(bound)).transpose()? {
                None | Some(Value::None) => None,
                Some(value) => Some(operators::index(&value)?),
            };
        }
        operators::slice(&of, found, self.steps)
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Expression],
        named: &[(String, Expression)],
    ) -> Result<Value, Refused> {
        if self.names.iter().any(|(known, _)| known == name) {
            return Err(Refused::unknown(format!("a call of `{name}`")));
        }
        let arguments = self.values(arguments)?;
        let mut values = Vec::new();
        for (name, value) in named {
            values.push((name.as_str(), self.value(value)?));
        }
        functions::call(name, &arguments, &values, self.steps)
    }

    fn comprehension(
        &mut self,
        kind: Collected,
        item: &Expression,
        value: Option<&Expression>,
        parts: &[Part],
    ) -> Result<Value, Refused> {
        let mut collected = Vec::new();
        self.collect(parts, item, value, &mut collected)?;
        match kind {
            Collected::List => Ok(Value::list(collected.into_iter().map(|(item, _)| item).collect())),
            Collected::Set => {
                let items = collected.into_iter().map(|(item, _)| item).collect();
                Ok(Value::Set(Arc::new(operators::distinct(items, self.steps)?)))
            }
            Collected::Dict => operators::dict(collected, self.steps),
        }
    }

    fn values(&mut self, items: &[Expression]) -> Result<Vec<Value>, Refused> {
        items.iter().map(|item| self.value(item)).collect()
    }

    fn collect(
        &mut self,
        parts: &[Part],
        item: &Expression,
        value: Option<&Expression>,
        to: &mut Vec<(Value, Value)>,
    ) -> Result<(), Refused> {
        match parts.split_first() {
            None => {
                let item = self.value(item)?;
                let value = value.map_or(Ok(Value::None), |value| self.value(value))?;
                to.push((item, value));
                Ok(())
            }
            Some((Part::If(condition), rest)) => {
                if operators::is_true(&self.value(condition)?) {
                    self.collect(rest, item, value, to)
                } else {
                    Ok(())
                }
            }
            Some((Part::For(target, iterable), rest)) => {
                let iterable = self.value(iterable)?;
                let known = self.names.len();
                for element in operators::iterate(&iterable, self.steps)? {
                    self.bind(target, &element)?;
                    self.collect(rest, item, value, to)?;
                    self.names.truncate(known);
                }
                Ok(())
            }
        }
    }

    fn bind(&mut self, target: &Target, value: &Value) -> Result<(), Refused> {
        match target {
            Target::Name(name) => self.names.push((name.clone(), value.clone())),
            Target::Several(targets) => {
                let values = operators::iterate(value, self.steps)?;
                if values.len() != targets.len() {
                    let message = format!(
                        "{} for {}",
                        counted_are(targets.len(), "name", "stands", "stand"),
                        counted(values.len(), "value")
                    );
                    return Err(Refused::wrong(message));
                }
                for (target, value) in targets.iter().zip(&values) {
                    self.bind(target, value)?;
                }
            }
        }
        Ok(())
    }
}
