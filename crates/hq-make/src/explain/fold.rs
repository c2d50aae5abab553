//! Many names as one: `bind_{0..119}.json`.

/// Values that are named one by one.
const NAMED_MAX: usize = 4;

/// What names have in common, and how they differ in between.
pub(crate) fn fold(names: &[&str]) -> String {
    let Some(first) = names.first() else { return String::new() };
    if names.len() == 1 {
        return (*first).to_owned();
    }
    let mut prefix = first.len();
    for name in names {
        prefix = prefix.min(first.bytes().zip(name.bytes()).take_while(|(one, other)| one == other).count());
    }
    // A number is not cut, nor a letter of several bytes.
    while !first.is_char_boundary(prefix) || first[..prefix].ends_with(|char: char| char.is_ascii_digit()) {
        prefix -= 1;
    }
    let mut suffix = names.iter().map(|name| name.len() - prefix).min().unwrap_or(0);
    for name in names {
        let same =
            first.bytes().rev().zip(name.bytes().rev()).take_while(|(one, other)| one == other).count();
        suffix = suffix.min(same);
    }
    while !first.is_char_boundary(first.len() - suffix)
        || first[first.len() - suffix..].starts_with(|char: char| char.is_ascii_digit())
    {
        suffix -= 1;
    }
    let (head, tail) = (&first[..prefix], &first[first.len() - suffix..]);
    let middles: Vec<&str> = names.iter().map(|name| &name[prefix..name.len() - suffix]).collect();
    format!("{head}{{{}}}{tail}", range(&middles))
}

fn range(middles: &[&str]) -> String {
    let mut is_row = false;
    let numbered: Option<Vec<(i64, &str)>> =
        middles.iter().map(|middle| Some((middle.parse().ok()?, *middle))).collect();
    let mut middles = middles.to_vec();
    if let Some(mut numbered) = numbered {
        numbered.sort_unstable();
        middles = numbered.iter().map(|(_, middle)| *middle).collect();
        is_row =
            middles.len() > 2 && numbered.windows(2).all(|pair| pair[0].0.checked_add(1) == Some(pair[1].0));
    }
    let (first, last) = (middles[0], middles[middles.len() - 1]);
    if is_row {
        return format!("{first}..{last}");
    }
    if middles.len() <= NAMED_MAX {
        return middles.join(",");
    }
    format!("{},…,{last}", middles[..NAMED_MAX - 1].join(","))
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn names_are_folded_where_they_differ() {
        for (names, folded) in [
            (&["a"][..], "a"),
            (&["bind_8.json", "bind_9.json", "bind_10.json"], "bind_{8..10}.json"),
            (&["f_007", "f_008", "f_009"], "f_{007..009}"),
            (&["f_1", "f_2"], "f_{1,2}"),
            (&["f_2", "f_0", "f_1", "f_3"], "f_{0..3}"),
            (&["f_1", "f_3", "f_5"], "f_{1,3,5}"),
            (&["a.x", "b.x", "c.x", "d.x", "e.x"], "{a,b,c,…,e}.x"),
            (&["an_x.1", "an_y.1"], "an_{x,y}.1"),
            (&["größe", "größer"], "größe{,r}"),
            (&["aé", "aè"], "a{é,è}"),
            (&["a", "aa"], "a{,a}"),
            (&["x1y", "x11y"], "x{1,11}y"),
        ] {
            assert_eq!(fold(names), folded);
        }
    }
}
