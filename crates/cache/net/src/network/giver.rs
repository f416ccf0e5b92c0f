//! Connections that leave a network one by one while it serves, and those that come to one that serves.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::net::getpeername;

use crate::handler::{Arrival, ConnectionId, Origin};
use crate::network::Stop;
use crate::network::dealer::Dealer;
use crate::network::departure::wait;
use crate::network::handed::HandedConnection;
use crate::network::limit::ConnectionLimit;
use crate::network::message_queue::{MessageQueue, WorkerMessage};
use crate::network::view::View;
use crate::network::worker_choice::WorkerChoice;
use crate::secure::handshakes::HandshakeCounters;
use crate::sockets::address::Transport;
use crate::sockets::listener::{Listener, local_address, peer_address};

/// Time for the acceptor to end its round.
const ACCEPTOR_PATIENCE: Duration = Duration::from_secs(1);

/// Gives the connections of a network away, each as soon as it is at rest: another network serves at the same listeners. Cheap to clone.
#[derive(Clone)]
pub struct Giver {
    stop: Stop,
    limit: Arc<ConnectionLimit>,
    handshakes: Arc<HandshakeCounters>,
    intake: Intake,
}

impl Giver {
    pub(crate) fn new(stop: Stop, view: &View, intake: Intake) -> Giver {
        let (limit, handshakes) = (Arc::clone(&view.limit), Arc::clone(&view.handshakes));
        Giver { stop, limit, handshakes, intake }
    }

    /// Accepts nothing from now on, and gives away what is at rest. Handlers are told ([`crate::Handler::leave`]). `None`: the acceptor does
    /// not answer, and nothing has changed.
    ///
    /// TLS sessions cannot leave their process: they are closed when they are at rest.
    pub fn begin(&self) -> Option<Receiver<HandedConnection>> {
        self.limit.ask_to_hold(true);
        if !wait(ACCEPTOR_PATIENCE, || self.limit.holds()) {
            self.limit.ask_to_hold(false);
            return None;
        }
        let (give, given) = channel();
        self.stop.post(|| WorkerMessage::Give(Some(give.clone())));
        Some(given)
    }

    /// Connections that have not been given away, and those whose TLS handshakes go on. When there is none, all that were are in the channel.
    pub fn left(&self) -> usize {
        // In this order: a handshake that is over has become a connection.
        self.handshakes.pending() + self.limit.current()
    }

    /// Serves on, with what nobody has taken from the channel.
    pub fn give_up(&self, given: Receiver<HandedConnection>) {
        self.limit.ask_to_hold(false);
        self.stop.post(|| WorkerMessage::Give(None));
        // Until the last worker knows.
        self.intake.deal(given);
    }

    /// The way for connections of another network into this one.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }
}

/// Takes connections of another network. Cheap to clone; can be used from any thread, before the network serves and while it does.
#[derive(Clone)]
pub struct Intake {
    /// By the number of the listener; `None` for datagrams.
    listeners: Arc<[Option<Listener>]>,
    message_queues: Arc<[Arc<MessageQueue>]>,
    choice: Arc<WorkerChoice>,
    limit: Arc<ConnectionLimit>,
}

impl Intake {
    pub(crate) fn new(
        listeners: Arc<[Option<Listener>]>,
        message_queues: Arc<[Arc<MessageQueue>]>,
        choice: Arc<WorkerChoice>,
        limit: Arc<ConnectionLimit>,
    ) -> Intake {
        Intake { listeners, message_queues, choice, limit }
    }

    /// Gives them to the workers. The listener of each is a place of this network.
    pub fn deal(&self, connections: impl IntoIterator<Item = HandedConnection>) {
        let mut dealer = Dealer::new(self.message_queues.to_vec(), 0, Arc::clone(&self.choice));
        for handed in connections {
            let Some(Some(listener)) = self.listeners.get(usize::from(handed.listener)) else { continue };
            let peer = getpeername(&handed.socket).ok().flatten();
            let arrival = Arrival {
                id: ConnectionId(self.limit.connection_opened()),
                origin: Origin::Accepted { listener: handed.listener },
                transport: if listener.is_unix() { Transport::Unix } else { Transport::Tcp },
                peer: peer_address(peer, listener),
                local: local_address(&handed.socket, listener),
                security: None,
            };
            dealer.deal(WorkerMessage::Handed(handed, arrival));
            dealer.post();
        }
    }
}
