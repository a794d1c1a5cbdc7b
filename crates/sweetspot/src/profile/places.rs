//! Where in a program calls are made (`--where`): from places in the files of programs and libraries to
//! functions and lines, as far as their symbols and debug information tell.

use addr2line::{Loader, demangle_auto};
use object::{Object, ObjectSegment};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use sweetspot_guard::observation;
use sweetspot_report::profile::data::{CallSite, File};

/// A place with a smaller part of a file's calls is left out.
const SHARE_MIN: f64 = 0.01;
/// Gives each file the places of its calls, over all processes, those of most calls first.
pub fn name(files: &mut [File], sampled: &[observation::CallSite]) {
    let mut modules = HashMap::new();
    let mut all: BTreeMap<String, Vec<(CallSite, u64)>> = BTreeMap::new();
    for sample in sampled {
        let path = String::from_utf8_lossy(&sample.path).into_owned();
        let module = String::from_utf8_lossy(&sample.module).into_owned();
        let known = modules.entry(module.clone()).or_insert_with(|| Module::open(&module));
        let place = known.as_ref().map(|known| known.place(sample.offset)).unwrap_or_default();
        let place = CallSite { offset: sample.offset, module, ..place };
        let places = all.entry(path).or_default();
        let same = |other: &&mut (CallSite, u64)| is_same(&other.0, &place);
        match places.iter_mut().find(same) {
            Some((_, samples)) => *samples += sample.samples,
            None => places.push((place, sample.samples)),
        }
    }
    for file in files {
        let path = file.path.strip_suffix('*').filter(|path| path.ends_with('/'));
        let Some(places) = all.get(path.unwrap_or(&file.path)) else { continue };
        let samples: u64 = places.iter().map(|(_, samples)| samples).sum();
        let share = |samples: u64, all: u64| samples as f64 / all as f64;
        file.places = places
            .iter()
            .map(|(place, some)| CallSite { share: share(*some, samples), ..place.clone() })
            .filter(|place| place.share >= SHARE_MIN)
            .collect();
        file.places.sort_by(|a, b| b.share.total_cmp(&a.share));
    }
}

/// Whether two places are one for a reader: the same line of the same function.
fn is_same(one: &CallSite, other: &CallSite) -> bool {
    let line = |place: &CallSite| (place.file.clone(), place.line, place.function.clone());
    one.module == other.module
        && (one.offset == other.offset || one.line.is_some() && line(one) == line(other))
}

/// The file of a program or library.
struct Module {
    loader: Loader,
    /// Where parts of the file lie when it runs: start in the file, length, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Module {
    /// None: it is not there any more, or no such file.
    fn open(path: &str) -> Option<Module> {
        let content = fs::read(path).ok()?;
        let file = object::File::parse(&*content).ok()?;
        let segments = file.segments().map(|segment| {
            let (start, len) = segment.file_range();
            (start, len, segment.address())
        });
        Some(Module { segments: segments.collect(), loader: Loader::new(path).ok()? })
    }

    /// What is known of the call that returns to `offset`.
    fn place(&self, offset: u64) -> CallSite {
        // The byte before belongs to the call itself.
        let Some(address) = self.address(offset.saturating_sub(1)) else {
            return CallSite::default();
        };
        let mut place = CallSite::default();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            let mut is_first = true;
            while let Ok(Some(frame)) = frames.next() {
                let name = frame
                    .function
                    .and_then(|function| function.demangle().ok().map(|name| name.into_owned()));
                if is_first {
                    let location = frame.location;
                    place.function = name;
                    place.file = location.as_ref().and_then(|one| one.file).map(str::to_owned);
                    place.line = location.and_then(|one| one.line).filter(|line| *line > 0);
                } else {
                    place.inlined_into = name;
                }
                is_first = false;
            }
        }
        if place.function.is_none() {
            let symbol = self.loader.find_symbol(address);
            place.function =
                symbol.map(|name| demangle_auto(Cow::Borrowed(name), None).into_owned());
        }
        place
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let inside = |(start, len, _): &&(u64, u64, u64)| (*start..start + len).contains(&offset);
        self.segments.iter().find(inside).map(|(start, _, address)| offset - start + address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &str, offset: u64, samples: u64) -> observation::CallSite {
        observation::CallSite {
            path: path.into(),
            samples,
            module: b"/no/such/module".to_vec(),
            offset,
        }
    }

    #[test]
    fn shares_are_of_all_calls_on_a_path() {
        let file = |path: &str| File { path: path.to_owned(), ..File::default() };
        let mut files = [file("/a"), file("/f/*"), file("/other")];
        let samples = [
            sample("/a", 16, 30),
            sample("/a", 32, 69),
            // Another process of the same program.
            sample("/a", 16, 900),
            sample("/a", 48, 1),
            sample("/f/", 64, 5),
        ];
        name(&mut files, &samples);
        let found: Vec<_> =
            files[0].places.iter().map(|place| (place.offset, place.share)).collect();
        assert_eq!(found, [(16, 0.93), (32, 0.069)]);
        assert_eq!(files[1].places[0].share, 1.0);
        assert!(files[2].places.is_empty());
    }
}
