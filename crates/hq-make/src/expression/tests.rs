//! Expressions against Python's own `eval`, and against nonsense.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

const PROGRAM: &str = r#"
import sys
for line in sys.stdin.buffer.read().split(b"\0")[:-1]:
    try:
        result = "=" + repr(list(eval(line.decode().strip(), {})))
    except Exception as error:
        result = "!"
    sys.stdout.buffer.write(result.encode() + b"\0")
"#;

fn python(expressions: &[String]) -> Vec<Option<String>> {
    let mut child = Command::new("python3")
        .args(["-I", "-W", "ignore", "-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut input = child.stdin.take().expect("a pipe");
    let all: String = expressions.iter().map(|text| format!("{text}\0")).collect();
    let writer = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let output = child.wait_with_output().expect("python3 ends");
    writer.join().expect("no panic").expect("python3 reads");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<_> =
        text.split('\0').map(|answer| answer.strip_prefix('=').map(str::to_owned)).collect();
    assert_eq!(answers.len(), expressions.len() + 1, "one answer each");
    answers[..expressions.len()].to_vec()
}

/// Compares; says how many of them our evaluator knew.
fn same_as_python(expressions: &[String]) -> usize {
    let mut known = 0;
    for (text, python) in expressions.iter().zip(python(expressions)) {
        match values(text) {
            Ok(values) => {
                known += 1;
                assert_eq!(Some(Value::list(values).repr()), python, "{text}");
            }
            Err(Refused::Wrong(why)) => {
                known += 1;
                assert_eq!(None, python, "{text}: {why}");
            }
            Err(Refused::Unknown(_)) => (),
        }
    }
    known
}

#[test]
fn what_users_write_is_known_and_gives_what_python_gives() {
    let table = [
        "range(10)",
        "range(1, 11)",
        "range(0,120)",
        "range(10, 0, -3)",
        "[1, 2, 3]",
        "['a', \"b\"]",
        "(1, 'x', 2.5)",
        "1, 2, 3",
        "()",
        "[]",
        "{}",
        "'abc'",
        "{'b': 1, 'a': 2}",
        "[x for x in range(5)]",
        "[x*x for x in range(5) if x % 2]",
        "[(x, y) for x in range(3) for y in 'ab' if x != 1]",
        "[x + str(n) for x in ['a', 'b'] for n in range(2)]",
        "list(range(3)) + [7]",
        "[0] * 3",
        "2 * (1,)",
        "sorted([3, 1, 2])",
        "sorted(['b', 'a'], reverse=True)",
        "sorted([(1, 'b'), (1, 'a'), (0, 'z')], reverse=True)",
        "sorted({3, 1, 2, 1})",
        "list(zip('abc', range(2)))",
        "enumerate('ab')",
        "enumerate('ab', start=1)",
        "reversed([1, 2])",
        "[len('äö'), len([1])]",
        "[int('7'), int(2.9), int(-2.9)]",
        "[str(1.5), str(None), str([1, 'a'])]",
        "[7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 2 ** 10, 2 ** -1, 7 / 2, 6 / 2]",
        "[7.5 // 2, -7.5 // 2, -7.5 % 2, 7.5 % -2, 1e300 * 10, 0.1 + 0.2]",
        "[1 < 2 < 3, 1 == 1.0, 'a' in 'cat', 3 not in [1], None is None]",
        "[1 if x > 1 else 'small' for x in range(3)]",
        "[not 0, 1 and 2, 0 or 'x', not [] and 5]",
        "[sum(range(5)), min(3, 1), max([2, 9]), abs(-3)]",
        "[x for x in range(100)][90:]",
        "'hello'[1:4]",
        "range(10)[2:8:3]",
        "[1,2,3][::-1]",
        "(1,2,3)[-1:]",
        "[[1, 2][0], (3,)[-1], 'abc'[1], {'k': 5}['k']]",
        "[x for x, y in [(1, 2), (3, 4)]]",
        "[a for (a, (b, c)) in [(1, (2, 3))]]",
        "{x: x*x for x in range(3)}",
        "{'a': 1}.items()",
        "'a,b,c'.split(',')",
        "' a  b '.split()",
        "['-'.join(['a', 'b'])]",
        "['7'.zfill(3), 'ab'.upper(), 'a.b'.replace('.', '_')]",
        "[x for x in 'abc' if x.startswith('b')]",
        "[0x1f, 0b11, 0o17, 1_000, .5, 1e3]",
        "['a' 'b']",
        "[r'\\d']",
        "['\\x41\\u00e9']",
        "[1, 2, 3,]",
        "(x for x in range(3))",
        "sum(x for x in range(4))",
        "[-x for x in range(2)]",
        "[~1, +2, --3]",
        "[1 << 4, 256 >> 2, 6 & 3, 6 | 1, 6 ^ 2]",
        "[any([0, 1]), all([])]",
        "tuple(range(2))",
        "set('a')",
        "[1] < [2]",
        "5",
        "1/0",
        "range(0, 5, 0)",
        "[1, 2][5]",
        "'a' + 1",
        "None",
        "sorted([1, 'a'])",
        "[x for x in 5]",
        "{'a': 1}['b']",
        "[1 < 'a']",
        "int",
        "[x, y] for x",
        "-'a'",
        "divmod(7, 2)",
        "[2**62 + 2**62 - 1]",
        "[True + True, False * 3]",
        "[1,\n 2]",
        "[] or [1]",
        "[1 for x in range(3) for y in range(x)]",
        "[(lambda x: x)(1)]",
        "{1, 2} | {3}",
        "len(range(10**9)) and [1]",
        "[range(10**9)[5]]",
        "[1, 2] in {'k': 1} or [5]",
        "[1] in {1} or [5]",
        "[{1} in {2}, 1.0 in {1: 2}, (1, 'a') in {(1, 'a')}, None in {}]",
        "{1} in {2: 1} or [5]",
    ];
    let all = table.map(str::to_owned);
    let known = same_as_python(&all);
    assert!(known >= all.len() - 4, "only {known} of {} are known", all.len());
}

#[test]
fn what_python_must_evaluate_is_said() {
    for (text, said) in [
        ("glob('*.x')", "`glob` with 1 arguments"),
        ("[f'{x}' for x in range(2)]", "a text after `f`"),
        ("map(lambda x: x, [1])", "`lambda`"),
        ("[2 ** 64]", "a whole number of more than 64 bits"),
        ("frames", "the name `frames`"),
        ("__import__('os').listdir('.')", "`__import__` with 1 arguments"),
    ] {
        assert_eq!(values(text), Err(Refused::Unknown(said.to_owned())), "{text}");
    }
}

#[test]
fn what_is_endless_or_huge_ends() {
    for (text, said) in [
        ("range(10**7)", "it has 10000000 values, more than 1000000"),
        ("[x for x in range(10**6) for y in range(10**6)]", "it takes more than 20000000 steps"),
        ("'x' * 10**12", "it takes more than 20000000 steps"),
        ("[[0] * 10**6 for x in range(10**6)]", "it takes more than 20000000 steps"),
        ("", "it is empty"),
        ("'a", "a text has no closing '"),
    ] {
        assert_eq!(values(text), Err(Refused::Wrong(said.to_owned())), "{text}");
    }
    let deep = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(values(&deep), Err(Refused::Wrong("it is nested deeper than 40 levels".to_owned())));
    let within = "[x for x in ".repeat(36) + "[1]" + &"]".repeat(36);
    assert_eq!(values(&within), Ok(vec![Value::Int(1)]));
    let chain = format!("[{}1]", "(1 + 2 * ".repeat(38) + &"1)".repeat(38));
    assert!(matches!(values(&chain), Err(Refused::Unknown(_) | Refused::Wrong(_))), "nothing overflows");
    let long = format!("[{}1]", "1 + ".repeat(5000));
    assert_eq!(values(&long), Ok(vec![Value::Int(5001)]));
    let unary = format!("[{}1]", "-".repeat(10_000));
    assert_eq!(values(&unary), Err(Refused::Wrong("it is nested deeper than 40 levels".to_owned())));
}

#[test]
fn random_expressions_give_what_python_gives() {
    let leaf = prop_oneof![
        (-9i64..10).prop_map(|int| int.to_string()),
        prop::sample::select(vec![
            "'a'", "'bc'", "1.5", "True", "None", "[1, 2]", "(3,)", "range(3)", "{'k': 1}", "0.25", "x"
        ])
        .prop_map(str::to_owned),
    ];
    let strategy = leaf.prop_recursive(4, 24, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "//", "/", "%", "<", "==", "in", "and", "or", "!=", ">=",
        ]);
        let function = prop::sample::select(vec![
            "len", "str", "int", "sorted", "list", "min", "sum", "abs", "tuple", "bool",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            (function, inner.clone()).prop_map(|(name, a)| format!("{name}({a})")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a} for x in {b}]")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("{a}[{b}:]")),
        ]
    });
    let mut runner = TestRunner::deterministic();
    let all: Vec<String> = (0..3000)
        .map(|_| strategy.new_tree(&mut runner).expect("a text").current())
        .map(|text| format!("[{text} for x in [2]]"))
        .collect();
    let known = same_as_python(&all);
    assert!(known > 2000, "{known} of 3000 are known");
}

proptest! {
    #[test]
    fn any_text_ends_without_a_panic(text in "[-+*/%()\\[\\]{}:,.<>=!'\" a-z0-9_\\\\\n]{0,60}|\\PC{0,30}") {
        let _ = evaluate(&text);
    }
}
