//! Latencies as a picture: a column for each second, a row for each range of latencies, the colour shows how many.
//!
//! A percentile is one number; here it shows whether all requests became slower or a few, and whether those come in
//! waves.

use hdrhistogram::Histogram;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use std::collections::VecDeque;

use super::view::SECONDS_MAX;
use crate::report::figures::grouped;

/// Seconds and their latencies.
#[derive(Debug, Default)]
pub(super) struct Heat {
    seconds: VecDeque<Column>,
}

/// The requests of one second by bucket.
type Column = [u32; BUCKETS];

/// Two to an octave, from 1 µs on: the last one begins at 92 s.
const BUCKETS: usize = 54;
const PER_OCTAVE: f64 = 2.0;

/// A cell looks like this from this share of a second's requests on.
const LEVELS: [(f64, &str, Color); 4] = [
    (0.1, "█", Color::LightYellow),
    (0.01, "▓", Color::LightRed),
    (0.001, "▒", Color::Magenta),
    (0.0, "░", Color::Blue),
];

/// Columns of the scale.
const SCALE: u16 = 10;

impl Heat {
    /// The explanation above the picture.
    pub(super) const HEAD: &str = "latency in µs by second: █ 10 % of its requests, ▓ 1 %, ▒ 0.1 %, ░ fewer";

    /// A second more.
    pub(super) fn push(&mut self, latency_ns: Option<&Histogram<u64>>) {
        if self.seconds.len() == SECONDS_MAX {
            self.seconds.pop_front();
        }
        let mut column = [0; BUCKETS];
        for value in latency_ns.iter().flat_map(|latency_ns| latency_ns.iter_recorded()) {
            let count = &mut column[bucket(value.value_iterated_to())];
            *count =
                u32::try_from(value.count_since_last_iteration()).unwrap_or(u32::MAX).saturating_add(*count);
        }
        self.seconds.push_back(column);
    }

    /// Draws the latest seconds, as many as there are columns, and the latencies that they have.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let columns = usize::from(area.width.saturating_sub(SCALE));
        let shown = || self.seconds.iter().skip(self.seconds.len().saturating_sub(columns));
        let is_seen = |bucket: &usize| shown().any(|column| column[*bucket] > 0);
        let Some((lowest, highest)) =
            (0..BUCKETS).find(is_seen).zip((0..BUCKETS).rev().find(is_seen)).filter(|_| area.height > 0)
        else {
            return;
        };
        let together = (highest + 1 - lowest).div_ceil(usize::from(area.height));
        for (row, y) in (area.top()..area.bottom()).rev().enumerate() {
            let from = lowest + row * together;
            if from > highest {
                break;
            }
            let scale = format!("{:>8} ", grouped(lower_us(from)));
            buffer.set_stringn(area.x, y, scale, usize::from(area.width), Style::new().dim());
            for (x, column) in (area.left() + SCALE.min(area.width)..area.right()).zip(shown()) {
                let count: u64 = column.iter().skip(from).take(together).map(|count| u64::from(*count)).sum();
                let all: u64 = column.iter().map(|count| u64::from(*count)).sum();
                let share = count as f64 / all as f64;
                if let Some((_, symbol, color)) = LEVELS.iter().find(|(from, ..)| count > 0 && share >= *from)
                {
                    buffer[(x, y)].set_symbol(symbol).set_fg(*color);
                }
            }
        }
    }
}

fn bucket(ns: u64) -> usize {
    let octaves = (ns as f64 / 1e3).max(1.0).log2();
    ((octaves * PER_OCTAVE) as usize).min(BUCKETS - 1)
}

/// The shortest latency of a bucket.
fn lower_us(bucket: usize) -> f64 {
    (bucket as f64 / PER_OCTAVE).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::histogram::histogram;

    #[test]
    fn buckets_are_half_octaves() {
        for (us, wanted_us) in [(0.2, 1.0), (1.0, 1.0), (1.5, 2_f64.sqrt()), (2.1, 2.0), (1_025.0, 1024.0)] {
            let lower_us = lower_us(bucket((us * 1e3) as u64));
            assert!((lower_us - wanted_us).abs() < 0.01, "{us}: {lower_us}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_cell_says_how_many_of_a_second_were_so_slow() {
        let mut heat = Heat::default();
        for slow in [0, 50, 5] {
            let mut latency_ns = histogram();
            latency_ns.record_n(40_000, 2_000 - slow).expect("in range");
            latency_ns.record_n(700_000, slow).expect("in range");
            heat.push(Some(&latency_ns));
        }
        heat.push(Some(&histogram()));
        let mut one = histogram();
        one.record_n(40_000, 9_999).expect("in range");
        one.record(90_000).expect("in range");
        heat.push(Some(&one));
        let shown = |rows: u16, columns: u16| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
            heat.draw(buffer.area, &mut buffer);
            let row = |cells: &[ratatui::buffer::Cell]| {
                cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
            };
            buffer.content().chunks(usize::from(columns)).map(row).collect::<Vec<String>>()
        };
        // From 32 µs to 724 µs there are nine buckets: two of them in a row, and the lowest at the bottom.
        assert_eq!(
            shown(6, 16),
            ["", "     512   ▓▒", "     256", "     128", "      64      ░", "      32  ███ █"]
        );
        assert_eq!(shown(6, 11)[5], "      32  █", "the latest of more than there is room for");
        assert_eq!(shown(1, 16), ["      32  ███ █"]);
        shown(3, 4);
        let mut nothing = Buffer::empty(Rect::new(0, 0, 20, 2));
        Heat::default().draw(nothing.area, &mut nothing);
        assert!(nothing.content().iter().all(|cell| cell.symbol() == " "));
    }
}
