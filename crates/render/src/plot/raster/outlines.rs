//! Outlines of characters, so that a picture needs no font of its host.

use std::collections::HashMap;

use super::pixels::Point;

/// Latin, Greek and Cyrillic. Its head says how it was made.
const ROBOTO: &str = include_str!("roboto.txt");
/// Units of an em in it.
const EM: f64 = 1000.0;
/// Its box for all other characters.
const OTHERS: char = '\0';

/// A character. All lengths are in em, and its points above the baseline.
#[derive(Debug)]
pub struct Outline {
    /// Distance to the next character.
    pub advance: f64,
    /// Its polygon.
    pub contours: Vec<Vec<Point>>,
}

/// The characters of a font.
#[derive(Debug)]
pub struct Outlines(HashMap<char, Outline>);

impl Outlines {
    /// Roboto.
    pub fn roboto() -> Self {
        Self(lines().filter_map(outline).collect())
    }

    /// The outlines of a text.
    pub fn of(&self, text: &str) -> impl Iterator<Item = &Outline> {
        let others = self.0.get(&OTHERS);
        let of = move |character: char| self.0.get(&character).or(others);
        text.chars().filter_map(of)
    }
}

fn lines() -> impl Iterator<Item = &'static str> {
    ROBOTO.lines().filter(|line| !line.starts_with('#'))
}

/// A line: the character's number, its advance, and its contours.
fn outline(line: &str) -> Option<(char, Outline)> {
    let mut parts = line.splitn(3, ' ');
    let number = u32::from_str_radix(parts.next()?, 16).ok()?;
    let advance: f64 = parts.next()?.parse().ok()?;
    let contours = parts.next().into_iter().flat_map(|of| of.split(" / "));
    let contours = contours.map(|of| of.split(' ').map(point).collect::<Option<Vec<_>>>());
    let outline = Outline {
        advance: advance / EM,
        contours: contours.collect::<Option<_>>()?,
    };
    Some((char::from_u32(number)?, outline))
}

fn point(text: &str) -> Option<Point> {
    let (x, y) = text.split_once(',')?;
    let [x, y] = [x, y].map(|number| number.parse::<f64>().ok());
    Some((x? / EM, y? / EM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_character() {
        let outlines = Outlines::roboto();
        assert_eq!(outlines.0.len(), lines().count());
        for character in (' '..='~').chain("äßéΩжя…–µ×".chars()) {
            assert!(outlines.0.contains_key(&character), "{character}");
        }
    }

    #[test]
    fn characters_without_an_outline_are_boxes() {
        let outlines = Outlines::roboto();
        let of = |text| -> Vec<usize> {
            let all = outlines.of(text);
            all.map(|outline| outline.contours.len()).collect()
        };
        // A space has nothing, `i` two parts, and `o` a hole.
        assert_eq!(of(" io"), [0, 2, 2]);
        assert_eq!(of("資\u{1f600}"), of("\0\0"));
    }
}
