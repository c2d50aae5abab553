//! The grammar of expressions.

use super::Refused;
use super::lexer::{Token, tokens};
use crate::limits::EXPRESSION_NESTING_MAX;
use crate::value::Value;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Literal(Value),
    Name(String),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    Set(Vec<Expression>),
    Dict(Vec<(Expression, Expression)>),
    Unary(&'static str, Box<Expression>),
    /// Operators of one kind, from left to right: `a + b - c`.
    Chain(Box<Expression>, Vec<(&'static str, Expression)>),
    Power(Box<Expression>, Box<Expression>),
    /// `a < b <= c`.
    Compare(Box<Expression>, Vec<(&'static str, Expression)>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    /// Condition, if it holds, else.
    If(Box<Expression>, Box<Expression>, Box<Expression>),
    Item(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, Box<[Option<Expression>; 3]>),
    Call {
        name: String,
        arguments: Vec<Expression>,
        named: Vec<(String, Expression)>,
    },
    Method {
        of: Box<Expression>,
        name: String,
        arguments: Vec<Expression>,
    },
    Comprehension {
        kind: Collected,
        item: Box<Expression>,
        value: Option<Box<Expression>>,
        parts: Vec<Part>,
    },
}

/// What a comprehension makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collected {
    List,
    Set,
    Dict,
}

/// `for a, b in c` or `if d`.
#[derive(Clone, Debug)]
pub(super) enum Part {
    For(Target, Expression),
    If(Expression),
}

/// What the values of a comprehension are called.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Name(String),
    Several(Vec<Target>),
}

/// Reads an expression.
///
/// # Errors
/// When it is none that we know.
pub(super) fn parse(text: &str) -> Result<Expression, Refused> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    if parser.peek() == &Token::End {
        return Err(Refused::wrong("it is empty"));
    }
    let expression = parser.tuple_or_one()?;
    match parser.peek() {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected()),
    }
}

const KEYWORDS: [&str; 15] = [
    "if", "else", "for", "in", "not", "and", "or", "is", "lambda", "await", "async", "yield", "from",
    "import", "class",
];
// How tightly each binary operator binds; `**` is read apart.
const LEVELS: [&[&str]; 6] =
    [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "//", "%", "@"]];

/// Calls and subscripts in a row.
const POSTFIX_MAX: usize = 8;

fn one_or(mut all: Vec<Expression>, several: fn(Vec<Expression>) -> Expression) -> Expression {
    match (all.len(), all.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            all.extend(last);
            several(all)
        }
    }
}

/// Operands, each after its operator.
type Operands = Vec<(&'static str, Expression)>;

// The loosest operators of the row divide it; goes no deeper than there are levels.
fn grouped(first: Expression, others: Operands, level: usize) -> Expression {
    let Some(signs) = LEVELS.get(level).filter(|_| !others.is_empty()) else { return first };
    let mut rows: Vec<(&'static str, Expression, Operands)> = vec![("", first, Vec::new())];
    for (sign, operand) in others {
        match rows.last_mut() {
            Some((_, _, row)) if !signs.contains(&sign) => row.push((sign, operand)),
            _ => rows.push((sign, operand, Vec::new())),
        }
    }
    let mut rows = rows.into_iter().map(|(sign, first, row)| (sign, grouped(first, row, level + 1)));
    let first = rows.next().map_or(Expression::Literal(Value::None), |(_, first)| first);
    let rest: Vec<_> = rows.collect();
    if rest.is_empty() { first } else { Expression::Chain(Box::new(first), rest) }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found == word)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, sign: &str) -> Result<(), Refused> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Refused {
        Refused::unknown(match self.peek() {
            Token::End => "its end".to_owned(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Name(name) => format!("`{name}`"),
            Token::Text(text) => format!("the text `{text}`"),
            Token::Int(int) => format!("`{int}`"),
            Token::Float(float) => format!("`{float}`"),
        })
    }

    // Everything that can contain itself goes through here.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Parser) -> Result<T, Refused>) -> Result<T, Refused> {
        self.depth += 1;
        if self.depth > EXPRESSION_NESTING_MAX {
            return Err(Refused::wrong(format!("it is nested deeper than {EXPRESSION_NESTING_MAX} levels")));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn tuple_or_one(&mut self) -> Result<Expression, Refused> {
        let first = self.one()?;
        if !self.is_sign(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_sign(",") {
            if matches!(self.peek(), Token::End | Token::Sign(")")) {
                break;
            }
            items.push(self.one()?);
        }
        Ok(Expression::Tuple(items))
    }

    fn one(&mut self) -> Result<Expression, Refused> {
        self.deeper(|parser| {
            let value = parser.or()?;
            if !parser.take_word("if") {
                return Ok(value);
            }
            let condition = parser.or()?;
            if !parser.take_word("else") {
                return Err(parser.unexpected());
            }
            let other = parser.one()?;
            Ok(Expression::If(Box::new(condition), Box::new(value), Box::new(other)))
        })
    }

    fn or(&mut self) -> Result<Expression, Refused> {
        let mut all = vec![self.and()?];
        while self.take_word("or") {
            all.push(self.and()?);
        }
        Ok(one_or(all, Expression::Or))
    }

    fn and(&mut self) -> Result<Expression, Refused> {
        let mut all = vec![self.not()?];
        while self.take_word("and") {
            all.push(self.not()?);
        }
        Ok(one_or(all, Expression::And))
    }

    fn not(&mut self) -> Result<Expression, Refused> {
        if self.take_word("not") {
            return self.deeper(|parser| Ok(Expression::Unary("not", Box::new(parser.not()?))));
        }
        let first = self.binary()?;
        let mut others = Vec::new();
        while let Some(operator) = self.comparison() {
            others.push((operator, self.binary()?));
        }
        Ok(if others.is_empty() { first } else { Expression::Compare(Box::new(first), others) })
    }

    fn comparison(&mut self) -> Option<&'static str> {
        for sign in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.take_sign(sign) {
                return Some(sign);
            }
        }
        if self.take_word("in") {
            return Some("in");
        }
        if self.is_word("not")
            && matches!(self.tokens.get(self.at + 1), Some(Token::Name(word)) if word == "in")
        {
            self.at += 2;
            return Some("not in");
        }
        if self.take_word("is") {
            return Some(if self.take_word("not") { "is not" } else { "is" });
        }
        None
    }

    // All operands and operators of one row; what binds more tightly is put together below.
    fn binary(&mut self) -> Result<Expression, Refused> {
        let first = self.unary()?;
        let mut others = Vec::new();
        while let Token::Sign(sign) = self.peek()
            && LEVELS.iter().any(|level| level.contains(sign))
        {
            let sign = *sign;
            self.at += 1;
            others.push((sign, self.unary()?));
        }
        Ok(grouped(first, others, 0))
    }

    fn unary(&mut self) -> Result<Expression, Refused> {
        for sign in ["-", "+", "~"] {
            if self.take_sign(sign) {
                return self.deeper(|parser| Ok(Expression::Unary(sign, Box::new(parser.unary()?))));
            }
        }
        let base = self.postfix()?;
        if self.take_sign("**") {
            let power = self.deeper(Parser::unary)?;
            return Ok(Expression::Power(Box::new(base), Box::new(power)));
        }
        Ok(base)
    }

    fn postfix(&mut self) -> Result<Expression, Refused> {
        let mut value = self.atom()?;
        for _ in 0..POSTFIX_MAX {
            if self.take_sign("[") {
                value = self.subscript(value)?;
            } else if self.take_sign(".") {
                let Token::Name(name) = self.next() else { return Err(self.unexpected()) };
                if !self.take_sign("(") {
                    return Err(Refused::unknown(format!("`.{name}`")));
                }
                let (arguments, named) = self.arguments()?;
                if !named.is_empty() {
                    return Err(Refused::unknown(format!("`{name}` with named arguments")));
                }
                value = Expression::Method { of: Box::new(value), name, arguments };
            } else if self.is_sign("(") {
                let Expression::Name(name) = value else { return Err(Refused::unknown("a call of a value")) };
                self.at += 1;
                let (arguments, named) = self.arguments()?;
                value = Expression::Call { name, arguments, named };
            } else {
                return Ok(value);
            }
        }
        Err(Refused::unknown(format!("more than {POSTFIX_MAX} parts of parts")))
    }

    fn subscript(&mut self, of: Expression) -> Result<Expression, Refused> {
        let mut bounds = [None, None, None];
        let mut number = 0;
        loop {
            if !self.is_sign(":") && !self.is_sign("]") {
                bounds[number] = Some(self.one()?);
            }
            if self.take_sign("]") {
                break;
            }
            self.expect(":")?;
            number += 1;
            if number > 2 {
                return Err(self.unexpected());
            }
        }
        match (number, bounds) {
            (0, [Some(index), _, _]) => Ok(Expression::Item(Box::new(of), Box::new(index))),
            (0, _) => Err(self.unexpected()),
            (_, bounds) => Ok(Expression::Slice(Box::new(of), Box::new(bounds))),
        }
    }

    #[allow(clippy::type_complexity)] // Positional and named arguments, used in two places.
    fn arguments(&mut self) -> Result<(Vec<Expression>, Vec<(String, Expression)>), Refused> {
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        while !self.take_sign(")") {
            if self.is_sign("*") || self.is_sign("**") {
                return Err(self.unexpected());
            }
            if let (Token::Name(name), Some(Token::Sign("="))) =
                (self.peek().clone(), self.tokens.get(self.at + 1))
            {
                self.at += 2;
                named.push((name, self.one()?));
                if !self.take_sign(",") && !self.is_sign(")") {
                    return Err(self.unexpected());
                }
                continue;
            }
            let value = self.one()?;
            if self.is_word("for") {
                let parts = self.parts()?;
                arguments.push(Expression::Comprehension {
                    kind: Collected::List,
                    item: Box::new(value),
                    value: None,
                    parts,
                });
            } else {
                arguments.push(value);
            }
            if !self.take_sign(",") && !self.is_sign(")") {
                return Err(self.unexpected());
            }
        }
        Ok((arguments, named))
    }

    fn parts(&mut self) -> Result<Vec<Part>, Refused> {
        let mut parts = Vec::new();
        loop {
            if self.take_word("for") {
                let target = self.target()?;
                if !self.take_word("in") {
                    return Err(self.unexpected());
                }
                parts.push(Part::For(target, self.deeper(Parser::or)?));
            } else if self.take_word("if") {
                parts.push(Part::If(self.deeper(Parser::or)?));
            } else {
                return Ok(parts);
            }
            if parts.len() > EXPRESSION_NESTING_MAX {
                return Err(Refused::wrong("it has too many loops within each other"));
            }
        }
    }

    fn target(&mut self) -> Result<Target, Refused> {
        self.deeper(|parser| {
            let mut targets = Vec::new();
            let mut is_several = false;
            loop {
                if parser.take_sign("(") {
                    targets.push(parser.target()?);
                    parser.expect(")")?;
                } else {
                    match parser.next() {
                        Token::Name(name) if !KEYWORDS.contains(&name.as_str()) => {
                            targets.push(Target::Name(name))
                        }
                        _ => return Err(parser.unexpected()),
                    }
                }
                if !parser.take_sign(",") {
                    break;
                }
                is_several = true;
                if parser.is_word("in") || parser.is_sign(")") {
                    break;
                }
            }
            match targets.pop() {
                Some(target) if !is_several => Ok(target),
                last => {
                    targets.extend(last);
                    Ok(Target::Several(targets))
                }
            }
        })
    }

    fn atom(&mut self) -> Result<Expression, Refused> {
        match self.peek().clone() {
            Token::Int(int) => self.literal(Value::Int(int)),
            Token::Float(float) => self.literal(Value::Float(float)),
            Token::Text(text) => self.literal(Value::text(text)),
            Token::Name(name) => match name.as_str() {
                "True" => self.literal(Value::Bool(true)),
                "False" => self.literal(Value::Bool(false)),
                "None" => self.literal(Value::None),
                word if KEYWORDS.contains(&word) => Err(self.unexpected()),
                _ => {
                    self.at += 1;
                    Ok(Expression::Name(name))
                }
            },
            Token::Sign("(") => {
                self.at += 1;
                if self.take_sign(")") {
                    return Ok(Expression::Tuple(Vec::new()));
                }
                let inner = self.tuple_or_one()?;
                if self.is_word("for") && !matches!(inner, Expression::Tuple(_)) {
                    let parts = self.parts()?;
                    self.expect(")")?;
                    let item = Box::new(inner);
                    return Ok(Expression::Comprehension { kind: Collected::List, item, value: None, parts });
                }
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.at += 1;
                self.items("]", Collected::List)
            }
            Token::Sign("{") => {
                self.at += 1;
                self.braces()
            }
            _ => Err(self.unexpected()),
        }
    }

    fn literal(&mut self, value: Value) -> Result<Expression, Refused> {
        self.at += 1;
        Ok(Expression::Literal(value))
    }

    fn items(&mut self, close: &str, kind: Collected) -> Result<Expression, Refused> {
        let mut items = Vec::new();
        while !self.take_sign(close) {
            let item = self.one()?;
            if self.is_word("for") && items.is_empty() {
                let parts = self.parts()?;
                self.expect(close)?;
                return Ok(Expression::Comprehension { kind, item: Box::new(item), value: None, parts });
            }
            items.push(item);
            if !self.take_sign(",") && !self.is_sign(close) {
                return Err(self.unexpected());
            }
        }
        Ok(if kind == Collected::Set { Expression::Set(items) } else { Expression::List(items) })
    }

    fn braces(&mut self) -> Result<Expression, Refused> {
        if self.take_sign("}") {
            return Ok(Expression::Dict(Vec::new()));
        }
        let start = self.at;
        let key = self.one()?;
        if !self.take_sign(":") {
            self.at = start;
            return self.items("}", Collected::Set);
        }
        let value = self.one()?;
        if self.is_word("for") {
            let parts = self.parts()?;
            self.expect("}")?;
            let (item, value) = (Box::new(key), Some(Box::new(value)));
            return Ok(Expression::Comprehension { kind: Collected::Dict, item, value, parts });
        }
        let mut pairs = vec![(key, value)];
        while self.take_sign(",") {
            if self.is_sign("}") {
                break;
            }
            let key = self.one()?;
            self.expect(":")?;
            pairs.push((key, self.one()?));
        }
        self.expect("}")?;
        Ok(Expression::Dict(pairs))
    }
}
