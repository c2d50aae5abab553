//! Plans: which runs are found, with which texts, and what is said of what cannot be.

use crate::plan::{Force, Rerun, RunState, Wanted};
use crate::testing::{
    CHEMISTRY_RULES, CHEMISTRY_TARGETS, Disk, PAPER_RULES, PAPER_TARGETS, Parrot, needed, plan, plan_of, said,
};
use crate::{Known, Plan};

const A_FROM_B: &str = "a: {inp: [b], out: [a], script: x}\nb: {inp: [c], out: [b], script: y}\n";
const WANT_A: &str = "t: {out: [a]}\n";

#[track_caller]
fn runs(rules: &str, targets: &str, files: &str, rerun: Rerun, expected: &str) {
    let found = match plan(rules, targets, &Disk::new(files), rerun) {
        Ok(plan) if plan.missing.is_empty() => needed(&plan),
        Ok(plan) => said(&plan.missing),
        Err(problems) => said(&problems),
    };
    assert_eq!(found, expected, "{files}");
}

#[track_caller]
fn refused(rules: &str, targets: &str, expected: &str) {
    let plan = plan(rules, targets, &Disk::new(""), Rerun::Exists);
    assert_eq!(plan.map(|plan| needed(&plan)).map_err(|problems| said(&problems)), Err(expected.to_owned()));
}

fn script(plan: &Plan, name: &str) -> String {
    let run = plan.runs.iter().find(|run| run.name == name).expect("a run of that name");
    String::from_utf8(run.script.clone()).expect("UTF-8")
}

#[test]
fn the_listing_of_the_paper_is_planned() {
    let disk = Disk::new("System1/0.param System1/1.param System1/2.param System1/system.top");
    let plan = plan(PAPER_RULES, PAPER_TARGETS, &disk, Rerun::Exists).expect("a plan");
    assert_eq!(needed(&plan), "simulate.0 simulate.1 simulate.2 analyze.rdf analyze.msd");
    assert_eq!(
        script(&plan, "simulate.1"),
        "#!/usr/bin/env bash\n: \"${HQ_MPIRUN:=mpirun -n 60}\"\nset -e\ncd /w/System1\nmodule load cuda\n$HQ_MPIRUN simulate 1.param 1.trj\n"
    );
    assert_eq!(
        script(&plan, "analyze.rdf"),
        "#!/usr/bin/env bash\n: \"${HQ_MPIRUN:=mpirun -n 1}\"\nset -e\ncd /w/System1\n\
         $HQ_MPIRUN python average.py system.top an_rdf.npy 0.trj 1.trj 2.trj\n"
    );
    let run = &plan.runs[3];
    assert_eq!(run.after.len(), 3);
    assert_eq!(String::from_utf8_lossy(&run.log_path), "/w/System1/analyze.rdf.log");
    let resources = &plan.runs[0].resources;
    assert_eq!(
        (resources.ranks_total(), resources.cpus_total(), resources.time.map(|t| t.as_secs())),
        (60, 420, Some(7200))
    );
}

#[test]
fn a_project_with_merges_is_planned_for_each_of_its_directories() {
    let disk = Disk::new("chloride/mol.xyz sodium/mol.xyz chloride/conf_2.xyz");
    let plan = plan(CHEMISTRY_RULES, CHEMISTRY_TARGETS, &disk, Rerun::Exists).expect("a plan");
    assert_eq!((plan.needed().count(), plan.missing.len()), (19, 0));
    let find =
        |dir: &str, name: &str| plan.runs.iter().find(|run| *run.dir_shown == *dir && run.name == name);
    assert!(find("chloride", "conformer.2").is_none() && find("sodium", "conformer.2").is_some());
    let run = find("chloride", "ebind.3").expect("a run");
    assert!(run.script.ends_with(b"export OMP_NUM_THREADS=4\npython ebind.py conf_3.xyz -1 > bind_3.json\n"));
    assert_eq!((run.resources.cpu, run.resources.time.map(|time| time.as_secs())), (4, Some(600)));
    let run = find("sodium", "dg_nm1_n").expect("a run");
    assert!(
        run.script
            .ends_with(b"python collect.py min_nm1.npy bind_0.json bind_1.json bind_2.json bind_3.json\n")
    );
    assert_eq!(
        (run.resources.cpu, run.resources.time.map(|time| time.as_secs()), run.after.len()),
        (4, Some(240), 4)
    );
    let run = find("sodium", "rrho").expect("a run");
    assert!(run.script.ends_with(b"awk '{print $1}' min_nm1.npy > nm1.json\n"));
}

#[test]
fn the_search_stops_at_files_that_exist() {
    use Rerun::Exists;
    runs(A_FROM_B, WANT_A, "c", Exists, "b a");
    runs(A_FROM_B, WANT_A, "b", Exists, "a");
    runs(A_FROM_B, WANT_A, "a", Exists, "");
    runs(A_FROM_B, WANT_A, "a=1 b=2 c=3", Exists, "");
    runs(
        A_FROM_B,
        WANT_A,
        "",
        Exists,
        "rules.yaml:2:11: `c` is missing, and no rule makes it\n  target t (targets.yaml:1) requires a\n  \
         rule a (rules.yaml:1) makes a from b\n  rule b (rules.yaml:2) makes b from c",
    );
}

#[test]
fn a_rule_that_nobody_asks_for_never_runs() {
    runs(
        "a: {out: [a], script: x}\nz: {inp: [nowhere], out: [z], script: '{nothing}'}\n",
        WANT_A,
        "",
        Rerun::Exists,
        "a",
    );
}

#[test]
fn newer_inputs_count_in_mode_mtime() {
    use Rerun::Mtime;
    runs(A_FROM_B, WANT_A, "a=3 b=2 c=1", Mtime, "");
    runs(A_FROM_B, WANT_A, "a=1 b=1 c=1", Mtime, "");
    runs(A_FROM_B, WANT_A, "a=3 b=2 c=9", Mtime, "b a");
    runs(A_FROM_B, WANT_A, "a=1 b=2 c=1", Mtime, "a");
    runs(A_FROM_B, WANT_A, "a=3 c=1", Mtime, "b a");
    runs(A_FROM_B, WANT_A, "b=2 c=1", Mtime, "a");
    let two = "a: {inp: [b], out: [a, a2], script: x}\n";
    runs(two, WANT_A, "a=3 a2=1 b=2", Mtime, "a");
    runs(two, WANT_A, "a=3 b=2", Mtime, "a");
}

#[test]
fn a_rule_may_have_a_mode_of_its_own() {
    let rules = "a: {inp: [b], out: [a], script: x}\nb: {inp: [c], out: [b], script: y, rerun: mtime}\n";
    runs(rules, WANT_A, "a=1 b=1 c=9", Rerun::Exists, "");
    runs(rules, WANT_A, "b=1 c=9", Rerun::Exists, "b a");
    let rules = "a: {inp: [b], out: [a], script: x, rerun: mtime}\nb: {inp: [c], out: [b], script: y}\n";
    runs(rules, WANT_A, "a=2 b=1 c=9", Rerun::Exists, "");
    runs(rules, WANT_A, "a=1 b=2 c=9", Rerun::Exists, "a");
}

#[test]
fn a_text_that_differs_from_what_made_the_outputs_counts() {
    let mut disk = Disk::new("a=3 b=2 c=1");
    let first = plan(A_FROM_B, WANT_A, &disk, Rerun::Mtime).expect("a plan");
    assert!(!first.adopted.is_empty(), "unknown texts are adopted, not run");
    disk.known.take(&first.adopted);
    let changed = A_FROM_B.replace("script: y", "script: z");
    let second = plan(&changed, WANT_A, &disk, Rerun::Mtime).expect("a plan");
    assert_eq!((needed(&second).as_str(), second.adopted.len()), ("b a", 0));
    disk.execute(&second, &second.runs[0], 5, None);
    disk.execute(&second, &second.runs[1], 6, None);
    assert_eq!(needed(&plan(&changed, WANT_A, &disk, Rerun::Mtime).expect("a plan")), "");
    assert_eq!(
        needed(&plan(A_FROM_B, WANT_A, &disk, Rerun::Exists).expect("a plan")),
        "",
        "but not in mode exists"
    );
}

#[test]
fn contents_count_in_mode_hash() {
    let mut disk = Disk::new("a=3 b=2 c=1");
    let hash = |disk: &Disk| plan(A_FROM_B, WANT_A, disk, Rerun::Hash).expect("a plan");
    disk.known.take(&hash(&disk).adopted);
    assert_eq!(needed(&hash(&disk)), "");
    disk.write("c", 9, "c");
    let touched = hash(&disk);
    assert_eq!(needed(&touched), "", "the time is another, the content is not");
    disk.known.take(&touched.adopted);
    disk.write("c", 10, "other");
    let changed = hash(&disk);
    assert_eq!(needed(&changed), "b a?");
    let last = &changed.runs[1];
    assert!(matches!(last.state, RunState::Perhaps(_)) && last.expected.len() == 1 && last.after.len() == 1);
    // b comes out as it was: a need not run.
    disk.execute(&changed, &changed.runs[0], 11, Some("b"));
    assert!(Known::is_unchanged(last, &changed, &disk, &disk).expect("no errors"));
    disk.known.take(&Known::ended(last, &changed, &disk, &disk).expect("no errors"));
    assert_eq!(needed(&hash(&disk)), "");
    // b comes out different.
    disk.write("c", 12, "third");
    let again = hash(&disk);
    disk.execute(&again, &again.runs[0], 13, Some("new"));
    assert!(!Known::is_unchanged(&again.runs[1], &again, &disk, &disk).expect("no errors"));
    assert_eq!(needed(&hash(&disk)), "a");
}

#[test]
fn other_inputs_than_before_count_in_mode_hash() {
    let mut disk = Disk::new("a=3 b=2 b2=2");
    let rules = "a: {inp: [b], out: [a], script: x}\n";
    disk.known.take(&plan(rules, WANT_A, &disk, Rerun::Hash).expect("a plan").adopted);
    let more = "a: {inp: [b, b2], out: [a], script: x}\n";
    assert_eq!(needed(&plan(more, WANT_A, &disk, Rerun::Hash).expect("a plan")), "a");
}

#[test]
fn what_is_adopted_counts_as_up_to_date() {
    for rerun in [Rerun::Mtime, Rerun::Hash] {
        let mut disk = Disk::new("a=1 b=2 c=3");
        let before = plan(A_FROM_B, WANT_A, &disk, rerun).expect("a plan");
        assert_eq!(needed(&before), "b a");
        disk.known.take(&Known::adopt(&before, &disk, &disk).expect("no errors"));
        assert_eq!(needed(&plan(A_FROM_B, WANT_A, &disk, rerun).expect("a plan")), "");
        disk.write("c", 4, "changed");
        assert!(needed(&plan(A_FROM_B, WANT_A, &disk, rerun).expect("a plan")).starts_with("b a"));
    }
}

#[test]
fn what_is_forced_is_made_with_all_that_follows() {
    let disk = Disk::new("a b c");
    let with = |force: Force| {
        let wanted = Wanted { force, ..Wanted::default() };
        plan_of(A_FROM_B, WANT_A, &disk, &wanted, None)
            .map(|plan| needed(&plan))
            .map_err(|problems| said(&problems))
    };
    assert_eq!(with(Force::All).as_deref(), Ok("b a"));
    assert_eq!(with(Force::Named(vec!["a".to_owned()])).as_deref(), Ok("a"));
    assert_eq!(with(Force::Named(vec!["b".to_owned()])).as_deref(), Ok("b a"));
    assert_eq!(
        with(Force::Named(vec!["bb".to_owned()])),
        Err("no rule, and no file that a rule makes for a target, is called `bb`\n  hint: did you mean `b`?"
            .to_owned())
    );
}

#[test]
fn only_what_is_named_is_made() {
    let disk = Disk::new("chloride/mol.xyz sodium/mol.xyz");
    let with = |only: &[&str], targets: &[&str]| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let wanted = Wanted { only: words(only), targets: words(targets), ..Wanted::default() };
        let plan = plan_of(CHEMISTRY_RULES, CHEMISTRY_TARGETS, &disk, &wanted, None);
        plan.map(|plan| {
            plan.needed().map(|run| format!("{}/{}", run.dir_shown, run.name)).collect::<Vec<_>>().join(" ")
        })
        .map_err(|problems| said(&problems))
    };
    assert_eq!(with(&["sodium/bind_1.json"], &[]).as_deref(), Ok("sodium/conformer.1 sodium/ebind.1"));
    assert_eq!(with(&["conf_9.xyz"], &["chloride"]).as_deref(), Ok("chloride/conformer.9"));
    assert_eq!(with(&["nm1.json"], &[]).expect("a plan").split(' ').count(), 20);
    assert_eq!(
        with(&["nm2.json"], &[]),
        Err("no target requires `nm2.json`, and no rule makes it for one".to_owned())
    );
    assert_eq!(
        with(&["sodium/nm2.json"], &[]),
        Err("no target requires `sodium/nm2.json`, and no rule makes it for one\n  hint: did you mean \
            `sodium/nm1.json`?"
            .to_owned())
    );
    assert_eq!(
        with(&[], &["clorid"]),
        Err("there is no target `clorid` in targets.yaml\n  hint: did you mean `chloride`?".to_owned())
    );
}

#[test]
fn missing_inputs_stop_what_needs_them_and_nothing_else() {
    let rules =
        "a: {inp: [b], out: [a], script: x}\nc: {inp: [a], out: [c], script: x}\nd: {out: [d], script: x}\n";
    let targets = "t: {out: [c, d]}\n";
    let found = plan(rules, targets, &Disk::new(""), Rerun::Exists).expect("a plan");
    assert_eq!((needed(&found).as_str(), found.missing.len()), ("d", 1));
    assert!(matches!(
        found.runs.iter().find(|run| run.name == "c").map(|run| &run.state),
        Some(RunState::Cannot(_))
    ));
    let wanted = Wanted { wait_inputs: true, ..Wanted::default() };
    let found = plan_of(rules, targets, &Disk::new(""), &wanted, None).expect("a plan");
    assert_eq!((needed(&found).as_str(), found.missing.len()), ("d a c", 0));
    assert_eq!(found.runs[1].awaited.len(), 1);
}

#[test]
fn a_missing_file_with_a_nearby_name_is_hinted_at() {
    runs(
        "an: {inp: ['traj_{n}.xtc'], out: ['an_{n}.npy'], script: x}\nmd: {out: ['trj_{n}.xtc'], script: y}\n",
        "t: {out: ['an_1.npy']}\n",
        "",
        Rerun::Exists,
        "rules.yaml:1:13: `traj_1.xtc` is missing, and no rule makes it\n  target t (targets.yaml:1) requires \
         an_1.npy\n  rule an (rules.yaml:1) makes an_1.npy from traj_1.xtc\n  hint: rules make `trj_{n}.xtc` (rule \
         md, rules.yaml:2)",
    );
}

#[test]
fn two_makers_of_one_file_are_an_error() {
    refused(
        "p: {out: ['x_{n}'], script: x}\nq: {out: ['{m}_1'], script: y}\n",
        "t: {out: ['x_1']}\n",
        "rules.yaml:2:1: `x_1` is made by the rule q and by the rule p (rules.yaml:1)\n  target t (targets.yaml:1) \
         requires x_1\n  hint: rename an output; a name without variables takes precedence over one with variables",
    );
    runs(
        "p: {out: ['x_{n}'], script: x}\nq: {out: ['x_1'], script: y}\n",
        "t: {out: ['x_1']}\n",
        "",
        Rerun::Exists,
        "q",
    );
    refused(
        "p: {out: ['{a}_{b}'], script: x}\n",
        "t: {out: ['x_y_z']}\n",
        "rules.yaml:1:12: `x_y_z` is an output of the rule p in two ways: with a = x, b = y_z, and with a = x_y, b = z\n  \
         target t (targets.yaml:1) requires x_y_z\n  hint: put text between the variables that their values do not \
         have, or a format such as `{n:03d}`",
    );
    refused(
        "p: {out: ['x_{n}', same], script: x}\n",
        "t: {out: ['x_1', 'x_2']}\n",
        "rules.yaml:1:20: this output of the rule p has no variables, the first has the variables n: one could not \
         be determined from the other\n  hint: use the same variables in all outputs, or split it into two rules",
    );
}

#[test]
fn rules_that_need_each_other_are_an_error() {
    refused(
        "r1: {inp: [b], out: [a], script: x}\nr2: {inp: [a], out: [b], script: y}\n",
        "t: {out: [a]}\n",
        "rules.yaml:1:1: files are needed to make themselves: a <- r1 <- b <- r2 <- a\n  \
         hint: one of these rules must not need that file, or must make it under another name",
    );
    refused(
        "r: {inp: [a], out: [a], script: x}\n",
        "t: {out: [a]}\n",
        "rules.yaml:1:1: files are needed to make themselves: a <- r <- a\n  \
         hint: one of these rules must not need that file, or must make it under another name",
    );
    let plan = plan(
        "r: {inp: ['{n}x'], out: ['{n}'], script: x}\n",
        "t: {out: [a]}\n",
        &Disk::new(""),
        Rerun::Exists,
    );
    let problems = plan.expect_err("endless");
    assert!(
        problems[0]
            .message
            .ends_with("cannot be the name of a file: a part of it has 256 bytes, more than 255"),
        "{}",
        problems[0]
    );
    let text = problems[0].to_string();
    assert!(text.lines().all(|line| line.chars().count() < 300), "{text}");
}

#[test]
fn fields_that_nobody_knows_name_their_place_and_the_names_there() {
    refused(
        "a:\n  out: ['a_{n}']\n  script: |\n    first\n    echo {m} {out[b]}\n",
        "t: {out: ['a_1'], frames: 3}\n",
        "rules.yaml:5:10: `{m}` is not known here\n  target t (targets.yaml:1) requires a_1\n  \
         hint: the names here are n, out, inp, frames, dirname, mpirun; double literal braces: `{{` and `}}`",
    );
    refused(
        "a:\n  inp: {x: b}\n  out: ['a_{n}']\n  script: cat {inp[y]}\n",
        "t: {out: ['a_1']}\n",
        "rules.yaml:4:15: `{inp[y]}`: there is no key `y`; the keys are x\n  target t (targets.yaml:1) requires a_1",
    );
    refused(
        "a: {out: [a], script: x}\n",
        "t: {out: ['a_{k}'], frames: 3}\n",
        "targets.yaml:1:14: `{k}` is not known here\n  hint: the names here are frames, dirname; double literal \
         braces: `{{` and `}}`",
    );
}

#[test]
fn loops_that_cannot_be_are_refused() {
    let targets = |expression: &str| format!("t:\n  loop:\n    n: {expression}\n    out: ['a_{{n}}']\n");
    let rule = "a: {out: ['a_{n}'], script: x}\n";
    refused(
        rule,
        &targets("5"),
        "targets.yaml:3:8: the loop over `n`: cannot loop over 5\n  hint: write `\"range(5)\"`, or a list",
    );
    refused(
        rule,
        &targets("'3 + 4'"),
        "targets.yaml:3:9: the loop over `n`: `3 + 4`: cannot loop over a value of type int",
    );
    refused(
        rule,
        &targets("'range(10**7)'"),
        "targets.yaml:3:9: the loop over `n`: `range(10**7)`: it has 10000000 values, more than 1000000",
    );
    refused(
        rule,
        &targets("'special(1)'"),
        "targets.yaml:3:9: the loop over `n`: `special(1)`: `special` with 1 arguments is not known to hq, and there is no Python here",
    );
    refused(
        rule,
        "t:\n  loop:\n    n: range(2000)\n    m: range(2000)\n    out: ['a_{n}']\n",
        "targets.yaml:4:8: the loops have more than 1000000 iterations in total",
    );
}

#[test]
fn python_is_asked_once_for_all_it_must_evaluate() {
    let rules = "a: {loop: {m: 'special(\"{n}\")', inp: ['b_{m}']}, out: ['a_{n}'], script: 'x {inp[0]}'}\n";
    let targets = "t: {out: [a_1, a_2, a_3]}\n";
    let disk = Disk::new("b_\"1\"1 b_\"1\"2 b_\"2\"1 b_\"2\"2 b_\"3\"1 b_\"3\"2");
    let python = Parrot::default();
    let found = plan_of(rules, targets, &disk, &Wanted::default(), Some(&python)).expect("a plan");
    assert_eq!((needed(&found).as_str(), python.0.get()), ("a.1 a.2 a.3", 1));
    let rules = "a: {loop: {m: 'other()', inp: ['b_{m}']}, out: ['a_{n}'], script: x}\n";
    let problems =
        plan_of(rules, targets, &disk, &Wanted::default(), Some(&python)).expect_err("a name that is none");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "the loop over `m`: `other()`: NameError: other()");
}

#[test]
fn what_was_declared_earlier_wins_and_loops_have_names_of_their_own() {
    let rules = "a:\n  frames: 10\n  size: '{frames}0'\n  loop: {n: 'range(2)', inp: ['b_{n}']}\n  out: ['a_{n}']\n  script: '{frames} {size} {n} {inp}'\n";
    let disk = Disk::new("b_0 b_1");
    let plan_with =
        |targets: &str| script(&plan(rules, targets, &disk, Rerun::Exists).expect("a plan"), "a.7");
    assert!(plan_with("t: {out: ['a_7']}\n").ends_with("10 100 7 b_0 b_1\n"));
    assert!(plan_with("t: {frames: 5, out: ['a_7']}\n").ends_with("5 50 7 b_0 b_1\n"));
}

#[test]
fn attributes_in_outputs_are_filled_in_before_variables() {
    let rules = "a: {out: ['{kind}_{n}.dat'], script: 'x {kind} {n}'}\n";
    let found = plan(rules, "t: {kind: big_1, out: ['big_1_7.dat']}\n", &Disk::new(""), Rerun::Exists)
        .expect("a plan");
    assert_eq!(needed(&found), "a.7");
    let own = "a: {kind: big_1, out: ['{kind}_{n}.dat'], script: 'x {kind} {n}'}\n";
    let found = plan(own, "t: {out: ['big_1_7.dat']}\n", &Disk::new(""), Rerun::Exists).expect("a plan");
    assert!(script(&found, "a.7").ends_with("x big_1 7\n"));
}

#[test]
fn targets_share_runs_that_are_the_same_and_no_others() {
    let rules = "a: {out: [a], script: 'x {v}'}\n";
    let found = plan(rules, "t: {v: 1, out: [a]}\nu: {v: 1, out: [a]}\n", &Disk::new(""), Rerun::Exists)
        .expect("a plan");
    assert_eq!((needed(&found).as_str(), found.runs[0].targets.join(" ")), ("a", "t u".to_owned()));
    refused(
        rules,
        "t: {v: 1, out: [a]}\nu: {v: 2, out: [a]}\n",
        "rules.yaml:1:1: target t (targets.yaml:1) and target u (targets.yaml:2) both require the run `a` in the \
         same directory, with different scripts\n  hint: use separate directories for the targets, or the same \
         attributes",
    );
    runs("a: {out: [a], script: x}\n", "t: {v: 1, out: [a]}\nu: {v: 2, out: [a]}\n", "", Rerun::Exists, "a");
}

#[test]
fn names_with_any_characters_reach_the_script_quoted() {
    for name in ["a b", "it's", "$HOME", "größe", "a\nb", "日本", "*", "-f", "a\"b", "{x"] {
        let yaml = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('{', "{{");
        let rules =
            format!("a: {{inp: [\"{yaml}.in\"], out: [\"{yaml}.out\"], script: 'x {{inp[0]}} {{out}}'}}\n");
        let targets = format!("t: {{dirname: \"{}\", out: [\"{yaml}.out\"]}}\n", yaml.replace("{{", "{"));
        let disk = {
            let mut disk = Disk::default();
            disk.write(&format!("{name}/{name}.in"), 1, "");
            disk
        };
        let found =
            plan(&rules, &targets, &disk, Rerun::Exists).map_err(|problems| said(&problems)).expect(name);
        let text = script(&found, "a");
        let quoted = |name: &str| crate::paths::quote_text(name).into_owned();
        let tail = format!("x {} {}\n", quoted(&format!("{name}.in")), quoted(&format!("{name}.out")));
        assert!(
            text.contains(&format!("cd {}\n", quoted(&format!("/w/{name}")))) && text.ends_with(&tail),
            "{text}"
        );
    }
}

#[test]
fn outputs_that_are_called_as_scripts_or_logs_are_refused() {
    refused(
        "a: {out: [a.log], script: x}\n",
        "t: {out: [a.log]}\n",
        "rules.yaml:1:1: `a.log` is the log of the run `a`\n  target t (targets.yaml:1) requires a.log\n  hint: \
         rename the file or the rule",
    );
}

#[test]
fn scripts_of_one_directory_have_names_of_their_own() {
    let disk = Disk::new("");
    let wanted = Wanted { workdir: Some(b"/w/scripts".to_vec()), ..Wanted::default() };
    let rules = "a: {out: ['{n}.a'], script: x}\n";
    let targets = "t: {dirname: one, out: [1.a]}\nu: {dirname: two, out: [1.a, 2.a]}\n";
    let found = plan_of(rules, targets, &disk, &wanted, None).expect("a plan");
    let names: Vec<&str> = found.runs.iter().map(|run| run.name.as_str()).collect();
    assert!(
        names[0] != names[1]
            && names[0].starts_with("a.1.")
            && names[1].starts_with("a.1.")
            && names[2] == "a.2",
        "{names:?}"
    );
    assert_eq!(String::from_utf8_lossy(&found.runs[2].script_path), "/w/scripts/a.2.sh");
    let two = "a: {out: ['{n}-{m}.a'], script: x}\n";
    let found = plan(two, "t: {out: [1.2-3.a, 1-2.3.a]}\n", &disk, Rerun::Exists).expect("a plan");
    assert_ne!(found.runs[0].name, found.runs[1].name);
}

#[test]
fn paths_are_compared_in_normal_form() {
    runs(
        "a: {inp: [./x/../b], out: ['./a'], script: x}\n",
        "t: {dirname: d/., out: [../d/a]}\n",
        "d/b",
        Rerun::Exists,
        "a",
    );
}

#[test]
fn files_from_the_future_are_warned_of_once() {
    let disk = Disk::new("a=1 b=2000000000000 c=4600000000000");
    let found = plan(A_FROM_B, WANT_A, &disk, Rerun::Mtime).expect("a plan");
    assert_eq!(
        said(&found.warnings),
        "c is from the future, by 1h: clocks differ, so it is unknown which files are newer"
    );
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let found = plan("a: {inp: [forbidden], out: [a], script: x}\n", WANT_A, &Disk::new(""), Rerun::Exists)
        .expect_err("no access");
    assert_eq!(
        said(&found),
        "`forbidden` cannot be examined: permission denied\n  target t (targets.yaml:1) requires a\n  rule a \
         (rules.yaml:1) makes a from forbidden"
    );
}

#[test]
fn rules_that_nobody_asks_for_are_checked_on_demand() {
    let rules = "a: {out: [a], script: x}\nz: {out: ['z_{n}'], v: 1, script: '{n} {v} {frames} {nn}'}\n";
    let wanted = Wanted { check: true, ..Wanted::default() };
    let found = plan_of(rules, "t: {frames: 1, out: [a]}\n", &Disk::new(""), &wanted, None).expect("a plan");
    assert_eq!(
        said(&found.warnings),
        "rules.yaml:2:53: `{nn}` of the rule z is neither a variable of its outputs nor an attribute\n  hint: did you mean `n`?"
    );
}

// Runs with their states, looking behind files that are there.
fn listed(rules: &str, targets: &str, files: &str) -> String {
    let wanted = Wanted { look_behind: true, ..Wanted::default() };
    let found = plan_of(rules, targets, &Disk::new(files), &wanted, None).expect("a plan");
    let state = |run: &crate::Run| match &run.state {
        RunState::There => "there",
        RunState::Needed(_) => "needed",
        RunState::Unasked => "unasked",
        RunState::Cannot(_) => "cannot",
        RunState::Perhaps(_) => "perhaps",
    };
    let mut all: Vec<String> = found.runs.iter().map(|run| format!("{} {}", run.name, state(run))).collect();
    all.extend(found.missing.iter().map(|problem| problem.message.clone()));
    all.join(", ")
}

#[test]
fn what_is_behind_files_that_are_there_is_shown_on_demand_and_not_needed() {
    for (files, expected) in [
        ("a b c", "b there, a there"),
        ("a c", "b unasked, a there"),
        ("a", "b unasked, a there"),
        ("b", "b there, a needed"),
        ("c", "b needed, a needed"),
        ("", "b cannot, a cannot, `c` is missing, and no rule makes it"),
    ] {
        assert_eq!(listed(A_FROM_B, WANT_A, files), expected, "{files}");
    }
    // A rule with a mode of its own asks for what it takes, also when it is there.
    let mixed = A_FROM_B.replace("out: [a]", "out: [a], rerun: mtime");
    assert_eq!(listed(&mixed, WANT_A, "a c"), "b needed, a needed");
}

#[test]
fn a_chain_of_many_runs_needs_no_stack() {
    let rules = "n: {inp: ['{prev}'], out: ['{x}.o'], script: x}\n"
        .replace("['{prev}']", "")
        .replace("inp: , ", "loop: {p: '[{x} - 1] if {x} else []', inp: ['{p}.o']}, ");
    let found = plan(&rules, "t: {out: [99999.o]}\n", &Disk::new(""), Rerun::Exists).expect("a plan");
    assert_eq!(found.needed().count(), 100_000);
    assert_eq!(found.runs[99_999].after, [crate::RunId(99_998)]);
}
