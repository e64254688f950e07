//! Curves as SVG: time lines of a run, and figures over its levels.
//!
//! A picture has one line, two axes and their largest numbers. Both axes begin at 0, so that small differences do not
//! look large.

use std::fmt::Write as _;

/// The size of a picture, and the space around the line for the numbers, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 16.0;
const BELOW: f64 = 40.0;
/// The parts of an axis between two numbers.
const PARTS: u32 = 4;

/// A line through points in the order of their first coordinate.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What is shown, with the unit.
    pub title: String,
    /// What the first coordinate is: words without characters that SVG escapes.
    pub horizontal: &'static str,
    /// The points. No coordinate is below 0.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Draws the curve. Returns `None` if it has fewer than two points, or one that is not finite.
    pub fn to_svg(&self) -> Option<String> {
        let is_drawn = self.points.len() >= 2 && self.points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
        if !is_drawn {
            return None;
        }
        let x_max = axis_end(self.points.iter().map(|point| point.0));
        let y_max = axis_end(self.points.iter().map(|point| point.1));
        let x_of = |x: f64| LEFT + x / x_max * (WIDTH - LEFT - RIGHT);
        let y_of = |y: f64| HEIGHT - BELOW - y / y_max * (HEIGHT - TOP - BELOW);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-size=\"12\">\n"
        );
        for part in 0..=PARTS {
            let share = f64::from(part) / f64::from(PARTS);
            let x = x_of(share * x_max);
            let y = y_of(share * y_max);
            let right = WIDTH - RIGHT;
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ccc\"/>");
            let label = number(share * y_max, y_max);
            let _ =
                writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 6.0, y + 4.0);
            let label = number(share * x_max, x_max);
            let below = HEIGHT - BELOW + 16.0;
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text>");
        }
        let middle = x_of(x_max / 2.0);
        let bottom = HEIGHT - 6.0;
        let _ = writeln!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{bottom:.1}\" text-anchor=\"middle\">{}</text>",
            self.horizontal
        );
        let points: Vec<String> = self.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_of(*x), y_of(*y))).collect();
        let points = points.join(" ");
        let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"#0054a6\" stroke-width=\"2\"/>");
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

/// Returns the end of an axis: the largest value, or 1 if there is none above 0.
fn axis_end(values: impl Iterator<Item = f64>) -> f64 {
    let largest = values.fold(0.0, f64::max);
    if largest > 0.0 { largest } else { 1.0 }
}

/// Formats a number of an axis with this end.
fn number(value: f64, end: f64) -> String {
    match end {
        end if end >= 100.0 => format!("{value:.0}"),
        end if end >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve { title: "response in ms".to_owned(), horizontal: "minutes", points: points.to_vec() }
    }

    /// The largest values are at the right and at the top; 0 is at the left and at the bottom.
    #[test]
    fn a_curve_is_one_line_in_a_picture() {
        let svg = curve(&[(0.0, 0.0), (1.0, 200.0), (2.0, 100.0)]).to_svg().expect("three points");
        assert!(svg.contains("<polyline points=\"80.0,180.0 390.0,16.0 700.0,98.0\""), "{svg}");
        assert!(
            svg.contains(">150</text>") && svg.contains(">1.50</text>") && svg.contains(">minutes</text>"),
            "{svg}"
        );
    }

    #[test]
    fn curves_without_points_are_not_drawn() {
        assert_eq!(curve(&[(1.0, 1.0)]).to_svg(), None);
        assert_eq!(curve(&[(1.0, 1.0), (2.0, f64::NAN)]).to_svg(), None);
        let zero = curve(&[(0.0, 0.0), (0.0, 0.0)]).to_svg().expect("an axis has a length");
        assert!(zero.contains("points=\"80.0,180.0 80.0,180.0\""), "{zero}");
    }
}
