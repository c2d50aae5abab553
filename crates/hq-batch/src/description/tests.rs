//! Descriptions that are whole, and those that are not.

use std::os::unix::fs::PermissionsExt;

use super::*;

const WHOLE: &str = r##"
[header]
directive = "#X"
lines = ["--nodes ${nodes}"]
[submit]
command = ["xsub", "${script}"]
id = "Job <${id}> is submitted"
[status]
command = ["xstat", "${ids}"]
states = { R = "running", E = "failed" }
[cancel]
command = ["xdel", "${ids}"]
"##;

fn complaint(text: &str) -> String {
    Description::parse("x", "x.toml", text).expect_err("it is not whole").to_string()
}

#[test]
fn a_whole_description_is_taken() {
    let description = Description::parse("x", "x.toml", WHOLE).expect("it is whole");
    assert!(!description.is_verified);
    assert_eq!((&*description.id_before, &*description.id_after), ("Job <", "> is submitted"));
    assert_eq!(description.status.states["E"], BatchState::Failed("E".into()));
}

#[test]
fn all_that_is_missing_is_named() {
    insta::assert_snapshot!(complaint("[submit]\ncommand = []\n"), @"the description of the batch system `x.toml` lacks `header.directive`, `header.lines`, `submit.command`, `submit.id`, `status.command`, `status.states`, `cancel.command`");
}

#[test]
fn what_has_no_meaning_is_named() {
    insta::assert_snapshot!(complaint(&WHOLE.replace("${id}>", ">")), @"the description of the batch system \
        `x.toml`: `submit.id` is `Job <> is submitted` but does not contain `${id}`");
    insta::assert_snapshot!(complaint(&WHOLE.replace("${nodes}", "${node}")), @"the description of the batch system `x.toml`: `--nodes ${node}`: `${node}` is not one of ${script}, ${ids}, ${name}, ${nodes}, ${time}, ${stdout}, ${stderr}, ${after}");
    insta::assert_snapshot!(complaint(&WHOLE.replace("\"running\"", "\"going\"")), @"the description of the batch system `x.toml`: `status.states.R` is `going`, not one of queued, held, running, suspended, finished, cancelled, timed-out, preempted, node-failed, out-of-memory, failed");
    insta::assert_snapshot!(complaint(&WHOLE.replace("\"xdel\", \"${ids}\"", "\"xdel\"")), @"the description of the \
        batch system `x.toml`: `cancel.command` does not contain `${ids}`");
    assert!(complaint(&WHOLE.replace("[cancel]", "[cancle]")).contains("cancle"));
    assert!(complaint("[header").contains("x.toml"));
}

#[test]
fn shipped_descriptions_are_whole_and_a_file_of_the_user_wins() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, _) in SHIPPED {
        let description = Description::find(name, dir.path()).expect("it is shipped");
        assert!(!description.is_verified, "{name}");
    }
    let managers = dir.path().join("managers");
    std::fs::create_dir(&managers).expect("made");
    std::fs::write(managers.join("flux.toml"), WHOLE).expect("written");
    let description = Description::find("flux", dir.path()).expect("it is whole");
    assert_eq!(description.submit[0], "xsub");
}

#[test]
fn unknown_names_and_unreadable_files_are_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["torque", "../x", ""] {
        let error = Description::find(name, dir.path()).expect_err("nobody knows it");
        assert!(matches!(&error, BatchError::UnknownManager { .. }), "{error}");
        assert!(error.to_string().contains("flux, lsf, oar"), "{error}");
    }
    std::fs::create_dir_all(dir.path().join("managers/dir.toml")).expect("made");
    let error = Description::find("dir", dir.path()).expect_err("a directory is not a file");
    assert!(matches!(error, BatchError::DescriptionUnreadable { .. }), "{error}");
    let lax = dir.path().join("managers/lax.toml");
    std::fs::write(&lax, WHOLE).expect("written");
    std::fs::set_permissions(&lax, PermissionsExt::from_mode(0o666)).expect("it is ours");
    let error = Description::find("lax", dir.path()).expect_err("anybody may have written it");
    assert!(error.to_string().contains("everyone can write to it: use chmod o-w"), "{error}");
}
