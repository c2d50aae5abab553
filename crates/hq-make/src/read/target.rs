//! Reads one target.

use std::sync::Arc;

use super::{check_keys, files, loops, members, near, warn_of_near};
use crate::makefile::{Member, Target};
use crate::problem::Problem;
use crate::value::Value;
use crate::yaml::{Entry, What};

const KEYS: [&str; 3] = ["dirname", "out", "loop"];
const RESERVED: [&str; 4] = ["mpirun", "inp", "setup", "script"];

struct NoNames;

impl crate::format::Scope for NoNames {
    fn get(&self, _: &str) -> Option<Value> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads a target.
///
/// # Errors
/// The first thing that is wrong with it.
pub(super) fn read(file: &Arc<str>, entry: &Entry, warnings: &mut Vec<Problem>) -> Result<Target, Problem> {
    let name = entry.key.clone();
    let members = members(file, entry, "target")?;
    let mut target = Target {
        name: name.clone(),
        place: entry.place(file),
        dirname: ".".into(),
        attributes: Vec::new(),
        outputs: Vec::new(),
        loops: None,
    };
    for member in members {
        match &*member.key {
            "dirname" => match &member.value.what {
                What::Scalar(Value::None, _) => (),
                What::Scalar(Value::Str(dirname), _) if !dirname.is_empty() && !dirname.contains('\0') => {
                    target.dirname = dirname.clone();
                }
                What::Scalar(_, written) if !written.is_empty() && !written.contains('\0') => {
                    target.dirname = written.clone();
                }
                _ => {
                    let message = "`dirname` is the name of a directory";
                    return Err(Problem::bad(member.value.place(file), message));
                }
            },
            "out" => target.outputs = files(file, &member.value, "`out`", 0)?,
            "loop" => target.loops = loops(file, &member.value, "out", 0)?,
            key if RESERVED.contains(&key) => {
                let message = format!("`{key}` has a special meaning in rules; rename the attribute");
                return Err(Problem::bad(member.place(file), message));
            }
            _ => {
                warn_of_near(file, member, &KEYS, &format!("the target `{name}`"), warnings);
                // Members of a target come first, so nothing could be put into them: they are as they stand.
                let value = Member::read(file, &member.value, true)?.expand(&NoNames)?;
                target.attributes.push((member.key.clone(), value));
            }
        }
    }
    if target.outputs.is_empty() && target.loops.as_ref().is_none_or(|loops| loops.files.is_empty()) {
        let near = members.iter().find(|member| near(&member.key, &["out"]).is_some());
        let hint = near.map_or("list the files that are wanted".to_owned(), |near| {
            format!("did you mean `out` instead of `{}` (line {})?", near.key, near.line)
        });
        return Err(Problem::bad(entry.place(file), format!("the target `{name}` has no `out`")).hint(hint));
    }
    // Numbers of a list go on below the loop.
    let count = target.outputs.len();
    if let Some(loops) = &mut target.loops {
        for (number, file) in loops.files.iter_mut().enumerate() {
            if *file.key == *number.to_string() {
                file.key = (count + number).to_string().into();
            }
        }
    }
    check_keys(&target.outputs, target.loops.as_ref(), "out")?;
    Ok(target)
}
