//! A member of native/raft: its log and disk, and its messages in raft-rs's form, which all members speak here.

use raft::eraftpb::{Entry, Message, MessageType};
use std::collections::VecDeque;
use std::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Disk {
    peer: u64,
    disk: u64,
}

/// As raft_message_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Flat {
    subject: u32,
    from: Disk,
    to: Disk,
    term: u64,
    index: u64,
    log_term: u64,
    entry_term: u64,
    count: u32,
    patience: u8,
    granted: bool,
    handover: bool,
    rests: bool,
    full: bool,
    commit: u64,
    refused: u64,
    stamp: i64,
    config_count: u32,
    configs: *const c_void,
}

/// As raft_output_t.
#[repr(C)]
struct Output {
    action: u32,
    kind: u32,
    write: u64,
    after: u64,
    from: u64,
    upto: u64,
    term: u64,
    vote: Disk,
    patience: u8,
    to: Disk,
    message: Flat,
}

extern "C" {
    fn shim_start(
        peer: u64,
        voters: u64,
        term: u64,
        vote: u64,
        base: u64,
        base_term: u64,
        terms: *const u64,
        count: u64,
        seed: u64,
        now: i64,
    ) -> *mut c_void;
    fn shim_end(shim: *mut c_void);
    fn shim_tick(shim: *mut c_void, now: i64);
    fn shim_receive(shim: *mut c_void, message: *const Flat, now: i64);
    fn shim_persisted(shim: *mut c_void, write: u64, now: i64);
    fn shim_propose(shim: *mut c_void, count: u32) -> bool;
    fn shim_transfer(shim: *mut c_void, to: u64, now: i64);
    fn shim_copied(shim: *mut c_void, index: u64, term: u64) -> bool;
    fn shim_compact(shim: *mut c_void, index: u64);
    fn shim_next(shim: *mut c_void, next: *mut Output, now: i64) -> bool;
    fn shim_leads(shim: *const c_void) -> bool;
    fn shim_term(shim: *const c_void) -> u64;
    fn shim_commit(shim: *const c_void) -> u64;
}

const PREVOTE: u32 = 1;
const PREVOTED: u32 = 2;
const VOTE: u32 = 3;
const VOTED: u32 = 4;
const ENTRIES: u32 = 5;
const TAKEN: u32 = 6;
const HANDOVER: u32 = 7;
const BEAT_STAMP: i64 = 1; // an answer to that is one to raft-rs's heartbeat
pub const TRANSFER: &[u8] = b"CampaignTransfer"; // raft-rs's mark on a request for votes

/// What a disk has.
#[derive(Clone, Default)]
struct Stored {
    term: u64,
    vote: u64,
    base: u64,
    base_term: u64,
    log: Vec<(u64, u64)>, // term and value of base+1..
}

enum Write {
    Save(u64, u64),
    Cut(u64),
    Append(Vec<(u64, u64)>),
    Reset(u64, u64),
}

impl Stored {
    fn last(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    fn at(&self, index: u64) -> (u64, u64) {
        self.log[(index - self.base - 1) as usize]
    }

    fn take(&mut self, write: &Write) {
        match write {
            Write::Save(term, vote) => (self.term, self.vote) = (*term, *vote),
            Write::Cut(behind) => self.log.truncate((behind - self.base) as usize),
            Write::Append(entries) => self.log.extend(entries),
            Write::Reset(index, term) => {
                (self.base, self.base_term) = (*index, *term);
                self.log.clear();
            }
        }
    }
}

pub struct Ours {
    peer: u64,
    voters: u64,
    shim: *mut c_void,
    now: Stored,
    disk: Stored,
    writes: VecDeque<(u64, Write)>,
    waiting: Vec<(u64, Message)>, // for a write
    applied: u64,
    values: Vec<u64>,               // of entries that are proposed
    incoming: Vec<(u64, u64, u64)>, // index, term, value
    pub sent: Vec<Message>,
    pub committed: Vec<(u64, u64, u64)>,
}

impl Ours {
    pub fn new(peer: u64, voters: u64) -> Ours {
        Ours {
            peer,
            voters,
            shim: std::ptr::null_mut(),
            now: Stored::default(),
            disk: Stored::default(),
            writes: VecDeque::new(),
            waiting: Vec::new(),
            applied: 0,
            values: Vec::new(),
            incoming: Vec::new(),
            sent: Vec::new(),
            committed: Vec::new(),
        }
    }

    pub fn start(&mut self, seed: u64, now: i64) {
        let terms: Vec<u64> = self.disk.log.iter().map(|entry| entry.0).collect();
        let d = &self.disk;
        self.shim = unsafe {
            shim_start(
                self.peer,
                self.voters,
                d.term,
                d.vote,
                d.base,
                d.base_term,
                terms.as_ptr(),
                terms.len() as u64,
                seed | 1,
                now,
            )
        };
        self.now = self.disk.clone();
        self.applied = self.disk.base;
    }

    /// The first `kept` writes are on the disk, the others are lost.
    pub fn crash(&mut self, kept: usize) {
        for (_, write) in self.writes.drain(..).take(kept) {
            self.disk.take(&write);
        }
        self.writes.clear();
        self.waiting.clear();
        self.sent.clear();
        unsafe { shim_end(self.shim) };
    }

    pub fn writes(&self) -> usize {
        self.writes.len()
    }

    pub fn leads(&self) -> bool {
        unsafe { shim_leads(self.shim) }
    }

    pub fn term(&self) -> u64 {
        unsafe { shim_term(self.shim) }
    }

    pub fn tick(&mut self, now: i64) {
        unsafe { shim_tick(self.shim, now) };
        self.drain(now);
    }

    pub fn persist(&mut self, count: usize, now: i64) {
        let mut number = 0;
        for (write_number, write) in self.writes.drain(..count) {
            self.disk.take(&write);
            number = write_number;
        }
        let (free, waiting) = self.waiting.drain(..).partition(|(after, _)| *after <= number);
        self.waiting = waiting;
        let free: Vec<(u64, Message)> = free;
        self.sent.extend(free.into_iter().map(|(_, message)| message));
        unsafe { shim_persisted(self.shim, number, now) };
        self.drain(now);
    }

    pub fn propose(&mut self, value: u64, now: i64) -> bool {
        self.values.push(value);
        let done = unsafe { shim_propose(self.shim, 1) };
        self.drain(now);
        self.values.clear();
        done
    }

    pub fn transfer(&mut self, to: u64, now: i64) {
        unsafe { shim_transfer(self.shim, to, now) };
    }

    pub fn compact(&mut self) {
        let upto = unsafe { shim_commit(self.shim) };
        if upto <= self.now.base || !self.writes.is_empty() {
            return;
        }
        unsafe { shim_compact(self.shim, upto) };
        for stored in [&mut self.now, &mut self.disk] {
            stored.base_term = stored.at(upto).0;
            stored.log.drain(..(upto - stored.base) as usize);
            stored.base = upto;
        }
    }

    fn drain(&mut self, now: i64) {
        let mut output = std::mem::MaybeUninit::<Output>::uninit();
        while unsafe { shim_next(self.shim, output.as_mut_ptr(), now) } {
            let out = unsafe { output.assume_init_ref() };
            match out.action {
                1 => self.write(out.write, Write::Save(out.term, out.vote.peer)),
                2 => self.write(out.write, Write::Cut(out.from)),
                3 => {
                    let leads = self.leads();
                    let entry = |index: u64| {
                        if leads {
                            (
                                out.term,
                                if out.kind == 0 {
                                    self.values[(index - out.from) as usize]
                                } else {
                                    0
                                },
                            )
                        } else {
                            let found = self.incoming.iter().find(|entry| entry.0 == index).unwrap();
                            (found.1, found.2)
                        }
                    };
                    let entries = (out.from..=out.upto).map(entry).collect();
                    self.write(out.write, Write::Append(entries));
                }
                4 => {
                    self.write(out.write, Write::Reset(out.from, out.term));
                    self.applied = out.from;
                }
                5 => {
                    let message = self.message(&out.message);
                    if out.after == 0 || self.writes.front().map_or(true, |first| out.after < first.0) {
                        self.sent.push(message);
                    } else {
                        self.waiting.push((out.after, message));
                    }
                }
                6 => {
                    for index in self.applied + 1..=out.upto {
                        let (term, value) = self.now.at(index);
                        self.committed.push((index, term, value));
                    }
                    self.applied = out.upto;
                }
                8 => self.copy(out.to.peer),
                _ => {}
            }
        }
        self.incoming.clear();
    }

    fn write(&mut self, number: u64, write: Write) {
        self.now.take(&write);
        self.writes.push_back((number, write));
    }

    fn copy(&mut self, to: u64) {
        let mut message = self.empty(MessageType::MsgSnapshot, to);
        let metadata = message.mut_snapshot().mut_metadata();
        metadata.index = self.applied;
        metadata.term = if self.applied == self.now.base {
            self.now.base_term
        } else {
            self.now.at(self.applied).0
        };
        let voters = (1..10).filter(|peer| self.voters >> peer & 1 != 0).collect();
        metadata.mut_conf_state().set_voters(voters);
        self.sent.push(message);
    }

    fn empty(&self, subject: MessageType, to: u64) -> Message {
        let mut message = Message::default();
        message.set_msg_type(subject);
        (message.from, message.to, message.term) = (self.peer, to, self.term());
        message
    }

    /// One of ours, as raft-rs says it.
    fn message(&self, flat: &Flat) -> Message {
        let subject = match flat.subject {
            PREVOTE => MessageType::MsgRequestPreVote,
            PREVOTED => MessageType::MsgRequestPreVoteResponse,
            VOTE => MessageType::MsgRequestVote,
            VOTED => MessageType::MsgRequestVoteResponse,
            ENTRIES => MessageType::MsgAppend,
            TAKEN if flat.stamp == BEAT_STAMP => MessageType::MsgHeartbeatResponse,
            TAKEN => MessageType::MsgAppendResponse,
            HANDOVER => MessageType::MsgTimeoutNow,
            other => panic!("subject {other}"),
        };
        let mut message = self.empty(subject, flat.to.peer);
        (message.term, message.index, message.log_term) = (flat.term, flat.index, flat.log_term);
        message.commit = flat.commit;
        match flat.subject {
            PREVOTED | VOTED => message.reject = !flat.granted,
            VOTE if flat.handover => message.context = TRANSFER.to_vec().into(),
            TAKEN if !flat.granted => {
                message.reject = true;
                (message.index, message.reject_hint) = (flat.refused, flat.index);
            }
            ENTRIES => {
                for index in flat.index + 1..=flat.index + u64::from(flat.count) {
                    let (term, value) = self.now.at(index);
                    let mut entry = Entry {
                        term,
                        index,
                        ..Default::default()
                    };
                    if value != 0 {
                        entry.data = value.to_be_bytes().to_vec().into();
                    }
                    message.entries.push(entry);
                }
            }
            _ => {}
        }
        message
    }

    /// One of raft-rs's, as ours are: entries of several terms are several messages.
    pub fn receive(&mut self, message: &Message, now: i64) {
        let (peer, from) = (self.peer, message.from);
        let flat = |subject: u32| Flat {
            subject,
            from: Disk { peer: from, disk: from },
            to: Disk { peer, disk: peer },
            term: message.term,
            index: message.index,
            log_term: message.log_term,
            entry_term: 0,
            count: 0,
            patience: 0,
            granted: !message.reject,
            handover: &message.context[..] == TRANSFER,
            rests: false,
            full: false,
            commit: message.commit,
            refused: 0,
            stamp: 0,
            config_count: 0,
            configs: std::ptr::null(),
        };
        let one = match message.get_msg_type() {
            MessageType::MsgRequestPreVote => flat(PREVOTE),
            MessageType::MsgRequestPreVoteResponse => flat(PREVOTED),
            MessageType::MsgRequestVote => flat(VOTE),
            MessageType::MsgRequestVoteResponse => flat(VOTED),
            MessageType::MsgTimeoutNow => flat(HANDOVER),
            // (It says nothing of what fits: a beat that fits any log.)
            MessageType::MsgHeartbeat => Flat {
                index: 0,
                log_term: 0,
                commit: 0,
                stamp: BEAT_STAMP,
                ..flat(ENTRIES)
            },
            MessageType::MsgAppendResponse if message.reject => Flat {
                index: message.reject_hint,
                refused: message.index,
                ..flat(TAKEN)
            },
            MessageType::MsgAppendResponse => flat(TAKEN),
            MessageType::MsgAppend => return self.receive_entries(message, flat(ENTRIES), now),
            MessageType::MsgSnapshot => return self.receive_copy(message, flat(ENTRIES), now),
            _ => return,
        };
        self.step(one, now);
    }

    fn step(&mut self, flat: Flat, now: i64) {
        unsafe { shim_receive(self.shim, &flat, now) };
        self.drain(now);
    }

    fn receive_entries(&mut self, message: &Message, mut flat: Flat, now: i64) {
        let mut left: &[Entry] = &message.entries;
        loop {
            let term = left.first().map_or(0, |entry| entry.term);
            let count = left.iter().take_while(|entry| entry.term == term).count();
            let (run, rest) = left.split_at(count);
            self.incoming = run
                .iter()
                .map(|entry| (entry.index, entry.term, value_of(entry)))
                .collect();
            self.step(
                Flat {
                    count: count as u32,
                    entry_term: term,
                    ..flat
                },
                now,
            );
            (flat.index, flat.log_term) = (flat.index + count as u64, term);
            left = rest;
            if left.is_empty() {
                return;
            }
        }
    }

    /// It comes from a leader: that is heard by the beat that comes with it.
    fn receive_copy(&mut self, message: &Message, flat: Flat, now: i64) {
        self.step(
            Flat {
                index: 0,
                log_term: 0,
                commit: 0,
                stamp: BEAT_STAMP,
                ..flat
            },
            now,
        );
        if message.term < self.term() {
            return;
        }
        let metadata = message.get_snapshot().get_metadata();
        if unsafe { shim_copied(self.shim, metadata.index, metadata.term) } {
            return self.drain(now);
        }
        self.drain(now);
        // It was not needed: raft-rs waits for an answer all the same.
        let mut answer = self.empty(MessageType::MsgAppendResponse, message.from);
        answer.index = unsafe { shim_commit(self.shim) };
        self.sent.push(answer);
    }

    pub fn last(&self) -> u64 {
        self.now.last()
    }
}

pub fn value_of(entry: &Entry) -> u64 {
    entry.data[..].try_into().map_or(0, u64::from_be_bytes)
}
