//! Changes as conversations.
