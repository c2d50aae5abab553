//! A result: what was measured, what it must reach, and whether it does.

use serde_json::json;

/// Why something could not be measured.
pub(crate) type BoxError = Box<dyn std::error::Error>;

/// One result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Which benchmark, and what of it.
    pub name: String,
    /// What was measured, for people.
    pub value: String,
    /// What it must reach, for people; empty when nothing is demanded.
    pub target: String,
    /// The number that is compared.
    pub ratio: f64,
    /// The largest ratio that meets the target; `None` when nothing is demanded.
    pub ratio_max: Option<f64>,
}

impl Row {
    /// A result that must not be over `ratio_max`.
    pub(crate) fn at_most(name: &str, value: String, target: &str, ratio: f64, ratio_max: f64) -> Row {
        Row { name: name.to_owned(), value, target: target.to_owned(), ratio, ratio_max: Some(ratio_max) }
    }

    /// A result that is only shown.
    pub(crate) fn shown(name: &str, value: String, ratio: f64) -> Row {
        Row { name: name.to_owned(), value, target: String::new(), ratio, ratio_max: None }
    }

    fn verdict(&self) -> &'static str {
        match self.ratio_max {
            None => "",
            Some(most) if self.ratio <= most => "met",
            Some(_) => "NOT MET",
        }
    }
}

/// Prints the head of the table.
pub(crate) fn print_head() {
    println!("{:<32} {:<40} {:<34} {:>7}  ", "what", "measured", "must reach", "ratio");
}

/// Prints a row of the table.
pub(crate) fn print(row: &Row) {
    println!("{:<32} {:<40} {:<34} {:>7.2}  {}", row.name, row.value, row.target, row.ratio, row.verdict());
}

/// All results as JSON.
pub(crate) fn json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "value": row.value,
                "target": row.target,
                "ratio": row.ratio,
                "ratio_max": row.ratio_max,
                "met": row.ratio_max.map(|most| row.ratio <= most),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "schema_version": 1, "rows": rows }))
}
