//! What the two files may say, and what is said of the rest.

use super::*;

const RULE: &str = "a:\n  out: a\n  script: x\n";
const TARGET: &str = "t:\n  out: a\n";

fn result(rules: &str, targets: &str) -> String {
    let read = read(
        Source { name: "rules.yaml", text: rules.as_bytes() },
        Source { name: "targets.yaml", text: targets.as_bytes() },
    );
    let all = match read {
        Ok(make) => make.warnings,
        Err(problems) => problems,
    };
    all.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn rules(text: &str, said: &str) {
    assert_eq!(result(text, TARGET), said, "{text}");
}

#[track_caller]
fn targets(text: &str, said: &str) {
    assert_eq!(result(RULE, text), said, "{text}");
}

#[test]
fn good_files_are_read_without_a_word() {
    rules(RULE, "");
    rules(
        "a: {resource: {time: 10, nrs: 2, cpu: 4, gpu: 1, ranks: 2, mem: 4GiB, fpga: 1}, inp: , out: {x: a}, setup: m, script: s}\n",
        "",
    );
    rules(
        "a: {inp: [b], loop: {n: 'range(3)', inp: ['c_{n}']}, out: [a], script: s, retry: 2, env: {A: 1}, locality: [k], time_limit: 90, rerun: mtime}\n",
        "",
    );
    targets("t: {dirname: d, frames: 120, loop: {n: 'range({frames})', out: ['x_{n}']}}\n", "");
}

#[test]
fn files_that_say_nothing_are_refused() {
    let hint = "\n  hint: a file is a mapping from names: see `hq doc make-files`";
    rules("", &format!("rules.yaml:1:1: the file contains no rules{hint}"));
    rules("# later\n", &format!("rules.yaml:1:1: the file contains no rules{hint}"));
    targets("{}", &format!("targets.yaml:1:1: the file contains no targets{hint}"));
    rules("- a\n", "rules.yaml:1:1: the file of rules is a mapping from their names, not a list");
    rules("a:\n", "rules.yaml:1:1: the rule `a` is empty");
    rules("a: 3\n", "rules.yaml:1:4: the rule `a` is a mapping, not a number");
}

#[test]
fn what_a_rule_lacks_is_named() {
    rules(
        "a:\n  out: a\n",
        "rules.yaml:1:1: the rule `a` has no `script`\n  hint: add the shell script that makes its files",
    );
    rules(
        "a:\n  out: a\n  scripts: x\n",
        "rules.yaml:1:1: the rule `a` has no `script`\n  hint: did you mean `script` instead of `scripts` (line 3)?",
    );
    rules(
        "a:\n  script: x\n",
        "rules.yaml:1:1: the rule `a` has no `out`\n  hint: list the files that it makes: only they can require it",
    );
    rules(
        "a:\n  script: x\n  output: b\n",
        "rules.yaml:1:1: the rule `a` has no `out`\n  hint: did you mean `out` instead of `output` (line 3)?",
    );
    targets(
        "t:\n  dirname: d\n",
        "targets.yaml:1:1: the target `t` has no `out`\n  hint: list the files that are wanted",
    );
    targets(
        "t:\n  outs: d\n",
        "targets.yaml:1:1: the target `t` has no `out`\n  hint: did you mean `out` instead of `outs` (line 2)?",
    );
}

#[test]
fn attributes_that_are_nearly_keys_are_warned_of() {
    rules(
        "a:\n  out: a\n  script: x\n  input: b\n",
        "rules.yaml:4:3: `input` of the rule `a` is treated as an attribute; did you mean `inp`?",
    );
    rules(
        "a:\n  out: a\n  script: x\n  resources: {cpu: 1}\n",
        "rules.yaml:4:3: `resources` of the rule `a` is treated as an attribute; did you mean `resource`?",
    );
    rules(
        "a:\n  out: a\n  script: x\n  rertun: mtime\n  rteun: 1\n  rerunn: 1\n  setpu: y\n",
        "rules.yaml:4:3: `rertun` of the rule `a` is treated as an attribute; did you mean `rerun`?\n\
         rules.yaml:6:3: `rerunn` of the rule `a` is treated as an attribute; did you mean `rerun`?\n\
         rules.yaml:7:3: `setpu` of the rule `a` is treated as an attribute; did you mean `setup`?",
    );
    rules("a:\n  out: a\n  script: x\n  frames: 7\n", "");
    targets(
        "t:\n  out: a\n  dirnam: d\n",
        "targets.yaml:3:3: `dirnam` of the target `t` is treated as an attribute; did you mean `dirname`?",
    );
}

#[test]
fn values_that_cannot_be_name_their_place() {
    let with = |resource: &str| format!("a:\n  out: a\n  script: x\n  resource: {{{resource}}}\n");
    rules(&with("nrs: 0"), "rules.yaml:4:19: `nrs: 0`: use a whole number of at least 1");
    rules(&with("cpu: -1"), "rules.yaml:4:19: `cpu: -1`: use a whole number of at least 0");
    rules(
        &with("time: abc"),
        "rules.yaml:4:20: `time: abc`: use minutes, for example 90 or 1.5\n  hint: with units, you can also \
         write `1h 30m`",
    );
    rules(&with("cpus: 4"), "rules.yaml:4:20: `cpus` of `resource` is called `cpu` here");
    rules(
        &with("mem: much"),
        "rules.yaml:4:19: `mem: much`: `much` is not a memory size: use 4GiB, 500MB, or a number of MiB",
    );
    rules(
        "a: {out: a, script: x, rerun: hsh}\n",
        "rules.yaml:1:31: `rerun` is exists, mtime or hash, not `hsh`\n  hint: did you mean `hash`?",
    );
    rules(
        "a: {out: a, script: x, retry: often}\n",
        "rules.yaml:1:31: `retry: often`: use a whole number of at least 0",
    );
    rules(
        "a: {out: a, script: x, retry: -1}\n",
        "rules.yaml:1:31: `retry: -1`: use a whole number of at least 0",
    );
    rules(
        "a: {out: a, script: x, time_limit: 0}\n",
        "rules.yaml:1:36: `time_limit: 0`: nothing can end within that time\n  hint: without `time_limit`, nothing \
         is ended",
    );
    rules(
        "a: {out: a, script: x, mpirun: y}\n",
        "rules.yaml:1:24: `mpirun` has a special meaning in templates; rename the attribute",
    );
    rules("a: {out: [''], script: x}\n", "rules.yaml:1:12: a file of `out` is empty");
    rules(
        "a/b: {out: a, script: x}\n",
        "rules.yaml:1:1: `a/b` is not a valid rule name: scripts are named after the rule",
    );
}

#[test]
fn loops_have_variables_and_files() {
    let with = |text: &str| format!("a:\n  out: a\n  script: x\n  loop: {text}\n");
    rules(
        &with("{n: 'range(3)'}"),
        "rules.yaml:4:9: `loop` has no `inp`, which lists the files that it creates\n  hint: add `inp:` below `loop`",
    );
    rules(
        &with("{inp: [a]}"),
        "rules.yaml:4:9: `loop` has no variables\n  hint: write `n: \"range(10)\"` below it, for example",
    );
    rules(
        &with("{n: , inp: [a]}"),
        "rules.yaml:4:10: `n` of `loop` has no values\n  hint: use a Python expression, for example \
         `\"range(10)\"`, or a list",
    );
    rules(
        &with("{n: 'range(3)', inp: {x: a}}\n  inp: {x: b}"),
        "rules.yaml:4:34: `x` is in `inp` of `loop`, and also at rules.yaml:5:12\n  hint: rename one of them",
    );
}

#[test]
fn braces_are_checked_where_they_stand() {
    let double = "double literal braces: `{{` and `}}`";
    rules(
        "a:\n  out: a\n  script: |\n    one\n    awk '{print $1\n",
        &format!("rules.yaml:5:10: a `{{` without its `}}`\n  hint: {double}"),
    );
    rules(
        "a:\n  out: a\n  script: |\n    one\n      two }\n",
        &format!("rules.yaml:5:11: a `}}` without its `{{`\n  hint: {double}"),
    );
    rules(
        "a:\n  out: \"x{n\"\n  script: x\n",
        &format!("rules.yaml:2:10: a `{{` without its `}}`\n  hint: {double}"),
    );
}

#[test]
fn several_problems_are_said_at_once() {
    let said = result("a:\n  out: a\nb:\n  script: x\n", "t:\n  x: 1\n");
    assert_eq!(said.lines().filter(|line| !line.starts_with("  hint")).count(), 3, "{said}");
}

#[test]
fn swapped_files_are_recognised() {
    let rules = Source { name: "rules.yaml", text: b"a:\n  out: x\n  script: touch x\n" };
    let targets = Source { name: "targets.yaml", text: b"t:\n  dirname: d\n  out: {x: y}\n" };
    assert!(read(rules, targets).is_ok());
    let told: Vec<String> =
        read(targets, rules).expect_err("swapped").iter().map(ToString::to_string).collect();
    let expected = "targets.yaml:1:1: targets.yaml has targets, and rules.yaml rules: they look swapped";
    assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
}
