//! A ruler: where figures stand on an axis, and which of them are named.

use super::Scale;

/// From figures to places.
pub struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let usable = |value: &f64| {
            value.is_finite() && (matches!(scale, Scale::Linear | Scale::Sizes) || *value > 0.0)
        };
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for value in values.filter(usable) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 2.0);
        }
        match scale {
            Scale::Linear | Scale::Sizes => {
                low = 0.0;
                high = if high > 0.0 { high * 1.05 } else { 1.0 };
            }
            Scale::Log => (low, high) = (low / 1.12, high * 1.12),
            Scale::Log2 => (low, high) = (low / 1.3, high * 1.3),
        }
        Ruler { scale, low, high, from, to }
    }

    pub fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear | Scale::Sizes => (value - self.low) / (self.high - self.low),
            _ => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share.clamp(-0.01, 1.01) * (self.to - self.from)
    }

    /// Where labels may stand, about so many.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        let inside = |value: &f64| (self.low..=self.high).contains(value);
        match self.scale {
            Scale::Sizes => {
                let step = 2_f64.powf((self.high / wanted.max(1) as f64).log2().ceil());
                (0..=wanted + 1).map(|tick| tick as f64 * step).filter(inside).collect()
            }
            Scale::Linear => {
                let raw = self.high / wanted.max(1) as f64;
                let power = 10_f64.powf(raw.log10().floor());
                let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
                let step = step.into_iter().find(|step| *step >= raw).unwrap_or(raw);
                (0..=wanted + 1).map(|tick| tick as f64 * step).filter(inside).collect()
            }
            Scale::Log => {
                let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
                let all = |steps: &[f64]| -> Vec<f64> {
                    let decade =
                        |power: i32| steps.iter().map(move |step| step * 10_f64.powi(power));
                    decades.clone().flat_map(decade).filter(inside).collect()
                };
                let few: [&[f64]; 4] = [
                    &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
                    &[1.0, 2.0, 3.0, 5.0],
                    &[1.0, 3.0],
                    &[1.0],
                ];
                let fits = few.iter().map(|steps| all(steps)).find(|ticks| ticks.len() <= wanted);
                let ticks = fits.unwrap_or_else(|| sparse(all(&[1.0]), wanted));
                if ticks.len() >= 2 { ticks } else { vec![self.low * 1.12, self.high / 1.12] }
            }
            Scale::Log2 => {
                let powers = (self.low.log2().ceil() as i32)..=(self.high.log2().floor() as i32);
                sparse(powers.map(|power| 2_f64.powi(power)).collect(), wanted)
            }
        }
    }
}

/// Each second, third ... so that few enough are left.
fn sparse(ticks: Vec<f64>, wanted: usize) -> Vec<f64> {
    let step = ticks.len().div_ceil(wanted.max(1)).max(1);
    ticks.into_iter().step_by(step).collect()
}
