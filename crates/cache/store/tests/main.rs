//! A store from outside: against a model, between threads, in bytes of memory.

mod cas;
mod density;
mod index_memory;
mod joining;
mod loading;
mod manifest;
mod model;
mod policies;
mod receiving;
mod shares;
mod shortage;
mod threads;
mod unused;
