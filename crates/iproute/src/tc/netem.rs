//! `netem [ limit PACKETS ] [ delay TIME [ JITTER [ CORRELATION ] ] ] [ distribution NAME ]
//! [ loss ... ] [ duplicate ... ] [ reorder ... ] [ rate ... ] [ slot ... ] [ ecn ]`.

mod show;
mod tables;

pub(super) use show::shown;

use crate::units::{number, parse_signed, percent, rate, size, through_ticks, ticks, time, time64};
use crate::words::{Result, Word, Words};
use datapath::qdisc::netem::{
    Chance, Correlated, DelayTable, FourState, Gemodel, Loss, NetemConfig, NetemRate, Slot,
};
use datapath::units::{Duration, Rate};

/// All options, each of which may be cut short, in the order in which tc looks at them.
const OPTIONS: [&str; 13] = [
    "limit",
    "latency",
    "delay",
    "loss",
    "drop",
    "ecn",
    "reorder",
    "corrupt",
    "gap",
    "duplicate",
    "distribution",
    "rate",
    "slot",
];
const DISTRIBUTIONS: [&str; 4] = ["uniform", "normal", "pareto", "paretonormal"];

/// Reads netem's options.
pub(super) fn parse(words: &mut Words<'_>) -> Result<NetemConfig> {
    let mut config = NetemConfig::default();
    while let Some(word) = words.next() {
        option(&mut config, word, words)?;
    }
    check(&mut config, words)?;
    Ok(config)
}

fn option(config: &mut NetemConfig, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
    match word.cut_short(&OPTIONS).unwrap_or(word.text) {
        "limit" => config.limit = size(words.value(word)?, "limit")?,
        "delay" | "latency" => delay(config, word, words)?,
        "distribution" => config.distribution = distribution(words.value(word)?)?,
        "loss" | "drop" => config.loss = loss(word, words)?,
        "ecn" => config.ecn = true,
        "duplicate" => config.duplicate = correlated(word, words)?,
        "corrupt" => config.corrupt = correlated(word, words)?,
        "reorder" => config.reorder = correlated(word, words)?,
        "gap" => config.gap = number(words.value(word)?, "gap")?,
        "rate" => {
            let rate = netem_rate(word, words)?;
            config.rate = (rate.rate != Rate::default()).then_some(rate);
        }
        "slot" => config.slot = Some(slot(word, words)?),
        _ => return Err(word.unknown("netem", &OPTIONS)),
    }
    Ok(())
}

/// What only makes sense together. Reordering needs a delay to overtake, and a gap needs the
/// probability of reordering; without a gap it may hit any packet.
fn check(config: &mut NetemConfig, words: &Words<'_>) -> Result<()> {
    let reorders = config.reorder.0 != 0;
    if reorders && config.delay == 0 {
        return Err(words.unexpected_end("reordering not possible without specifying some delay"));
    }
    if config.distribution.is_some() && (config.delay == 0 || config.jitter == 0) {
        return Err(words.unexpected_end("distribution specified but no latency and jitter values"));
    }
    if config.ecn && config.loss == Loss::None {
        return Err(words.unexpected_end("ecn requested without loss model"));
    }
    match (reorders, config.gap) {
        (true, 0) => config.gap = 1,
        (false, 1..) => {
            return Err(words.unexpected_end("gap specified without reorder probability"));
        }
        _ => {}
    }
    Ok(())
}

/// `TIME [ JITTER [ CORRELATION ] ]`, through the scheduler's ticks.
fn delay(config: &mut NetemConfig, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
    let nanos = |time: Duration| through_ticks(time).as_nanos() as i64;
    config.delay = nanos(time32(words.value(word)?, "delay")?);
    let Some(jitter) = words.accept_as(|word| time32(word, "jitter")) else { return Ok(()) };
    config.jitter = nanos(jitter).min(i64::from(i32::MAX));
    if let Some(rho) = words.accept_as(|word| percent(word, "correlation")) {
        config.delay_correlation = Correlated::new(rho);
    }
    Ok(())
}

/// A time that fits 32 bits of ticks: up to 274 s.
fn time32(word: Word<'_>, what: &str) -> Result<Duration> {
    let time = time(word, what)?;
    if ticks(time) > u64::from(u32::MAX) { Err(word.illegal(what)) } else { Ok(time) }
}

/// The table for a distribution; uniform needs none.
fn distribution(word: Word<'_>) -> Result<Option<DelayTable>> {
    match word.text {
        "uniform" => Ok(None),
        "normal" => Ok(Some(tables::normal())),
        "pareto" => Ok(Some(tables::pareto())),
        "paretonormal" => Ok(Some(tables::paretonormal())),
        _ => Err(word.unknown("distribution", &DISTRIBUTIONS)),
    }
}

/// `PERCENT [ CORRELATION ]`.
fn correlated(word: Word<'_>, words: &mut Words<'_>) -> Result<(Chance, Correlated)> {
    let chance = percent(words.value(word)?, word.text)?;
    let rho = words.accept_as(|word| percent(word, "correlation")).unwrap_or(0);
    Ok((chance, Correlated::new(rho)))
}

/// `[ random ] PERCENT [ CORRELATION ]`, `state P13 [ P31 [ P32 [ P23 [ P14 ] ] ] ]` or
/// `gemodel P [ R [ 1-H [ 1-K ] ] ]`.
fn loss(word: Word<'_>, words: &mut Words<'_>) -> Result<Loss> {
    let model = words.peek().ok_or_else(|| words.unexpected_end("\"loss\" needs a value"))?;
    match model.text {
        "state" => {
            words.next();
            let (p13, [p31, p32, p23, p14]) = chances(model, words)?;
            let p31 = p31.unwrap_or(u32::MAX - p13);
            let p23 = p23.unwrap_or(u32::MAX);
            Ok(Loss::State(FourState::new(p13, p31, p32.unwrap_or(0), p23, p14.unwrap_or(0))))
        }
        "gemodel" => {
            words.next();
            let (p, [r, one_minus_h, one_minus_k]) = chances(model, words)?;
            let r = r.unwrap_or(u32::MAX - p);
            let h = one_minus_h.map_or(0, |lost| u32::MAX - lost);
            Ok(Loss::Gemodel(Gemodel::new(p, r, h, one_minus_k.unwrap_or(0))))
        }
        _ => {
            words.accept("random");
            correlated(word, words).map(|(chance, correlated)| Loss::Random(chance, correlated))
        }
    }
}

/// The probability that `model` must have, and up to `N` further ones.
fn chances<const N: usize>(
    model: Word<'_>,
    words: &mut Words<'_>,
) -> Result<(Chance, [Option<Chance>; N])> {
    let first = percent(words.value(model)?, model.text)?;
    let rest = [(); N].map(|()| words.accept_as(|word| percent(word, model.text)));
    Ok((first, rest))
}

/// `RATE [ PACKETOVERHEAD [ CELLSIZE [ CELLOVERHEAD ] ] ]`.
fn netem_rate(word: Word<'_>, words: &mut Words<'_>) -> Result<NetemRate> {
    let rate = rate(words.value(word)?)?;
    let signed = |word: Word<'_>| parse_signed(word.text).ok_or_else(|| word.illegal("overhead"));
    Ok(NetemRate {
        rate,
        packet_overhead: words.accept_as(signed).unwrap_or(0),
        cell_size: words.accept_as(|word| number(word, "cellsize")).unwrap_or(0),
        cell_overhead: words.accept_as(signed).unwrap_or(0),
    })
}

/// `MIN_DELAY [ MAX_DELAY ] [ packets N ] [ bytes N ]`.
fn slot(word: Word<'_>, words: &mut Words<'_>) -> Result<Slot> {
    let min_delay = time64(words.value(word)?, "slot")?.as_nanos();
    let next = words.peek();
    let max_delay = words.accept_as(|word| time64(word, "slot"));
    let max_delay = max_delay.map_or(min_delay, Duration::as_nanos);
    if let Some(word) = next.filter(|_| max_delay < min_delay) {
        return Err(word.illegal("slot max_delay"));
    }
    let mut slot = Slot { min_delay, max_delay, packets: 0, bytes: 0 };
    while let Some(word) = words.peek() {
        match word.cut_short(&["packets", "bytes"]).unwrap_or(word.text) {
            "packets" => {
                words.next();
                slot.packets = number(words.value(word)?, "packets")?;
            }
            "bytes" => {
                words.next();
                slot.bytes = size(words.value(word)?, "bytes")?;
            }
            _ => break,
        }
    }
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tc 6.1 took or refused them, by what it sent.
    #[test]
    fn options_are_cut_short() {
        let read = |text: &str| parse(&mut Words::new(text));
        for (short, whole) in [
            ("l 10", "limit 10"),
            ("lim 10", "limit 10"),
            ("la 7ms", "latency 7ms"),
            ("lat 7ms", "delay 7ms"),
            ("d 7ms", "delay 7ms"),
            ("del 7ms 1ms di normal", "delay 7ms 1ms distribution normal"),
            ("del 7ms 1ms dist pareto", "delay 7ms 1ms distribution pareto"),
            ("lo 1%", "loss 1%"),
            ("los state 1% e", "loss state 1% ecn"),
            ("dr 1%", "loss 1%"),
            ("du 1%", "duplicate 1%"),
            ("dup 1%", "duplicate 1%"),
            ("dupl 1%", "duplicate 1%"),
            ("c 1%", "corrupt 1%"),
            ("corr 1%", "corrupt 1%"),
            ("del 7ms r 10% g 5", "delay 7ms reorder 10% gap 5"),
            ("ra 1mbit", "rate 1mbit"),
            ("rat 1mbit", "rate 1mbit"),
            ("sl 3ms 4ms p 5 b 6k", "slot 3ms 4ms packets 5 bytes 6k"),
        ] {
            assert_eq!(read(short), Ok(read(whole).expect(whole)), "{short}");
        }
        for refused in [
            "loss rand 1%",
            "loss sta 1%",
            "loss gemod 1%",
            "delay 7ms 1ms distribution norm",
            "delays 7ms",
            "slot 20ms 10ms",
        ] {
            assert!(read(refused).is_err(), "{refused}");
        }
    }
}
