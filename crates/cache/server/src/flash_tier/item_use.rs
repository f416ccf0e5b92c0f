//! Uses that requests make of items that may be on flash.

use protocol::Request;
use protocol::base64::KeyBuffer;
use protocol::binary::{BinaryCommand, BinaryRequest};
use protocol::meta::MetaFlags;
use protocol::request::{SetMode, Verb};
use store::FlashUse;

use crate::commands::request::text_key;

/// Of a request with one key. `None`: it needs no item that is there, or removes it unseen, because nothing is said about it.
pub(crate) fn of_text(request: &Request<'_>) -> Option<FlashUse> {
    match request {
        Request::Get(get) if get.exptime.is_none() => Some(FlashUse::Value),
        Request::Get(_) | Request::Touch { .. } | Request::Arithmetic { .. } => Some(FlashUse::Item),
        Request::Store(store) => (store.verb != Verb::Set).then_some(FlashUse::Item),
        Request::MetaGet { flags, .. } => Some(of_meta_get(flags)),
        Request::MetaSet { flags, mode, .. } => {
            let is_plain = *mode == SetMode::Set && flags.compare_cas().is_none();
            (!is_plain).then_some(FlashUse::Item)
        }
        Request::MetaDelete { flags, .. } => {
            let keeps = flags.invalidate() || flags.drop_value() || flags.compare_cas().is_some();
            Some(if keeps { FlashUse::Item } else { FlashUse::Removal })
        }
        Request::Delete { noreply, .. } => (!noreply).then_some(FlashUse::Removal),
        Request::MetaArithmetic { .. } | Request::MetaDebug { .. } => Some(FlashUse::Item),
        _ => None,
    }
}

/// A request that may change the item has it in memory.
fn of_meta_get(flags: &MetaFlags<'_>) -> FlashUse {
    let changes = flags.exptime().is_some() || flags.vivify().is_some() || flags.recache().is_some();
    if changes { FlashUse::Item } else { FlashUse::Value }
}

/// Of a packet with a key.
pub(crate) fn of_packet(request: &BinaryRequest<'_>) -> Option<FlashUse> {
    match &request.command {
        BinaryCommand::Get { exptime: None, .. } => Some(FlashUse::Value),
        BinaryCommand::Get { .. } | BinaryCommand::Touch { .. } | BinaryCommand::Arithmetic { .. } => {
            Some(FlashUse::Item)
        }
        BinaryCommand::Store(store) => {
            let is_plain = store.mode == SetMode::Set && request.cas == 0;
            (!is_plain).then_some(FlashUse::Item)
        }
        BinaryCommand::Delete { .. } if request.cas != 0 => Some(FlashUse::Item),
        BinaryCommand::Delete { .. } => Some(FlashUse::Removal),
        _ => None,
    }
}

/// The key of a request with one key. `buffer` holds one that came in base64.
pub(crate) fn key_of<'b>(request: &Request<'b>, buffer: &'b mut KeyBuffer) -> Option<&'b [u8]> {
    if let Some(key) = text_key(request) {
        return Some(key);
    }
    match request {
        Request::MetaGet { key, .. }
        | Request::MetaSet { key, .. }
        | Request::MetaDelete { key, .. }
        | Request::MetaArithmetic { key, .. }
        | Request::MetaDebug { key } => Some(key.bytes(buffer)),
        _ => None,
    }
}
