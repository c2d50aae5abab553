//! Templates against Python's own `str.format`: a table of what is written, and random formats.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

struct Names(Vec<(&'static str, Value)>);

impl Scope for Names {
    fn get(&self, name: &str) -> Option<Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

fn names() -> Names {
    Names(vec![
        ("n", Value::Int(7)),
        ("big", Value::Int(-1_234_567)),
        ("x", Value::Float(3.25125)),
        ("tiny", Value::Float(-1.5e-7)),
        ("zero", Value::Float(-0.0)),
        ("s", Value::text("abc")),
        ("t", Value::text("it's \n\u{e9}")),
        ("yes", Value::Bool(true)),
        ("none", Value::None),
        ("l", Value::list(vec![Value::Int(1), Value::text("b"), Value::Float(2.0)])),
        ("d", Value::dict(vec![(Value::text("k"), Value::text("v")), (Value::text("w"), Value::Int(6))])),
        ("p", Value::tuple(vec![Value::Int(1)])),
    ])
}

const PYTHON_NAMES: &str = r#"
names = dict(n=7, big=-1234567, x=3.25125, tiny=-1.5e-7, zero=-0.0, s="abc", t="it's \n\u00e9", yes=True, none=None,
             l=[1, "b", 2.0], d={"k": "v", "w": 6}, p=(1,))
import sys
for line in sys.stdin.buffer.read().split(b"\0")[:-1]:
    try:
        result = "=" + line.decode().format(**names)
    except Exception as error:
        result = "!"
    sys.stdout.buffer.write(result.encode() + b"\0")
"#;

/// What Python writes for each template; nothing where it refuses.
fn python(templates: &[String]) -> Vec<Option<String>> {
    let mut child = Command::new("python3")
        .args(["-I", "-c", PYTHON_NAMES])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut input = child.stdin.take().expect("a pipe");
    let all: String = templates.iter().map(|template| format!("{template}\0")).collect();
    let writer = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let output = child.wait_with_output().expect("python3 ends");
    writer.join().expect("no panic").expect("python3 reads");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<_> =
        text.split('\0').map(|answer| answer.strip_prefix('=').map(str::to_owned)).collect();
    assert_eq!(answers.len(), templates.len() + 1, "one answer each");
    answers[..templates.len()].to_vec()
}

fn ours(template: &str) -> Result<String, FormatError> {
    Template::parse(template)?.expand(&names())
}

#[track_caller]
fn same_as_python(templates: &[String]) {
    for (template, python) in templates.iter().zip(python(templates)) {
        assert_eq!(ours(template).ok(), python, "{template:?}: {:?}", ours(template));
    }
}

#[test]
fn templates_become_what_python_makes_of_them() {
    let table = [
        "{n}",
        "{{}}",
        "{{{n}}}",
        "a{n}b{s}",
        "{n:03d}",
        "{n:+d}",
        "{n: d}",
        "{n:x}",
        "{n:#x}",
        "{n:#b}",
        "{n:c}",
        "{n:e}",
        "{n:.2f}",
        "{n:%}",
        "{n:>5}",
        "{n:*^7}",
        "{n:<3}|",
        "{big:,}",
        "{big:_}",
        "{big:_x}",
        "{big:015,}",
        "{big:=+12}",
        "{x}",
        "{x:.2f}",
        "{x:.3}",
        "{x:.3g}",
        "{x:10.1e}|",
        "{x:010.2f}",
        "{x:#.0f}",
        "{x:g}",
        "{tiny}",
        "{tiny:.3f}",
        "{tiny:g}",
        "{tiny:z.3f}",
        "{zero}",
        "{zero:z}",
        "{zero:+}",
        "{s!r}",
        "{s:>6}",
        "{s:.2}",
        "{s:06}",
        "{s:d}",
        "{t!r}",
        "{t!a}",
        "{t!s}",
        "{yes}",
        "{yes:d}",
        "{yes:5}",
        "{yes!s:>6}",
        "{none}",
        "{none:5}",
        "{none!r:>6}",
        "{l}",
        "{l[0]}",
        "{l[1]}",
        "{l[9]}",
        "{l[-1]}",
        "{l[x]}",
        "{d}",
        "{d[k]}",
        "{d[w]:02d}",
        "{d[nope]}",
        "{p}",
        "{n.real}",
        "{n.imag}",
        "{n.nope}",
        "{s[0]}",
        "{x:{n}}",
        "{x:{n}.{n}f}",
        "{s:{s}>{n}}",
        "{x:{n:{n}}}",
        "{n",
        "n}",
        "{",
        "}",
        "{}",
        "{0}",
        "{n!x}",
        "{n!}",
        "{n!r",
        "{n!rr}",
        "{n:",
        "{a b}",
        "{n]}",
        "{n[}",
        "{n.}",
        "{n[]}",
        "{l[0]x}",
        "{n:{}",
        "{d[a}b]}",
        "{d[a:b]}",
        "{n:5.2d}",
        "{n:5,,}",
        "{n:,n}",
        "{x:n}",
        "{x:F}",
        "{x:s}",
        "{s:5d}",
        "{n:s}",
        "{big:06_b}",
        "{n:#o}",
        "{n:#X}",
        "{x:.0f}",
        "{x:.0e}",
        "{x:#.0e}",
        "{x:.20f}",
        "{x:.1%}",
        "{n:0>5}",
        "{n:0<5}",
        "{n:<05}",
        "{n:05}",
        "{n: <5}|",
        "{s:=5}",
        "{s:+}",
        "{s:#}",
        "{s:z}",
        "{n:z}",
        "{x:,.2f}",
        "{big:,.1f}",
        "{big:020,.1f}",
        "{x:_<+9.2f}",
        "{x:.3n}",
    ];
    same_as_python(&table.map(str::to_owned));
}

// The commit is the seed in CI, as for all random tests here.
#[test]
fn random_templates_become_what_python_makes_of_them() {
    let field = "(n|big|x|tiny|zero|s|yes|l\\[2\\]|d\\[w\\])(!r|!s)?(:[ x*]?[<>=^]?[+ -]?z?#?0?[0-9]{0,2}[,_]?(\\.[0-9]{1,2})?[bcdeEfFgGnosxX%]?)?";
    let text = format!(
        "[a-z ]{{0,3}}\\{{{field}\\}}[a-z]{{0,2}}(\\{{\\{{|\\}}\\}}|\\{{{field}\\}}|\\{{|\\}}){{0,1}}"
    );
    let strategy = proptest::string::string_regex(&text).expect("a pattern");
    let mut runner = TestRunner::deterministic();
    let random = (0..4000).map(|_| strategy.new_tree(&mut runner).expect("a text").current());
    let templates: Vec<String> = ["{x:  }", "{n:+ }"].map(str::to_owned).into_iter().chain(random).collect();
    same_as_python(&templates);
}

#[test]
fn random_numbers_are_written_as_python_writes_them() {
    let mut runner = TestRunner::deterministic();
    let numbers = prop_oneof![
        any::<f64>(),
        (-20i32..20).prop_map(|n| f64::from(n) / 8.0),
        any::<i16>().prop_map(f64::from)
    ];
    let specs = ["", ".3", ".0f", ".1f", ".3g", "e", "012.4", ",", "g", ".17g", "#.3g", "%"];
    let mut questions = Vec::new();
    let mut answers = Vec::new();
    // Halfway between two texts of as many digits that are both read as this number.
    let halfway = f64::from_bits(4_833_172_555_380_458_385);
    let random = (0..2000).map(|_| numbers.new_tree(&mut runner).expect("a number").current());
    for number in std::iter::once(halfway).chain(random) {
        for spec in specs {
            let parsed = Spec::parse(spec).expect("a format");
            answers.push(apply(&Value::Float(number), &parsed).expect("a number"));
            questions.push(format!("{} {spec}\n", number.to_bits()));
        }
    }
    let program = "import sys, struct\nfor line in sys.stdin:\n    bits, _, spec = line.rstrip('\\n').partition(' ')\n    print(format(struct.unpack('d', struct.pack('Q', int(bits)))[0], spec))";
    let mut child = Command::new("python3")
        .args(["-I", "-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut input = child.stdin.take().expect("a pipe");
    let all = questions.concat();
    let writer = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let output = child.wait_with_output().expect("python3 ends");
    writer.join().expect("no panic").expect("python3 reads");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    for ((line, answer), question) in lines.lines().zip(&answers).zip(&questions) {
        assert_eq!(answer, line, "{question}");
    }
    assert_eq!(lines.lines().count(), answers.len());
}

#[test]
fn errors_name_the_field_the_names_and_a_way_out() {
    #[track_caller]
    fn check(template: &str, at: usize, said: &str) {
        let error = ours(template).expect_err("refused");
        assert_eq!(
            (error.at, format!("{} / {}", error.message, error.hint.unwrap_or_default())),
            (at, said.to_owned())
        );
    }
    let names = "the names here are n, big, x, tiny, zero, s, t, yes, none, l, d, p";
    check("a {bg}", 2, &format!("`{{bg}}` is not known here / did you mean `big`? {names}"));
    check("${HOME}", 1, &format!("`{{HOME}}` is not known here / {names}; {DOUBLE}"));
    check("awk '{print $1}'", 5, &format!("`{{print $1}}` is not known here / {names}; {DOUBLE}"));
    check("x {", 2, &format!("a `{{` without its `}}` / {DOUBLE}"));
    check("x }", 2, &format!("a `}}` without its `{{` / {DOUBLE}"));
    check("{d[q]}", 0, "`{d[q]}`: there is no key `q`; the keys are k, w / ");
    check("{s:03d}", 0, "`{s:03d}`: `d` is for numbers, but this is a string / ");
}
