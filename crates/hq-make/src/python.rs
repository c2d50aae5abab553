//! Python, for the expressions of loops that our own evaluator does not know: what to run, what to send, what comes back.
//!
//! Run `python3 -I -c PROGRAM`, write [`request`] to its standard input, and give its standard output to [`answers`].

use crate::expression;
use crate::value::Value;

/// The program. It reads expressions, evaluates each on its own, and writes one line for each.
pub const PROGRAM: &str = r#"import io, itertools, math, os, resource, sys
# Whoever asks may be gone by then: what never ends must end.
resource.setrlimit(resource.RLIMIT_CPU, (20, 21))
MOST = 1000000
def plain(value):
    if value is None or value is True or value is False:
        return repr(value)
    if isinstance(value, str):
        return ascii(str(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else 'float("%r")' % float(value)
    if isinstance(value, list):
        return "[" + ",".join(map(plain, value)) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(plain(item) + "," for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ",".join(plain(key) + ":" + plain(item) for key, item in value.items()) + "}"
    if hasattr(value, "__index__"):
        number = value.__index__()
        if not -2**63 < number < 2**63:
            raise ValueError("a whole number of more than 64 bits")
        return str(number)
    if isinstance(value, os.PathLike):
        return ascii(os.fspath(value))
    if hasattr(value, "__float__"):
        return plain(float(value))
    raise TypeError("a value of type %s cannot be put into a name" % type(value).__name__)
answers, sys.stdout = sys.stdout, sys.stderr
data = io.BytesIO(sys.stdin.buffer.read())
while True:
    length = data.readline()
    if not length:
        break
    text = data.read(int(length)).decode()
    try:
        values = list(itertools.islice(eval(text, {}), MOST + 1))
        if len(values) > MOST:
            raise ValueError("it has more than %d values" % MOST)
        line = "=[" + ",".join(map(plain, values)) + "]"
    except BaseException as error:
        line = "!" + ascii("%s: %s" % (type(error).__name__, error))
    answers.write(line + "\n")
answers.flush()
"#;

/// What the program reads.
pub fn request(expressions: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for expression in expressions {
        bytes.extend_from_slice(format!("{}\n{expression}", expression.len()).as_bytes());
    }
    bytes
}

/// What the program wrote, one answer for each of so many expressions.
///
/// # Errors
/// When it is not what the program writes.
pub fn answers(output: &[u8], count: usize) -> Result<Vec<Result<Vec<Value>, String>>, String> {
    let text = std::str::from_utf8(output).map_err(|_| "Python's answer is not UTF-8".to_owned())?;
    let answers: Vec<_> = text.lines().map(answer).collect::<Result<_, _>>()?;
    if answers.len() != count {
        return Err(format!("Python gave {} answers to {count} expressions", answers.len()));
    }
    Ok(answers)
}

fn answer(line: &str) -> Result<Result<Vec<Value>, String>, String> {
    let odd = || format!("Python answered `{}`", line.chars().take(100).collect::<String>());
    let text = line.get(1..).ok_or_else(odd)?;
    let value = expression::literal(text).map_err(|_| odd())?;
    match (&line[..1], value) {
        ("=", Value::List(values)) => Ok(Ok(values.to_vec())),
        ("!", Value::Str(message)) => Ok(Err(message.to_string())),
        _ => Err(odd()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn ask(expressions: &[&str]) -> Vec<Result<Vec<Value>, String>> {
        let expressions: Vec<String> = expressions.iter().map(|text| (*text).to_owned()).collect();
        let mut child = Command::new("python3")
            .args(["-I", "-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 is there");
        child.stdin.take().expect("a pipe").write_all(&request(&expressions)).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        answers(&output.stdout, expressions.len()).expect("answers")
    }

    #[test]
    fn python_answers_what_our_evaluator_does_not_know() {
        let answers = ask(&[
            "[f'{x:02d}' for x in range(2)]",
            "map(lambda x: (x, -1.5, None, 'é\\n'), [True])",
            "[float('inf'), {'a': [1]}]",
            "1 +",
            "iter(int, 1)",
            "[2**70]",
            "print('noise') or [1]",
            "exit(3)",
            "[object]",
            "",
        ]);
        let shown: Vec<String> = answers
            .into_iter()
            .map(|answer| answer.map_or_else(|error| error, |values| Value::list(values).repr()))
            .collect();
        assert_eq!(shown[..3], ["['00', '01']", "[(True, -1.5, None, 'é\\n')]", "[inf, {'a': [1]}]"]);
        assert!(shown[3].starts_with("SyntaxError: "), "{}", shown[3]);
        assert_eq!(
            shown[4..9],
            [
                "ValueError: it has more than 1000000 values",
                "ValueError: a whole number of more than 64 bits",
                "[1]",
                "SystemExit: 3",
                "TypeError: a value of type type cannot be put into a name",
            ]
        );
        assert!(shown[9].starts_with("SyntaxError: "), "{}", shown[9]);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for (text, count, said) in [
            ("=[1]\n", 2, "Python gave 1 answers to 2 expressions"),
            ("what\n", 1, "Python answered `what`"),
            ("", 1, "Python gave 0 answers to 1 expressions"),
            ("\n", 1, "Python answered ``"),
            ("=1\n", 1, "Python answered `=1`"),
        ] {
            assert_eq!(answers(text.as_bytes(), count), Err(said.to_owned()));
        }
    }
}
