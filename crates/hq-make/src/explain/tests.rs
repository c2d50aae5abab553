//! Explanations, read as a user reads them.

use super::explain;
use crate::plan::{Force, Rerun, Wanted};
use crate::testing::{CHEMISTRY_RULES, CHEMISTRY_TARGETS, Disk, plan, plan_of};

fn chemistry(files: &str, rerun: Rerun) -> String {
    let plan = plan(CHEMISTRY_RULES, CHEMISTRY_TARGETS, &Disk::new(files), rerun).expect("a plan");
    explain(&plan, &[])
}

#[test]
fn what_will_be_made_is_a_tree_in_which_loops_are_folded() {
    insta::assert_snapshot!(chemistry(
        "chloride/mol.xyz sodium/mol.xyz chloride/conf_2.xyz chloride/bind_0.json chloride/bind_1.json sodium/min_nm1.npy",
        Rerun::Exists
    ));
}

#[test]
fn what_is_there_says_why_it_stays() {
    let files = "sodium/nm1.json=9 sodium/min_nm1.npy=8 sodium/bind_0.json=7 sodium/bind_1.json=7 sodium/bind_2.json=7 \
                 sodium/bind_3.json=7 sodium/conf_0.xyz=6 sodium/conf_1.xyz=6 sodium/conf_2.xyz=6 sodium/conf_3.xyz=6 sodium/mol.xyz";
    let both =
        format!("{files} {}", files.replace("sodium", "chloride").replace("bind_1.json=7", "bind_1.json=5"));
    insta::assert_snapshot!(chemistry(&both, Rerun::Mtime));
}

#[test]
fn what_cannot_be_made_says_so() {
    insta::assert_snapshot!(chemistry("sodium/mol.xzy chloride/nm1.json", Rerun::Exists));
}

#[test]
fn single_files_are_found_by_the_end_of_their_path() {
    let disk = Disk::new("chloride/mol.xyz sodium/mol.xyz");
    let plan = plan(CHEMISTRY_RULES, CHEMISTRY_TARGETS, &disk, Rerun::Exists).expect("a plan");
    let names = ["conf_1.xyz", "sodium/bind_2.json", "/w/chloride/mol.xyz", "sodium/nm2.json", "what"];
    let names: Vec<String> = names.map(str::to_owned).to_vec();
    insta::assert_snapshot!(explain(&plan, &names));
}

#[test]
fn all_reasons_have_words() {
    let rules = "a: {inp: [b], out: [a], script: x}\nb: {inp: [c], out: [b], script: y}\n";
    let targets = "t: {out: [a]}\n";
    let mut disk = Disk::new("a=3 b=2 c=1");
    let mut texts = Vec::new();
    let mut note = |what: &str, disk: &Disk, rules: &str, rerun: Rerun, force: Force| {
        let wanted = Wanted { rerun, force, ..Wanted::default() };
        let plan = plan_of(rules, targets, disk, &wanted, None).expect("a plan");
        texts.push(format!("{what}\n{}", explain(&plan, &[])));
        plan.adopted
    };
    note("forced", &disk, rules, Rerun::Exists, Force::All);
    note("named", &disk, rules, Rerun::Exists, Force::Named(vec!["b".to_owned()]));
    let lines = note("nothing", &disk, rules, Rerun::Hash, Force::None);
    disk.known.take(&lines);
    note("text", &disk, &rules.replace("script: y", "script: z"), Rerun::Mtime, Force::None);
    disk.write("c", 1, "other");
    note("content", &disk, rules, Rerun::Hash, Force::None);
    note(
        "inputs",
        &disk,
        &rules.replace("inp: [c]", "inp: [c, a2]").replace("b: ", "q: {out: [a2], script: q}\nb: "),
        Rerun::Hash,
        Force::None,
    );
    insta::assert_snapshot!(texts.join("\n"));
}
