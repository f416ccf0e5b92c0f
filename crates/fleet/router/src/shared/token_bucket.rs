//! Token buckets: how many events may happen, at a rate with bursts.

/// Tokens that come at a rate, up to a limit. `now` counts in the unit that the rate is per: seconds, or requests.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    rate: f64,
    burst: f64,
    /// When there were no tokens, if they had come at the rate since.
    empty_at: f64,
}

impl TokenBucket {
    /// Empty at `empty_at`, of which an earlier time makes a bucket that has tokens already.
    pub(crate) fn new(rate: f64, burst: f64, empty_at: f64) -> TokenBucket {
        TokenBucket { rate, burst, empty_at }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: f64) -> bool {
        let tokens = ((now - self.empty_at) * self.rate).min(self.burst);
        let has_one = tokens >= 1.0;
        if has_one {
            self.empty_at = now - (tokens - 1.0) / self.rate;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &mut TokenBucket, now: f64) -> usize {
        (0..10_000).take_while(|_| bucket.take(now)).count()
    }

    #[test]
    fn tokens_come_at_the_rate_up_to_the_burst() {
        // Powers of two, so that nothing is rounded.
        let mut bucket = TokenBucket::new(8.0, 16.0, 100.0);
        assert_eq!(taken(&mut bucket, 100.0), 0, "it begins empty");
        assert_eq!(taken(&mut bucket, 100.5), 4);
        assert_eq!(taken(&mut bucket, 100.5), 0);
        assert_eq!(taken(&mut bucket, 1000.0), 16);
        assert_eq!(taken(&mut bucket, 999.0), 0, "time that goes back gives nothing");
        assert_eq!(taken(&mut bucket, 1000.1875), 1, "half a token is kept");
        assert_eq!(taken(&mut bucket, 1000.25), 1);
    }

    #[test]
    fn without_a_rate_or_room_for_a_token_there_is_none() {
        assert_eq!(taken(&mut TokenBucket::new(0.0, 1000.0, -1e6), 1e9), 0);
        assert_eq!(taken(&mut TokenBucket::new(5.0, 0.5, 0.0), 1e9), 0);
    }
}
