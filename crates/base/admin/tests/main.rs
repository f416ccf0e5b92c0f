//! HTTP from outside: for whoever watches, and for programs that want something done.

mod api;
mod http;
mod site;
