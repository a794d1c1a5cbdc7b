//! Points and lines over two axes.

use super::ruler::Ruler;
use super::{
    HEIGHT, LEFT, POINTS_MAX, Plot, RIGHT, SERIES_MAX, Series, TOP, WIDTH, cut, dots, line, text,
    thinned, width,
};
use std::fmt::Write as _;

impl Plot {
    fn rulers(&self) -> (Ruler, Ruler) {
        let xs = self
            .series
            .iter()
            .flat_map(|series| series.line.iter().chain(&series.dots).map(|point| point.0));
        let ys = self.series.iter().flat_map(|series| {
            let band = series.band.iter().flat_map(|part| [part.1, part.2]);
            series.line.iter().chain(&series.dots).map(|point| point.1).chain(band)
        });
        let ys = ys.chain(self.levels.iter().map(|level| level.0));
        let ys = ys.chain(self.zone.into_iter().flat_map(|(low, high)| [low, high]));
        let x = Ruler::new(self.x.scale, xs, LEFT, WIDTH - RIGHT);
        (x, Ruler::new(self.y.scale, ys, TOP + HEIGHT, TOP))
    }

    pub fn draw(&self) -> (f64, String) {
        let (x, y) = self.rulers();
        let mut body = String::new();
        self.draw_axes(&mut body, &x, &y);
        let all: usize = self.series.iter().map(|series| series.dots.len()).sum();
        let step = thinned(all);
        for (number, series) in self.series.iter().enumerate() {
            let color = number % SERIES_MAX;
            draw_band(&mut body, (&x, &y), series, color);
            let some = series.dots.iter().step_by(step);
            dots(&mut body, &format!("dots s{color}"), some.map(|d| (x.at(d.0), y.at(d.1))));
        }
        self.draw_levels(&mut body, &y);
        for (number, series) in self.series.iter().enumerate() {
            let color = number % SERIES_MAX;
            let points: Vec<(f64, f64)> =
                series.line.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
            if points.len() > 1 {
                let steps: Vec<String> =
                    points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
                let path = steps.join("L");
                let _ = write!(body, "<path class=\"line s{color}\" d=\"M{path}\"/>");
            }
            // A smooth line of many steps has no points of its own.
            if points.len() <= POINTS_MAX {
                dots(&mut body, &format!("points s{color}"), points.into_iter());
            }
        }
        self.draw_mark(&mut body, &x, &y);
        let height = self.draw_legend(&mut body, TOP + HEIGHT + 46.0);
        (height, body)
    }

    fn draw_axes(&self, body: &mut String, x: &Ruler, y: &Ruler) {
        let (bottom, right) = (TOP + HEIGHT, WIDTH - RIGHT);
        if let Some((low, high)) = self.zone {
            let (top, wide) = (y.at(high), right - LEFT);
            let height = (y.at(low) - top).max(1.0);
            let _ = write!(
                body,
                "<rect class=\"zone\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{wide}\" \
                 height=\"{height:.1}\"/>"
            );
        }
        for tick in y.ticks(7) {
            line(body, "grid", (LEFT, y.at(tick)), (right, y.at(tick)));
            text(body, LEFT - 7.0, y.at(tick) + 4.5, "end soft", &self.y.unit.text(tick));
        }
        line(body, "axis", (LEFT, bottom), (right, bottom));
        let widest = |ticks: &[f64]| {
            ticks.iter().map(|tick| width(&self.x.unit.text(*tick))).fold(0.0, f64::max)
        };
        let mut wanted = 9;
        let ticks = loop {
            let ticks = x.ticks(wanted);
            if wanted <= 2 || (widest(&ticks) + 8.0) * ticks.len() as f64 <= right - LEFT + 40.0 {
                break ticks;
            }
            wanted -= 1;
        };
        for tick in ticks {
            let words = self.x.unit.text(tick);
            let half = width(&words) / 2.0;
            let at = x.at(tick).min(WIDTH - half).max(half);
            line(body, "axis", (x.at(tick), bottom), (x.at(tick), bottom + 4.0));
            text(body, at, bottom + 19.0, "mid soft", &words);
        }
        text(body, 2.0, 15.0, "soft", &self.y.name);
        text(body, right, bottom + 38.0, "end soft", &self.x.name);
    }

    fn draw_levels(&self, body: &mut String, y: &Ruler) {
        const LINE: f64 = 17.0;
        let mut levels: Vec<(f64, &str)> =
            self.levels.iter().map(|(value, name)| (y.at(*value), name.as_str())).collect();
        levels.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = TOP; // down from here
        for (at, name) in levels {
            line(body, "ref", (LEFT, at), (WIDTH - RIGHT, at));
            // Above its line; below, where there is no room.
            let down =
                if at - 6.0 - LINE >= free { at - 6.0 } else { (at + LINE).max(free + LINE) };
            if !name.is_empty() {
                text(body, WIDTH - RIGHT - 2.0, down, "end soft halo", &cut(name, 44));
                free = down + 4.0;
            }
        }
    }

    fn draw_mark(&self, body: &mut String, x: &Ruler, y: &Ruler) {
        let Some((at, value, words)) = &self.mark else { return };
        let (x, y) = (x.at(*at), y.at(*value));
        let _ = write!(body, "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\"/>");
        let half = width(words) / 2.0;
        let middle = x.min(WIDTH - RIGHT - half).max(LEFT + half);
        let above = if y > TOP + HEIGHT / 2.0 { y - 16.0 } else { y + 26.0 };
        text(body, middle, above, "mid strong halo", words);
    }

    /// Names of the series below the plot; returns where the drawing ends.
    fn draw_legend(&self, body: &mut String, top: f64) -> f64 {
        const LINE: f64 = 21.0;
        let (mut at, mut down) = (LEFT.min(8.0), top + 14.0);
        if self.series.len() < 2 {
            return top;
        }
        for (number, series) in self.series.iter().enumerate() {
            let name = cut(&series.name, 48);
            let wide = 38.0 + width(&name);
            if at + wide > WIDTH && at > 8.0 {
                (at, down) = (8.0, down + LINE);
            }
            let color = number % SERIES_MAX;
            line(body, &format!("line s{color}"), (at, down - 4.5), (at + 24.0, down - 4.5));
            dots(body, &format!("points s{color}"), std::iter::once((at + 12.0, down - 4.5)));
            text(body, at + 31.0, down, "", &name);
            at += wide;
        }
        down + 10.0
    }
}

/// The band, in pieces where parts of it are not known.
fn draw_band(body: &mut String, (x, y): (&Ruler, &Ruler), series: &Series, color: usize) {
    let place = |at: f64, value: f64| format!("{:.1} {:.1}", x.at(at), y.at(value));
    let mut piece: Vec<(f64, f64, f64)> = Vec::new();
    let part = |at: f64| series.band.iter().find(|part| part.0 == at).copied();
    let parts = series.line.iter().map(|point| part(point.0)).chain([None]);
    for part in parts {
        if let Some(part) = part {
            piece.push(part);
            continue;
        }
        let high = piece.iter().map(|(at, _, high)| place(*at, *high));
        let low = piece.iter().rev().map(|(at, low, _)| place(*at, *low));
        let around: Vec<String> = high.chain(low).collect();
        if piece.len() > 1 {
            let path = around.join("L");
            let _ = write!(body, "<path class=\"band f{color}\" d=\"M{path}Z\"/>");
        }
        piece.clear();
    }
    for (at, low, high) in series.band.iter().take(POINTS_MAX).filter(|part| part.1 < part.2) {
        line(body, &format!("line s{color}"), (x.at(*at), y.at(*low)), (x.at(*at), y.at(*high)));
    }
}
