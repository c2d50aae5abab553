//! Words and signs of an expression.

use super::Refused;

/// A word or sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(i64),
    Float(f64),
    Text(String),
    Name(String),
    Sign(&'static str),
    End,
}

// Longer ones first.
const SIGNS: [&str; 41] = [
    "**=", "//=", "<<=", ">>=", "...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "->", ":=", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}",
    ",", ":", ".", "<", ">", "~",
];
const OTHER_SIGNS: [&str; 5] = ["&", "|", "^", "@", "="];

/// Splits an expression into words and signs.
///
/// # Errors
/// When something is no word.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Refused> {
    let mut tokens = Vec::new();
    let mut rest = text.trim();
    let mut depth = 0_i32;
    while let Some(first) = rest.chars().next() {
        if first == '\n' && depth <= 0 {
            return Err(Refused::unknown("a line break outside of brackets"));
        }
        if first.is_ascii_whitespace() {
            rest = &rest[1..];
        } else if first == '#' || first == '\\' {
            return Err(Refused::unknown(format!("`{first}`")));
        } else if first.is_ascii_digit()
            || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            let (token, length) = number(rest)?;
            tokens.push(token);
            rest = &rest[length..];
        } else if first == '"' || first == '\'' {
            let (piece, length) = string(rest, first, false)?;
            push_text(&mut tokens, piece);
            rest = &rest[length..];
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
            let name = &rest[..length];
            rest = &rest[length..];
            match rest.chars().next() {
                Some(quote @ ('"' | '\'')) if name.eq_ignore_ascii_case("r") => {
                    let (piece, length) = string(rest, quote, true)?;
                    push_text(&mut tokens, piece);
                    rest = &rest[length..];
                }
                Some('"' | '\'') => return Err(Refused::unknown(format!("a text after `{name}`"))),
                _ => tokens.push(Token::Name(name.to_owned())),
            }
        } else {
            let sign = SIGNS.iter().chain(&OTHER_SIGNS).find(|sign| rest.starts_with(**sign));
            let sign = *sign.ok_or_else(|| Refused::unknown(format!("`{first}`")))?;
            depth += match sign {
                "(" | "[" | "{" => 1,
                ")" | "]" | "}" => -1,
                _ => 0,
            };
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
    }
    tokens.push(Token::End);
    Ok(tokens)
}

// Texts that stand side by side are one.
fn push_text(tokens: &mut Vec<Token>, piece: String) {
    match tokens.last_mut() {
        Some(Token::Text(text)) => text.push_str(&piece),
        _ => tokens.push(Token::Text(piece)),
    }
}

fn number(text: &str) -> Result<(Token, usize), Refused> {
    let bytes = text.as_bytes();
    let digits = |from: usize, is: fn(u8) -> bool| {
        from + bytes[from..].iter().take_while(|byte| is(**byte) || **byte == b'_').count()
    };
    let radix = match bytes.get(1) {
        Some(b'x' | b'X') => 16,
        Some(b'o' | b'O') => 8,
        Some(b'b' | b'B') => 2,
        _ => 10,
    };
    let end;
    let token = if bytes[0] == b'0' && radix != 10 {
        end = digits(2, |byte| byte.is_ascii_hexdigit());
        i64::from_str_radix(&text[2..end].replace('_', ""), radix).map(Token::Int).ok()
    } else {
        let mut at = digits(0, |byte| byte.is_ascii_digit());
        let mut is_whole = true;
        if bytes.get(at) == Some(&b'.') {
            is_whole = false;
            at = digits(at + 1, |byte| byte.is_ascii_digit());
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
                is_whole = false;
                at = digits(at + 1 + sign, |byte| byte.is_ascii_digit());
            }
        }
        end = at;
        let digits = text[..end].replace('_', "");
        let has_zeros =
            digits.len() > 1 && digits.starts_with('0') && digits.bytes().any(|byte| byte != b'0');
        match is_whole {
            true if has_zeros => None,
            true => digits.parse().map(Token::Int).ok(),
            false => digits.parse().map(Token::Float).ok(),
        }
    };
    let is_alone = !text[end..].starts_with(|char: char| char.is_alphanumeric() || char == '_');
    let is_tidy = !text[..end].contains("__") && !text[..end].ends_with('_') && !text.contains("_.");
    match token {
        Some(token) if is_alone && is_tidy => Ok((token, end)),
        _ => Err(Refused::unknown(format!("the number at `{}`", text.chars().take(20).collect::<String>()))),
    }
}

// A text in quotes, and how many bytes it has with them.
fn string(text: &str, quote: char, is_raw: bool) -> Result<(String, usize), Refused> {
    let triple = String::from(quote).repeat(3);
    if text.starts_with(&triple) {
        return Err(Refused::unknown(triple));
    }
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\n' => break,
            char if char == quote => return Ok((value, at + 1)),
            '\\' => {
                let Some((_, next)) = chars.next() else { break };
                let meant = match next {
                    _ if is_raw => {
                        value.push('\\');
                        next
                    }
                    '\\' | '\'' | '"' => next,
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'x' | 'u' | 'U' => {
                        let digits = match next {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let code = (0..digits).try_fold(0_u32, |code, _| {
                            let digit = chars.next().and_then(|(_, char)| char.to_digit(16))?;
                            Some(code << 4 | digit)
                        });
                        let char = code.and_then(char::from_u32);
                        char.ok_or_else(|| Refused::unknown(format!("`\\{next}` without a character")))?
                    }
                    _ => return Err(Refused::unknown(format!("`\\{next}` in a text"))),
                };
                value.push(meant);
            }
            char => value.push(char),
        }
    }
    Err(Refused::wrong(format!("a text has no closing {quote}")))
}
