//! How short tasks may be.

use super::*;
use crate::metg::{Found, Point};

fn measured(found: Option<Found>) -> Metg {
    let ms = Duration::from_millis;
    let points = vec![
        Point::new(ms(512), 64, 8, ms(4_130)),
        Point::new(ms(16), 1_000, 8, Duration::from_micros(2_400_300)),
        Point::new(ms(2), 8_000, 8, ms(8_123)),
    ];
    Metg { workers: 2, cpus: 8, points, found }
}

#[test]
fn the_shortest_tasks_are_told_with_what_was_measured() {
    let mut report = measured(Some(Found::Metg(Duration::from_micros(4_321))));
    insta::assert_snapshot!(show(&mut report));
    insta::assert_snapshot!(json(&mut report));
    assert_eq!(quiet(&mut report), "0.004321\n");
}

#[test]
fn a_bound_is_told_as_one() {
    let at = Duration::from_millis(2);
    for (found, people, scripts) in [
        (
            Found::Below(at),
            "METG on 2 workers with 8 CPUs: less than 2ms. Use --shortest to try",
            "<0.002000\n",
        ),
        (
            Found::Above(at),
            "METG on 2 workers with 8 CPUs: more than 2ms. Use --longest to try",
            ">0.002000\n",
        ),
    ] {
        let mut report = measured(Some(found));
        assert!(show(&mut report).contains(people), "{}", show(&mut report));
        assert_eq!(quiet(&mut report), scripts);
    }
}
