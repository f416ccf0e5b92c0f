//! The control plane from outside: register, rights, handshakes.

mod handshakes;
mod register;
mod rights;
