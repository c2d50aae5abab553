//! How something was over time: its average in each of some columns of equal width.

use hq_model::Timestamp;

/// Weights of intervals, added up. What an interval costs does not depend on how many columns it covers.
pub(super) struct Columns {
    from: f64,
    each: f64,
    // What belongs to one column alone, in weight × µs.
    partial: Vec<f64>,
    // Changes of what covers whole columns.
    whole: Vec<f64>,
}

impl Columns {
    /// So many columns from a moment to another one.
    pub(super) fn new(from: Timestamp, to: Timestamp, count: usize) -> Columns {
        let span = to.0.saturating_sub(from.0).max(1) as f64;
        let (partial, whole) = (vec![0.0; count], vec![0.0; count + 1]);
        Columns { from: from.0 as f64, each: span / count as f64, partial, whole }
    }

    /// Adds a weight from a moment to another one.
    pub(super) fn add(&mut self, start: Timestamp, end: Timestamp, weight: f64) {
        let span = self.each * self.partial.len() as f64;
        let start = (start.0 as f64 - self.from).clamp(0.0, span);
        let end = (end.0 as f64 - self.from).clamp(0.0, span);
        if end <= start {
            return;
        }
        let last = self.partial.len() - 1;
        let column = |at: f64| ((at / self.each) as usize).min(last);
        let (first, last) = (column(start), column(end));
        if first == last {
            self.partial[first] += weight * (end - start);
            return;
        }
        self.partial[first] += weight * ((first + 1) as f64 * self.each - start);
        self.partial[last] += weight * (end - last as f64 * self.each);
        self.whole[first + 1] += weight;
        self.whole[last] -= weight;
    }

    /// The averages, as they are shown: of three digits.
    pub(super) fn averages(self) -> Vec<f64> {
        let mut level = 0.0;
        let columns = self.partial.iter().zip(&self.whole);
        columns
            .map(|(partial, change)| {
                level += change;
                rounded(level + partial / self.each)
            })
            .collect()
    }
}

/// A number with the first three of its digits, or as a whole one: more is neither seen nor read.
pub(super) fn rounded(value: f64) -> f64 {
    if value.abs() >= 1000.0 {
        return value.round();
    }
    if value.abs() < 1e-9 {
        return 0.0;
    }
    let scale = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}
