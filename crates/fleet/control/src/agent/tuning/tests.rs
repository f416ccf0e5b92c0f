//! An agent's tuner that a test plays.
