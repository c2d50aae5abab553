//! Chores of the workspace.
mod r#gen;

fn main() -> std::io::Result<()> {
    let check = std::env::args().any(|arg| arg == "--check");
    r#gen::run(std::path::Path::new("."), check).map(drop)
}
