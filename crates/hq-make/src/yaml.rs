//! YAML as trees in which every value keeps its line and column.
//!
//! The events come from a parser; what is made of them is ours: merges (`<<`), anchors, a budget for aliases, and keys
//! given twice, which are an error that names both places.

mod scalar;

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Tag};

use crate::limits::{FILE_BYTES_MAX, NESTING_MAX, VALUES_MAX};
use crate::problem::{Place, Problem};
use crate::value::Value;

const BRACE: &str = "a value that begins with a brace needs quotes: \"{n}.json\"";

/// A value and where it stands. Anchored values are shared by their aliases.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub line: u32,
    pub column: u32,
    /// Where the characters of its text are.
    pub origin: Origin,
    pub what: What,
}

/// Where the characters of a scalar stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// On one line, from this column on.
    Line(u32),
    /// On the lines from this one on, each after so many blanks.
    Block(u32, u32),
    /// Folded or escaped: nobody knows, so it is where the value begins.
    Start,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A number, a text, a boolean or nothing: its value, and the text as written.
    Scalar(Value, Arc<str>),
    /// A list.
    List(Arc<Vec<Node>>),
    /// A mapping; merged entries come first, as in PyYAML.
    Map(Arc<Vec<Entry>>),
}

/// One entry of a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: Arc<str>,
    pub line: u32,
    pub column: u32,
    pub value: Node,
}

impl Node {
    /// Where it stands.
    pub(crate) fn place(&self, file: &Arc<str>) -> Place {
        Place { file: file.clone(), line: self.line, column: self.column }
    }

    /// Where a byte of its text stands.
    pub(crate) fn place_within(&self, file: &Arc<str>, text: &str, at: usize) -> Place {
        let before = text.get(..at).unwrap_or(text);
        let lines = before.matches('\n').count() as u32;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) as u32;
        let (line, column) = match self.origin {
            Origin::Line(first) if lines == 0 => (self.line, first + column),
            Origin::Block(first, indent) => (first + lines, indent + column + 1),
            Origin::Line(_) | Origin::Start => (self.line, self.column),
        };
        Place { file: file.clone(), line, column }
    }

    /// What people call its kind.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.what {
            What::Scalar(Value::None, _) => "nothing",
            What::Scalar(Value::Bool(_), _) => "a boolean",
            What::Scalar(Value::Int(_) | Value::Float(_), _) => "a number",
            What::Scalar(..) => "a text",
            What::List(_) => "a list",
            What::Map(_) => "a mapping",
        }
    }

    /// Whether it is null or missing.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.what, What::Scalar(Value::None, _))
    }
}

impl Entry {
    /// Where its key stands.
    pub(crate) fn place(&self, file: &Arc<str>) -> Place {
        Place { file: file.clone(), line: self.line, column: self.column }
    }
}

/// Reads the one document of a file; nothing if it is empty.
///
/// # Errors
/// Says what is wrong, and where.
pub(crate) fn read(file: &Arc<str>, text: &[u8]) -> Result<Option<Node>, Problem> {
    let text = decode(file, text)?;
    // As PyYAML reads them.
    let mut options = Options::default();
    options.block_scalar_eof_without_line_feed = true;
    options.bom_inside_document_as_content = true;
    let mut parser = Parser::new_from_str_with_options(&text, options);
    let mut tree =
        Tree { file, text: &text, open: Vec::new(), anchors: HashMap::new(), root: None, weight: 0 };
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            let place = at(file, error.marker());
            let line = text.lines().nth(place.line as usize - 1).unwrap_or("");
            let is_brace = line.split(": ").skip(1).any(|value| value.trim_start().starts_with('{'));
            let hint = is_brace.then(|| BRACE.to_owned());
            Problem::bad(place, format!("this is not YAML: {}", error.info())).maybe_hint(hint)
        })?;
        if let Event::DocumentStart(..) = event {
            documents += 1;
            if documents > 1 {
                return Err(Problem::bad(at(file, &span.start), "a second document begins here").hint(
                    "a file of rules or targets must be one document: join them, and remove the `---`",
                ));
            }
        }
        tree.take(event, &span.start)?;
    }
    Ok(tree.root)
}

fn decode(file: &Arc<str>, bytes: &[u8]) -> Result<String, Problem> {
    let start = |line| Place { file: file.clone(), line, column: 1 };
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes, more than {FILE_BYTES_MAX}", bytes.len());
        return Err(Problem::bad(start(1), message));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let good = &bytes[..error.valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
            let column = String::from_utf8_lossy(good).lines().last().map_or(0, |last| last.chars().count());
            let column = if good.ends_with(b"\n") { 1 } else { column as u32 + 1 };
            Err(Problem::bad(Place { file: file.clone(), line, column }, "the file is not UTF-8")
                .hint("convert it, for example with `iconv -f latin1 -t utf-8`"))
        }
    }
}

fn at(file: &Arc<str>, mark: &Marker) -> Place {
    let (line, column) = numbers(mark);
    Place { file: file.clone(), line, column }
}

fn numbers(mark: &Marker) -> (u32, u32) {
    (u32::try_from(mark.line()).unwrap_or(u32::MAX).max(1), u32::try_from(mark.col()).unwrap_or(0) + 1)
}

/// A list or mapping that has begun.
struct Open {
    line: u32,
    column: u32,
    anchor: usize,
    weight_before: u64,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, merged: Vec<Node>, key: Option<Entry>, has_key: bool },
}

struct Tree<'a> {
    file: &'a Arc<str>,
    text: &'a str,
    open: Vec<Open>,
    /// Complete anchored nodes, and how many values each is.
    anchors: HashMap<usize, (Node, u64)>,
    root: Option<Node>,
    /// Values so far, with aliases followed.
    weight: u64,
}

impl Tree<'_> {
    fn take(&mut self, event: Event<'_>, mark: &Marker) -> Result<(), Problem> {
        let (line, column) = numbers(mark);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let value = scalar::value(&text, is_plain, tag.as_deref())
                    .map_err(|message| Problem::bad(at(self.file, mark), message))?;
                let before = self.weight;
                self.weigh(1, mark)?;
                let is_merge = is_plain && &*text == "<<" && tag.is_none();
                let origin = self.origin(style, &text, mark);
                let what = What::Scalar(value, text.as_ref().into());
                self.add(Node { line, column, origin, what }, anchor, before, is_merge)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", mark)?;
                self.begin(line, column, anchor, Items::List(Vec::new()), mark)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", mark)?;
                let items = Items::Map { entries: Vec::new(), merged: Vec::new(), key: None, has_key: false };
                self.begin(line, column, anchor, items, mark)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let what = match open.items {
                    Items::List(items) => What::List(Arc::new(items)),
                    Items::Map { entries, merged, .. } => What::Map(Arc::new(self.merge(entries, &merged)?)),
                };
                let node = Node { line: open.line, column: open.column, origin: Origin::Start, what };
                self.add(node, open.anchor, open.weight_before, false)
            }
            Event::Alias(anchor) => {
                let Some((node, weight)) = self.anchors.get(&anchor).cloned() else {
                    let message = "an alias is contained in its own value";
                    return Err(Problem::bad(at(self.file, mark), message));
                };
                let before = self.weight;
                self.weigh(weight, mark)?;
                self.add(node, 0, before, false)
            }
            _ => Ok(()),
        }
    }

    fn origin(&self, style: ScalarStyle, value: &str, mark: &Marker) -> Origin {
        let (line, column) = numbers(mark);
        let rest = mark.byte_offset().and_then(|at| self.text.get(at..)).unwrap_or("");
        match style {
            // Its place is that of its first character, after the indentation.
            ScalarStyle::Literal => Origin::Block(line, column - 1),
            ScalarStyle::Plain if rest.starts_with(value) => Origin::Line(column),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted
                if rest.get(1..).is_some_and(|rest| rest.starts_with(value)) =>
            {
                Origin::Line(column + 1)
            }
            _ => Origin::Start,
        }
    }

    fn weigh(&mut self, values: u64, mark: &Marker) -> Result<(), Problem> {
        self.weight = self.weight.saturating_add(values);
        if self.weight > VALUES_MAX {
            let message = format!("with aliases expanded, the file contains more than {VALUES_MAX} values");
            return Err(Problem::bad(at(self.file, mark), message));
        }
        Ok(())
    }

    fn check_tag(&self, tag: Option<&Tag>, fits: &str, mark: &Marker) -> Result<(), Problem> {
        match tag {
            Some(tag) if tag.core_suffix() != Some(fits) => {
                let message = format!("the tag `{}` is not known here", tag.original());
                Err(Problem::bad(at(self.file, mark), message).hint("remove it"))
            }
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        line: u32,
        column: u32,
        anchor: usize,
        items: Items,
        mark: &Marker,
    ) -> Result<(), Problem> {
        if self.open.len() >= NESTING_MAX {
            let message = format!("nested deeper than {NESTING_MAX} levels");
            return Err(Problem::bad(at(self.file, mark), message));
        }
        if let Some(Open { items: Items::Map { has_key: false, .. }, .. }) = self.open.last() {
            let message = "a key is a plain word or text, not a list or mapping";
            return Err(Problem::bad(at(self.file, mark), message).hint(BRACE));
        }
        let weight_before = self.weight;
        self.weigh(1, mark)?;
        self.open.push(Open { line, column, anchor, weight_before, items });
        Ok(())
    }

    // A complete node becomes a key, a value, an item or the root.
    fn add(&mut self, node: Node, anchor: usize, before: u64, is_merge: bool) -> Result<(), Problem> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), self.weight - before));
        }
        let file = self.file;
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map { entries, merged, key, has_key }) => {
                if !*has_key {
                    let What::Scalar(_, text) = &node.what else {
                        let place = node.place(file);
                        return Err(Problem::bad(place, "a key is a plain word or text"));
                    };
                    *has_key = true;
                    *key = (!is_merge).then(|| Entry {
                        key: text.clone(),
                        line: node.line,
                        column: node.column,
                        value: node.clone(),
                    });
                } else {
                    *has_key = false;
                    match key.take() {
                        Some(entry) => entries.push(Entry { value: node, ..entry }),
                        None => merged.push(node),
                    }
                }
            }
        }
        Ok(())
    }

    // Entries of merged mappings come first; own entries take the place of merged ones of the same key.
    fn merge(&self, own: Vec<Entry>, merged: &[Node]) -> Result<Vec<Entry>, Problem> {
        let mut seen: HashMap<Arc<str>, (u32, u32)> = HashMap::new();
        for entry in &own {
            if let Some((line, column)) = seen.insert(entry.key.clone(), (entry.line, entry.column)) {
                let first = Place { file: self.file.clone(), line, column };
                let message = format!("`{}` is repeated here; it is also at {first}", entry.key);
                return Err(
                    Problem::bad(entry.place(self.file), message).hint("remove or rename one of them")
                );
            }
        }
        if merged.is_empty() {
            return Ok(own);
        }
        let mut result: Vec<Entry> = Vec::new();
        let mut index: HashMap<Arc<str>, usize> = HashMap::new();
        // The first of several merged mappings wins, so it is put in last.
        for node in merged {
            let maps: Vec<&Node> = match &node.what {
                What::Map(_) => vec![node],
                What::List(nodes) => nodes.iter().rev().collect(),
                What::Scalar(..) => Vec::new(),
            };
            if let Some(wrong) = std::iter::once(node)
                .filter(|_| maps.is_empty())
                .chain(maps.iter().copied())
                .find(|node| !matches!(node.what, What::Map(_)))
            {
                let message = format!("`<<` takes a mapping or a list of mappings, not {}", wrong.kind());
                return Err(Problem::bad(wrong.place(self.file), message).hint("write `<<: *name`"));
            }
            for map in maps {
                let What::Map(entries) = &map.what else { continue };
                for entry in entries.iter() {
                    put(&mut result, &mut index, entry.clone());
                }
            }
        }
        for entry in own {
            put(&mut result, &mut index, entry);
        }
        Ok(result)
    }
}

fn put(entries: &mut Vec<Entry>, index: &mut HashMap<Arc<str>, usize>, entry: Entry) {
    match index.get(&entry.key) {
        Some(at) => entries[*at] = entry,
        None => {
            index.insert(entry.key.clone(), entries.len());
            entries.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(node: &Node) -> String {
        match &node.what {
            What::Scalar(value, _) => format!("{}@{}:{}", value.repr(), node.line, node.column),
            What::List(nodes) => format!("[{}]", nodes.iter().map(show).collect::<Vec<_>>().join(", ")),
            What::Map(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|e| format!("{}: {}", e.key, show(&e.value))).collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }

    #[track_caller]
    fn check(text: &str, shown: &str) {
        let result = match read(&"f".into(), text.as_bytes()) {
            Ok(Some(node)) => show(&node),
            Ok(None) => "nothing".to_owned(),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(result, shown, "{text}");
    }

    #[test]
    fn values_keep_their_places() {
        check("a: 1\nb: [x, yes]\n", "{a: 1@1:4, b: ['x'@2:5, True@2:8]}");
        check("", "nothing");
        check("# only a remark\n", "nothing");
        check("a:\n  - |\n    two\n    lines\n", "{a: ['two\\nlines\\n'@3:5]}");
        check("\u{feff}a: ~\n", "{a: None@1:4}");
    }

    #[test]
    fn merges_come_first_and_own_keys_win() {
        check(
            "x: &x {a: 1, b: 2}\ny: {c: 3, <<: *x, b: 4}\n",
            "{x: {a: 1@1:11, b: 2@1:17}, y: {a: 1@1:11, b: 4@2:22, c: 3@2:8}}",
        );
        check(
            "- &x {a: 1}\n- &y {a: 2, b: 3}\n- {<<: [*x, *y]}\n",
            "[{a: 1@1:10}, {a: 2@2:10, b: 3@2:16}, {a: 1@1:10, b: 3@2:16}]",
        );
        check(
            "a: {<<: 3}\n",
            "f:1:9: `<<` takes a mapping or a list of mappings, not a number\n  hint: write `<<: *name`",
        );
    }

    #[test]
    fn what_cannot_be_names_its_place() {
        check(
            "a:\n  x: 1\n  y: 2\n  x: 3\n",
            "f:4:3: `x` is repeated here; it is also at f:2:3\n  hint: remove or rename one of them",
        );
        check("a: &a [*a]\n", "f:1:8: an alias is contained in its own value");
        check(
            "a: 1\n---\nb: 2\n",
            "f:2:1: a second document begins here\n  hint: a file of rules or targets must be one document: join \
             them, and remove the `---`",
        );
        check(
            "a: {n}.json\n",
            "f:1:7: this is not YAML: while parsing a block mapping, did not find expected key\n  hint: a value that begins with a brace needs quotes: \"{n}.json\"",
        );
        check(
            "a: !!python/tuple [1]\n",
            "f:1:19: the tag `!!python/tuple` is not known here\n  hint: remove it",
        );
        check(
            "{a: 1}: b\n",
            "f:1:1: a key is a plain word or text, not a list or mapping\n  hint: a value that begins with a brace needs quotes: \"{n}.json\"",
        );
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        check(&deep, "f:1:65: nested deeper than 64 levels");
        let result = read(&"f".into(), b"a: b\nc: \xff\n");
        assert_eq!(
            result.map(|_| ()).map_err(|p| p.to_string()),
            Err("f:2:4: the file is not UTF-8\n  hint: \
            convert it, for example with `iconv -f latin1 -t utf-8`"
                .to_owned())
        );
    }

    #[test]
    fn aliases_are_counted() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            text += &format!("a{level}: &a{level} [{before}]\n");
        }
        let result = read(&"f".into(), text.as_bytes()).map(|_| ()).map_err(|p| p.message);
        assert_eq!(
            result,
            Err("with aliases expanded, the file contains more than 1000000 values".to_owned())
        );
    }
}
