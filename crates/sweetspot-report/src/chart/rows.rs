//! Rows of figures over one axis.

use super::ruler::Ruler;
use super::{LETTER, RIGHT, ROWS_MAX, Row, Rows, WIDTH, cut, dots, line, text, thinned, width};
use std::fmt::Write as _;

impl Rows {
    pub fn draw(&self) -> (f64, String) {
        const ROW: f64 = 42.0;
        const TOP: f64 = 6.0;
        let shown = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let bottom = TOP + ROW * shown.len() as f64;
        let values = shown.iter().flat_map(|row| {
            let ends = row.interval.into_iter().flat_map(|(low, high)| [low, high]);
            row.dots.iter().copied().chain(row.bar).chain(row.value).chain(ends)
        });
        let values = values.chain(self.at.map(|at| at.0));
        let ruler = Ruler::new(self.axis.scale, values, 8.0, WIDTH - RIGHT);
        let mut body = String::new();
        self.draw_axis(&mut body, &ruler, (TOP, bottom));
        let all: usize = shown.iter().map(|row| row.dots.len()).sum();
        for (number, row) in shown.iter().enumerate() {
            let top = TOP + ROW * number as f64;
            draw_row(&mut body, row, &ruler, (top, thinned(all)));
        }
        (bottom + 46.0, body)
    }

    fn draw_axis(&self, body: &mut String, ruler: &Ruler, (top, bottom): (f64, f64)) {
        if let Some((at, factor)) = self.at {
            let (from, to) = (ruler.at(at / factor), ruler.at(at * factor));
            let (width, height) = (to - from, bottom - top);
            let _ = write!(
                body,
                "<rect class=\"zone\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"/>"
            );
            line(body, "ref", (ruler.at(at), top), (ruler.at(at), bottom));
        }
        line(body, "axis", (8.0, bottom), (WIDTH - RIGHT, bottom));
        let mut right = f64::MIN;
        for tick in ruler.ticks(6) {
            let words = self.axis.unit.text(tick);
            let half = width(&words) / 2.0;
            let at = ruler.at(tick).min(WIDTH - half).max(half);
            line(body, "axis", (ruler.at(tick), bottom), (ruler.at(tick), bottom + 4.0));
            if at - half > right {
                text(body, at, bottom + 19.0, "mid soft", &words);
                right = at + half + 4.0;
            }
        }
        text(body, WIDTH - RIGHT, bottom + 38.0, "end soft", &self.axis.name);
    }
}

fn draw_row(body: &mut String, row: &Row, ruler: &Ruler, (top, step): (f64, usize)) {
    let middle = top + 29.0;
    line(body, "grid", (8.0, middle), (WIDTH - RIGHT, middle));
    if let Some(bar) = row.bar {
        let wide = (ruler.at(bar) - 8.0).max(1.0);
        let _ = write!(
            body,
            "<rect class=\"bar f0\" x=\"8\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"12\" rx=\"2\"/>",
            middle - 6.0
        );
    }
    let some = row.dots.iter().step_by(step);
    dots(body, "dots s0", some.map(|value| (ruler.at(*value), middle)));
    if let Some((low, high)) = row.interval {
        // Over a bar it would not be seen in its colour.
        let class = if row.bar.is_some() { "mark" } else { "line s0" };
        line(body, class, (ruler.at(low), middle), (ruler.at(high), middle));
    }
    if let Some(value) = row.value {
        let at = ruler.at(value);
        line(body, "mark", (at, middle - 7.0), (at, middle + 7.0));
    }
    let room = WIDTH - RIGHT - 8.0 - width(&row.text) - 12.0;
    text(body, 8.0, top + 15.0, "halo", &cut(&row.name, (room / LETTER).max(4.0) as usize));
    text(body, WIDTH - RIGHT, top + 15.0, "end soft halo", &row.text);
}
