//! Generates the Rust types of the wire and the journal from the `.proto` files of `hq-proto`, and the description of the HTTP
//! form of one of them.
//!
//! The generated file is committed, so that a build needs neither a compiler for `.proto` files nor
//! this program; a test fails when the two no longer agree.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protox::prost_reflect::prost_types::FileDescriptorSet;

use crate::openapi;

/// The inputs, below `crates/hq-proto/proto`.
const SOURCES: [&str; 11] = [
    "hello.proto",
    "model.proto",
    "output.proto",
    "allocation.proto",
    "feed.proto",
    "object.proto",
    "client.proto",
    "worker.proto",
    "node.proto",
    "journal.proto",
    "pull.proto",
];

/// What generating came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The committed files were what the sources give.
    Fresh,
    /// These files were written, or with `check` would have to be.
    Changed(Vec<PathBuf>),
}

/// Writes the generated files below `root`, the directory of the workspace. With `check` nothing is
/// written: the outcome only tells what is stale.
///
/// # Errors
/// When a source is missing or wrong (the message has file and line), or a file cannot be written.
pub(crate) fn run(root: &Path, check: bool) -> io::Result<Outcome> {
    let mut changed = Vec::new();
    for (path, text) in generate(root)? {
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if !check {
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(&path, text)?;
        }
        changed.push(path);
    }
    Ok(if changed.is_empty() { Outcome::Fresh } else { Outcome::Changed(changed) })
}

/// The generated files: path and content.
fn generate(root: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let crate_dir = root.join("crates/hq-proto");
    let proto_dir = crate_dir.join("proto");
    let sources = SOURCES.map(|name| proto_dir.join(name));
    let descriptors = protox::compile(&sources, [&proto_dir]).map_err(io::Error::other)?;
    let tables = [("hq.v1", "shapes.rs"), ("hq.pull.v1", "shapes_pull.rs")];
    let tables = tables.map(|(package, file)| (file, shapes(&descriptors, package)));
    let openapi = (root.join(openapi::FILE), openapi::of(&descriptors));
    let out_dir = tempfile::tempdir()?;
    prost_build::Config::new().out_dir(out_dir.path()).compile_fds(descriptors)?;
    let path = |file: &str| crate_dir.join("src/generated").join(file);
    let mut files: Vec<_> = tables.into_iter().map(|(file, text)| (path(file), text)).collect();
    files.push(openapi);
    for entry in fs::read_dir(out_dir.path())? {
        let entry = entry?;
        files.push((path(&entry.file_name().to_string_lossy()), fs::read_to_string(entry.path())?));
    }
    files.sort();
    Ok(files)
}

/// A table of what each message of a package holds that takes memory, so that a receiver can tell how much before
/// it decodes.
fn shapes(descriptors: &FileDescriptorSet, package: &str) -> String {
    const REPEATED: i32 = 3;
    const TEXT: i32 = 9;
    const MESSAGE: i32 = 11;
    const BYTES: i32 = 12;
    let files = descriptors.file.iter().filter(|file| file.package() == package);
    let messages: Vec<_> = files.flat_map(|file| &file.message_type).collect();
    let place = |type_name: &str| {
        let name = type_name.rsplit('.').next();
        messages.iter().position(|message| Some(message.name()) == name).unwrap_or_default()
    };
    let mut text = String::from("// This file is generated: `cargo xtask gen`.\n");
    text += "pub(crate) static SHAPES: &[Shape] = &[\n";
    for message in &messages {
        let mut fields = String::new();
        for field in &message.field {
            let is_repeated = field.label() as i32 == REPEATED;
            let content = match field.r#type() as i32 {
                MESSAGE => format!("Content::Message({})", place(field.type_name())),
                TEXT | BYTES => "Content::Bytes".to_owned(),
                _ if is_repeated => "Content::Numbers".to_owned(),
                _ => continue,
            };
            fields += &format!(
                "        Field {{ number: {}, is_repeated: {is_repeated}, content: {content} }},\n",
                field.number()
            );
        }
        let name = message.name();
        text += &format!(
            "    Shape {{ name: {name:?}, size: size_of::<{name}>(), fields: &[\n{fields}    ] }},\n"
        );
    }
    text + "];\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_what_the_sources_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        let outcome = run(root, true).expect("the sources are valid");
        assert_eq!(outcome, Outcome::Fresh, "run `cargo xtask gen` and commit the result");
    }
}
