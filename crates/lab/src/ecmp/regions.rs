//! Who has which part of what hashes choose from, before and after a failure: the hash space, or the
//! buckets of a resilient group.

use super::Names;
use crate::plot::{Anchor, Colour, Scene, Shape, TextStyle, text_width};
use crate::store::table::{Table, Values};
use datapath::fib::nexthop::{Object, ObjectConfig};
use datapath::fib::{Fib, Hop, RouteKey, Target};
use datapath::units::Instant;

/// The parts of a route's next hops before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Regions {
    title: String,
    /// Which route, and how it chooses.
    subtitle: String,
    /// Where the last part ends, and what is counted to there.
    whole: f64,
    unit: &'static str,
    hops: Vec<Hop>,
    /// What they are called: in full, and their ports alone.
    names: Vec<[String; 2]>,
    before: Vec<Part>,
    after: Vec<Part>,
}

/// What one next hop has, from `from` up to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    /// `None`: no next hop has it.
    hop: Option<Hop>,
    from: f64,
    to: f64,
}

const LEFT: f32 = 96.0;
const WIDTH: f32 = 640.0;
const BAR: f32 = 44.0;
const TOP: f32 = 76.0;
const ROW: f32 = 58.0;

impl Regions {
    /// Of the route that a key takes, with `fib` before and `failed` after `what` fails.
    ///
    /// # Errors
    /// Why there is nothing to show: no route, a single next hop, or one that takes turns.
    pub fn of(
        fib: &Fib,
        failed: &Fib,
        key: &RouteKey,
        what: &str,
        names: &impl Names,
    ) -> Result<Self, String> {
        let why = fib.explain(key).ok_or("the first flow has no route")?;
        if why.candidates.len() < 2 {
            return Err("the route of the first flow has only one next hop".into());
        }
        if why.hash.is_none() {
            return Err(
                "the route of the first flow takes its next hops in turn, not by hash".into()
            );
        }
        let (whole, unit, parts_of, how) = if let Some((_, buckets)) = why.bucket {
            let how = format!("a resilient group of {buckets} buckets");
            (f64::from(buckets), "buckets", "Buckets of a resilient group", how)
        } else {
            let how = "by hash-threshold".to_owned();
            (2f64.powi(31), "31-bit hash space", "Regions of the hash space", how)
        };
        let (before, after) = (parts(fib, key), parts(failed, key));
        let mut hops: Vec<Hop> = why.candidates.iter().map(|path| path.hop).collect();
        for part in &after {
            if let Some(hop) = part.hop
                && !hops.contains(&hop)
            {
                hops.push(hop);
            }
        }
        Ok(Self {
            title: format!("{parts_of} when {what} fails"),
            subtitle: format!("route {}, {how}", why.route.prefix),
            whole,
            unit,
            names: hops.iter().map(|hop| [names.hop(hop), names.port(hop.port)]).collect(),
            hops,
            before,
            after,
        })
    }

    /// The share of it all that changes hands.
    pub fn moved(&self) -> f64 {
        self.changes().iter().map(|part| part.to - part.from).sum::<f64>() / self.whole
    }

    /// The parts that change their next hop, with the new one.
    fn changes(&self) -> Vec<Part> {
        let mut changes = Vec::new();
        for old in &self.before {
            for new in self.after.iter().filter(|new| new.hop != old.hop) {
                let (from, to) = (old.from.max(new.from), old.to.min(new.to));
                if from < to {
                    changes.push(Part { hop: new.hop, from, to });
                }
            }
        }
        changes
    }

    fn place(&self, hop: Hop) -> usize {
        self.hops.iter().position(|one| *one == hop).unwrap_or(0)
    }

    fn rows(&self) -> [(&'static str, Vec<Part>); 3] {
        [
            ("before", self.before.clone()),
            ("moves to", self.changes()),
            ("after", self.after.clone()),
        ]
    }

    /// A row for each part.
    pub fn data(&self) -> Table {
        let rows = self.rows();
        let all =
            || rows.iter().flat_map(|(row, parts)| parts.iter().map(move |part| (*row, part)));
        let hop = |part: &Part| {
            part.hop.map_or(String::new(), |hop| self.names[self.place(hop)][0].clone())
        };
        let whole = |of: fn(&Part) -> f64| {
            Values::Whole(all().map(|(_, part)| Some(of(part) as i64)).collect())
        };
        let mut table = Table::default();
        table.push("row", Values::Text(all().map(|(row, _)| row.to_owned()).collect()));
        table.push("next_hop", Values::Text(all().map(|(_, part)| hop(part)).collect()));
        table.push("from", whole(|part| part.from));
        table.push("to", whole(|part| part.to));
        table
    }

    /// Draws it: a bar before, a bar after, and between them what changes hands.
    pub fn draw(&self) -> Scene {
        let mut scene = Scene::new(LEFT + WIDTH + 24.0, TOP + 228.0, &self.title);
        let heading = TextStyle { medium: true, ..style(17.0, Colour::INK, Anchor::Start) };
        scene.text([24.0, 30.0], &self.title, heading);
        scene.text([24.0, 50.0], &self.subtitle, style(12.5, Colour::GREY, Anchor::Start));
        for (number, (label, parts)) in (0u8..).zip(&self.rows()) {
            let top = TOP + ROW * f32::from(number);
            scene.text([LEFT - 12.0, top + 27.0], label, style(13.0, Colour::INK, Anchor::End));
            // What moves is less high, and its names stand above and below.
            let (inset, named) = if number == 1 { (6.0, false) } else { (0.0, true) };
            for part in parts {
                self.draw_part(&mut scene, part, [top + inset, BAR - 2.0 * inset], named);
            }
        }
        let bottom = TOP + 3.0 * ROW;
        for quarter in 0..=4u8 {
            let at = LEFT + WIDTH * f32::from(quarter) / 4.0;
            scene.line([at, bottom - 10.0], [at, bottom - 4.0], Colour::AXIS, 1.0);
            let label = ["0", "1/4", "1/2", "3/4", "1"][usize::from(quarter)];
            scene.text([at, bottom + 12.0], label, style(12.0, Colour::GREY, Anchor::Middle));
        }
        let share =
            format!("{:.1} % of the {} changes its next hop", 100.0 * self.moved(), self.unit);
        scene.text([LEFT, bottom + 36.0], &share, style(13.0, Colour::INK, Anchor::Start));
        scene
    }

    fn draw_part(&self, scene: &mut Scene, part: &Part, [top, height]: [f32; 2], named: bool) {
        let Some(hop) = part.hop else { return };
        let x = |place: f64| LEFT + WIDTH * (place / self.whole) as f32;
        let (left, width) = (x(part.from), x(part.to) - x(part.from));
        let place = self.place(hop);
        let (fill, ink) = colours(place);
        scene.shapes.push(Shape::Rect { frame: [left, top, width, height], fill });
        // The longest name that has room; what has none is in the data beside the picture.
        let fits = |name: &&String| text_width(name, 12.0) < width - 4.0;
        if let (true, Some(name)) = (named, self.names[place].iter().find(fits)) {
            scene.text([left + width / 2.0, top + 27.0], name, style(12.0, ink, Anchor::Middle));
        }
    }
}

/// The colour of next hop number `place`, and one that is read on it: beyond as many as there are colours
/// they come again, lighter.
fn colours(place: usize) -> (Colour, Colour) {
    let Colour(r, g, b) = Colour::data(place);
    if (place / Colour::DATA.len()).is_multiple_of(2) {
        return (Colour(r, g, b), Colour::WHITE);
    }
    let lighter = |part: u8| part / 2 + 127;
    (Colour(lighter(r), lighter(g), lighter(b)), Colour::INK)
}

fn style(size: f32, colour: Colour, anchor: Anchor) -> TextStyle {
    TextStyle { size, medium: false, colour, anchor, upright: false }
}

/// Who has what: neighbours of the same next hop are one part.
fn parts(fib: &Fib, key: &RouteKey) -> Vec<Part> {
    let Some(why) = fib.explain(key) else { return Vec::new() };
    let mut parts: Vec<Part> = Vec::new();
    let mut from = 0.0;
    let mut add = |hop: Option<Hop>, to: f64| {
        let begin = std::mem::replace(&mut from, to);
        match parts.last_mut() {
            Some(last) if last.hop == hop => last.to = to,
            _ => parts.push(Part { hop, from: begin, to }),
        }
    };
    let group = match why.route.target {
        Target::Object(id) => fib.buckets(Instant::ZERO, id),
        Target::Hops(_) => None,
    };
    if let Some(buckets) = group {
        for bucket in buckets {
            let object = fib.objects().get(bucket.id).map(Object::config);
            let hop = match object {
                Some(ObjectConfig::Hop(hop)) => Some(hop.hop),
                _ => None,
            };
            add(hop, f64::from(bucket.index) + 1.0);
        }
    } else {
        for path in why.candidates.iter().filter(|path| path.bound >= 0) {
            add(Some(path.hop), f64::from(path.bound) + 1.0);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::fib::resilient::Member;
    use datapath::fib::resilient::ResilientConfig;
    use datapath::fib::{LinkState, NextHop, Prefix, Route};

    struct Plain;

    impl Names for Plain {
        fn port(&self, port: u16) -> String {
            format!("eth{port}")
        }
    }

    /// Four next hops, of which the third has twice the weight, as a route or a resilient group.
    fn fib(resilient: bool) -> Fib {
        let mut fib = Fib::new();
        let prefix: Prefix = "10.0.0.0/8".parse().unwrap();
        let weight = |port: u16| if port == 3 { 2 } else { 1 };
        let hop = |port: u16| NextHop::new(port, None);
        if !resilient {
            let hops = (1..=4).map(|port| hop(port).weight(weight(port))).collect();
            fib.add(Route::new(prefix, hops)).unwrap();
            return fib;
        }
        for port in 1..=4 {
            fib.add_object(Instant::ZERO, port.into(), ObjectConfig::Hop(hop(port))).unwrap();
        }
        let member = |port: u16| Member { id: port.into(), weight: weight(port) };
        let config = ResilientConfig { buckets: 20, ..ResilientConfig::default() };
        let group = ObjectConfig::Resilient((1..=4).map(member).collect(), config);
        fib.add_object(Instant::ZERO, 9, group).unwrap();
        fib.add(Route::object(prefix, 9)).unwrap();
        fib
    }

    fn regions(resilient: bool) -> Regions {
        let before = fib(resilient);
        let mut after = before.clone();
        after.set_link(Instant::ZERO, 1, LinkState { up: false, ..after.link(1) });
        let key = RouteKey::to("10.1.2.3".parse().unwrap());
        Regions::of(&before, &after, &key, "eth1", &Plain).unwrap()
    }

    #[test]
    fn regions_are_cut_anew_and_buckets_stay() {
        let by_threshold = regions(false);
        assert_eq!(by_threshold.subtitle, "route 10.0.0.0/8, by hash-threshold");
        assert!((by_threshold.moved() - 0.4).abs() < 1e-6, "{}", by_threshold.moved());
        let resilient = regions(true);
        assert_eq!(resilient.subtitle, "route 10.0.0.0/8, a resilient group of 20 buckets");
        // Only those of the one that failed move.
        assert!((resilient.moved() - 0.2).abs() < 1e-9, "{}", resilient.moved());
        let gone = |part: &Part| part.hop.is_some_and(|hop| hop.port == 1);
        assert!(!resilient.after.iter().any(gone));
    }

    #[test]
    fn the_data_of_a_picture_say_what_it_shows() {
        let csv = String::from_utf8(regions(false).data().csv().unwrap()).unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "row,next_hop,from,to");
        assert!(lines[1].starts_with("before,eth1,0,429496730"), "{csv}");
        assert!(lines.last().unwrap().starts_with("after,eth4,"), "{csv}");
        let svg = crate::plot::svg(&regions(false).draw());
        for name in ["eth1", "eth4", "40.0 % of the 31-bit hash space changes its next hop"] {
            assert!(svg.contains(name), "{name}");
        }
    }
}
