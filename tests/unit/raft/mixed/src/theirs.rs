//! A member of raft-rs, with its own storage in memory: what it has ready is written all at once, or lost in a crash.

use crate::ours::value_of;
use raft::eraftpb::Message;
use raft::storage::MemStorage;
use raft::{Config, RawNode, SnapshotStatus, StateRole, Storage};

pub struct Theirs {
    peer: u64,
    storage: MemStorage,
    node: Option<RawNode<MemStorage>>,
    ticked: i64,
    pub sent: Vec<Message>,
    pub committed: Vec<(u64, u64, u64)>,
}

const TICK: i64 = 100_000_000;

impl Theirs {
    pub fn new(peer: u64, voters: &[u64]) -> Theirs {
        let storage = MemStorage::new_with_conf_state((voters.to_vec(), vec![]));
        Theirs {
            peer,
            storage,
            node: None,
            ticked: 0,
            sent: Vec::new(),
            committed: Vec::new(),
        }
    }

    /// patience: in ticks, above the least. raft-rs would draw it anew and by itself, and no schedule would come twice.
    pub fn start(&mut self, patience: usize, now: i64) {
        let config = Config {
            id: self.peer,
            election_tick: 15,
            min_election_tick: 15 + patience,
            max_election_tick: 16 + patience,
            heartbeat_tick: 2,
            pre_vote: true,
            check_quorum: true,
            max_size_per_msg: 1024,
            applied: self.storage.first_index().unwrap() - 1,
            ..Default::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        self.node = Some(RawNode::new(&config, self.storage.clone(), &logger).unwrap());
        self.ticked = now;
    }

    pub fn crash(&mut self) {
        self.node = None;
        self.sent.clear();
    }

    fn node(&mut self) -> &mut RawNode<MemStorage> {
        self.node.as_mut().unwrap()
    }

    pub fn leads(&self) -> bool {
        self.node.as_ref().unwrap().raft.state == StateRole::Leader
    }

    pub fn term(&self) -> u64 {
        self.node.as_ref().unwrap().raft.term
    }

    pub fn tick(&mut self, now: i64) {
        while self.ticked + TICK <= now {
            self.ticked += TICK;
            self.node().tick();
        }
    }

    pub fn propose(&mut self, value: u64) -> bool {
        self.node().propose(vec![], value.to_be_bytes().to_vec()).is_ok()
    }

    pub fn transfer(&mut self, to: u64) {
        self.node().transfer_leader(to);
    }

    pub fn receive(&mut self, message: &Message) {
        let _ = self.node().step(message.clone());
    }

    pub fn copy_went(&mut self, to: u64, well: bool) {
        self.node().report_snapshot(
            to,
            if well {
                SnapshotStatus::Finish
            } else {
                SnapshotStatus::Failure
            },
        );
    }

    pub fn compact(&mut self) {
        let applied = self.node().raft.raft_log.applied;
        if applied > self.storage.first_index().unwrap() {
            self.storage.wl().compact(applied).unwrap();
        }
    }

    /// Writes what is ready, and says what comes of it.
    pub fn process(&mut self) {
        if !self.node().has_ready() {
            return;
        }
        let mut ready = self.node().ready();
        self.sent.extend(ready.take_messages());
        if ready.snapshot().get_metadata().index != 0 {
            self.storage.wl().apply_snapshot(ready.snapshot().clone()).unwrap();
        }
        self.commit(ready.take_committed_entries());
        self.storage.wl().append(ready.entries()).unwrap();
        if let Some(state) = ready.hs() {
            self.storage.wl().set_hardstate(state.clone());
        }
        self.sent.extend(ready.take_persisted_messages());
        let mut light = self.node().advance(ready);
        if let Some(commit) = light.commit_index() {
            self.storage.wl().mut_hard_state().set_commit(commit);
        }
        self.sent.extend(light.take_messages());
        self.commit(light.take_committed_entries());
        self.node().advance_apply();
    }

    fn commit(&mut self, entries: Vec<raft::eraftpb::Entry>) {
        self.committed
            .extend(entries.iter().map(|entry| (entry.index, entry.term, value_of(entry))));
    }

    pub fn last(&self) -> u64 {
        self.node.as_ref().unwrap().raft.raft_log.last_index()
    }
}
