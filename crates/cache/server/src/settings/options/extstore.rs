//! Settings of memcached's extstore, as the command line and the command `extstore` give them, and their meaning here.

use protocol::request::ExtstoreKnob;
use store::FlashSettings;

/// What `extstore` may change. `stats settings` returns all of it as given; not all has an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtstoreSettings {
    /// `item_size`, in bytes
    pub item_size: u32,
    /// `item_age`, in seconds: without effect
    pub item_age_s: u32,
    /// `low_ttl`, in seconds
    pub low_ttl_s: u32,
    /// `recache_rate`
    pub recache_rate: u32,
    /// `compact_under`, in pages; 0: a share of all
    pub compact_under: u32,
    /// `drop_under`, in pages
    pub drop_under: u32,
    /// `max_sleep`: without effect
    pub max_sleep_us: u32,
    /// `max_frag`, a share of a page; `None`: not given
    pub max_frag: Option<f64>,
    /// `drop_unread`: without effect
    pub drop_unread: bool,
    /// `write_rate`, in megabytes per second: not memcached's
    pub write_rate_mb_s: f64,
}

impl Default for ExtstoreSettings {
    fn default() -> ExtstoreSettings {
        let FlashSettings { item_size_min, low_ttl_s, recache_rate, free_min, .. } = FlashSettings::default();
        ExtstoreSettings {
            item_size: item_size_min,
            item_age_s: u32::MAX,
            low_ttl_s,
            recache_rate,
            compact_under: free_min,
            drop_under: free_min,
            max_sleep_us: 1_000_000,
            max_frag: None,
            drop_unread: false,
            write_rate_mb_s: 0.0,
        }
    }
}

impl ExtstoreSettings {
    /// Stores a setting of the command.
    pub fn set(&mut self, knob: ExtstoreKnob) {
        match knob {
            ExtstoreKnob::FreeMemchunks => {}
            ExtstoreKnob::ItemSize(bytes) => self.item_size = bytes,
            ExtstoreKnob::ItemAge(seconds) => self.item_age_s = seconds,
            ExtstoreKnob::LowTtl(seconds) => self.low_ttl_s = seconds,
            ExtstoreKnob::RecacheRate(rate) => self.recache_rate = rate,
            ExtstoreKnob::CompactUnder(pages) => self.compact_under = pages,
            ExtstoreKnob::DropUnder(pages) => self.drop_under = pages,
            ExtstoreKnob::MaxSleep(us) => self.max_sleep_us = us,
            ExtstoreKnob::MaxFragmentation(share) => self.max_frag = Some(share),
            ExtstoreKnob::DropUnread(on) => self.drop_unread = on,
            ExtstoreKnob::WriteRate(megabytes) => self.write_rate_mb_s = megabytes,
        }
    }

    /// `max_frag`: as given, or what holds without: here if there is a tier, and else in memcached.
    pub(super) fn max_frag(&self, has_tier: bool) -> f64 {
        let own = f64::from(FlashSettings::default().kept_max_percent) / 100.0;
        self.max_frag.unwrap_or(if has_tier { own } else { MAX_FRAG_DEFAULT })
    }

    /// What they mean for the tier. Items are written when memory is needed, whatever their age, and items that were not used
    /// are dropped in any case: nothing follows from `item_age` and `drop_unread`.
    pub fn flash(&self) -> FlashSettings {
        let default = FlashSettings::default();
        FlashSettings {
            item_size_min: self.item_size,
            low_ttl_s: self.low_ttl_s,
            recache_rate: self.recache_rate,
            // Pages that are emptied are freed of garbage and of unused items at once.
            free_min: self.compact_under.max(self.drop_under),
            kept_max_percent: self.max_frag.map_or(default.kept_max_percent, percent),
            write_rate: bytes_per_second(self.write_rate_mb_s),
        }
    }
}

/// memcached's.
const MAX_FRAG_DEFAULT: f64 = 0.8;

/// A share, in percent. Clients may send any number.
fn percent(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 100.0).round() as u32
}

/// What a rate in megabytes per second is in bytes. Clients may send any number.
fn bytes_per_second(megabytes: f64) -> u64 {
    match (megabytes * MB) as u64 {
        // Not none at all, which means any number.
        0 if megabytes > 0.0 => 1,
        bytes => bytes,
    }
}

/// As data sheets of disks count.
const MB: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_mean_those_of_the_tier() {
        assert_eq!(ExtstoreSettings::default().flash(), FlashSettings::default());
    }

    #[test]
    fn commands_change_what_the_tier_does() {
        let mut settings = ExtstoreSettings::default();
        for knob in [
            ExtstoreKnob::ItemSize(100),
            ExtstoreKnob::LowTtl(60),
            ExtstoreKnob::RecacheRate(7),
            ExtstoreKnob::CompactUnder(3),
            ExtstoreKnob::DropUnder(4),
            ExtstoreKnob::MaxFragmentation(0.5),
            ExtstoreKnob::WriteRate(1.5),
        ] {
            settings.set(knob);
        }
        let expected = FlashSettings {
            item_size_min: 100,
            low_ttl_s: 60,
            recache_rate: 7,
            free_min: 4,
            kept_max_percent: 50,
            write_rate: 1_500_000,
        };
        assert_eq!(settings.flash(), expected);
    }

    #[test]
    fn commands_without_a_meaning_here_change_nothing_of_the_tier() {
        let mut settings = ExtstoreSettings::default();
        for knob in [
            ExtstoreKnob::FreeMemchunks,
            ExtstoreKnob::ItemAge(1),
            ExtstoreKnob::MaxSleep(1),
            ExtstoreKnob::DropUnread(true),
        ] {
            settings.set(knob);
        }
        assert_eq!(settings.flash(), FlashSettings::default());
        assert_eq!((settings.item_age_s, settings.max_sleep_us, settings.drop_unread), (1, 1, true));
    }

    #[test]
    fn a_share_is_between_none_and_all() {
        let kept = |share| {
            let max_frag = Some(share);
            ExtstoreSettings { max_frag, ..ExtstoreSettings::default() }.flash().kept_max_percent
        };
        assert_eq!([-1.0, 0.0, 0.333, 1.0, 80.0, f64::NAN].map(kept), [0, 0, 33, 100, 100, 0]);
    }

    #[test]
    fn a_rate_is_none_or_at_least_one_byte() {
        let rates = [-1.0, 0.0, 1e-9, 11.6, f64::MAX, f64::NAN];
        assert_eq!(rates.map(bytes_per_second), [0, 0, 1, 11_600_000, u64::MAX, 0]);
    }
}
