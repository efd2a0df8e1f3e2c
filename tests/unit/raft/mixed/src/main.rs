//! Groups in which members of native/raft and of raft-rs lead and follow each other, whatever happens to messages,
//! disks and members: by chance, a seed a schedule. `mixed FIRST COUNT` runs so many; the first fault ends it.
//!
//! After each step: a term has one leader, and what is committed at an index is the same wherever it is. In the end all
//! is healed, and an entry of each leader has to be committed.

mod ours;
mod theirs;

use ours::Ours;
use raft::eraftpb::{Message, MessageType};
use std::collections::HashMap;
use theirs::Theirs;

const MS: i64 = 1_000_000;
const STEPS: u32 = 4000;
const BAG_MAX: usize = 120;

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) * limit >> 32
    }
}

enum Kind {
    Ours(Ours),
    Theirs(Theirs),
}

struct Member {
    kind: Kind,
    alive: bool,
}

#[derive(Default)]
struct Totals {
    led_by_ours: u64,
    led_by_theirs: u64,
    committed: u64,
    crashes: u64,
    copies: u64,
}

struct Group {
    chance: Chance,
    now: i64,
    members: Vec<Member>,
    bag: Vec<Message>,
    cut: Vec<(u64, u64)>,
    calm: bool,
    loss: u64,   // of a hundred messages
    unrest: u64, // of 16: how often something breaks
    hurry: bool, // longer steps of time
    values: u64,
    leaders: HashMap<u64, usize>,
    committed: HashMap<u64, (u64, u64)>,
    totals: Totals,
    fault: Option<String>,
}

impl Group {
    fn new(seed: u64) -> Group {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            chance.below(2);
        }
        let count = 3 + 2 * chance.below(2);
        let voters: Vec<u64> = (1..=count).collect();
        let bits = voters.iter().fold(0, |bits, peer| bits | 1 << peer);
        let split = 1 + chance.below(count - 1); // at least one of each
        let kind = |peer: &u64| {
            if *peer <= split {
                Kind::Ours(Ours::new(*peer, bits))
            } else {
                Kind::Theirs(Theirs::new(*peer, &voters))
            }
        };
        let members = voters
            .iter()
            .map(|peer| Member {
                kind: kind(peer),
                alive: false,
            })
            .collect();
        let loss = [3, 10, 30][chance.below(3) as usize];
        let (unrest, hurry) = (1 + chance.below(16), chance.below(2) == 0);
        let mut group = Group {
            chance,
            now: 1000 * MS,
            members,
            bag: Vec::new(),
            cut: Vec::new(),
            calm: false,
            loss,
            unrest,
            hurry,
            values: 0,
            leaders: HashMap::new(),
            committed: HashMap::new(),
            totals: Totals::default(),
            fault: None,
        };
        (0..group.members.len()).for_each(|at| group.start(at));
        group
    }

    fn start(&mut self, at: usize) {
        let (seed, patience) = (self.chance.0, self.chance.below(15) as usize);
        let member = &mut self.members[at];
        member.alive = true;
        match &mut member.kind {
            Kind::Ours(one) => one.start(seed, self.now),
            Kind::Theirs(one) => one.start(patience, self.now),
        }
    }

    fn crash(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.alive = false;
        self.totals.crashes += 1;
        match &mut member.kind {
            Kind::Ours(one) => {
                let kept = self.chance.below(one.writes() as u64 + 1) as usize;
                one.crash(kept);
            }
            Kind::Theirs(one) => one.crash(),
        }
    }

    fn leads(&self, at: usize) -> bool {
        self.members[at].alive
            && match &self.members[at].kind {
                Kind::Ours(one) => one.leads(),
                Kind::Theirs(one) => one.leads(),
            }
    }

    /// What a member has sent and committed since, and whether it leads.
    fn look(&mut self, at: usize) {
        let member = &mut self.members[at];
        let (sent, committed, term) = match &mut member.kind {
            Kind::Ours(one) => (
                std::mem::take(&mut one.sent),
                std::mem::take(&mut one.committed),
                one.term(),
            ),
            Kind::Theirs(one) => (
                std::mem::take(&mut one.sent),
                std::mem::take(&mut one.committed),
                one.term(),
            ),
        };
        for message in sent {
            if self.bag.len() == BAG_MAX {
                let lost = self.chance.below(BAG_MAX as u64) as usize;
                let lost = self.bag.swap_remove(lost);
                self.copy_went(&lost, false);
            }
            self.bag.push(message);
        }
        for (index, term, value) in committed {
            let first = *self.committed.entry(index).or_insert_with(|| {
                self.totals.committed += 1;
                (term, value)
            });
            if first != (term, value) {
                self.fault = Some(format!(
                    "entry {index} is {first:?} and, at member {}, {:?}",
                    at + 1,
                    (term, value)
                ));
            }
        }
        if self.leads(at) {
            let ours = matches!(self.members[at].kind, Kind::Ours(_));
            let leader = *self.leaders.entry(term).or_insert_with(|| {
                *(if ours {
                    &mut self.totals.led_by_ours
                } else {
                    &mut self.totals.led_by_theirs
                }) += 1;
                at
            });
            if leader != at {
                self.fault = Some(format!("term {term} is led by {} and {}", leader + 1, at + 1));
            }
        }
    }

    fn copy_went(&mut self, message: &Message, well: bool) {
        if message.get_msg_type() != MessageType::MsgSnapshot {
            return;
        }
        self.totals.copies += well as u64;
        let from = &mut self.members[message.from as usize - 1];
        if let (true, Kind::Theirs(one)) = (from.alive, &mut from.kind) {
            one.copy_went(message.to, well);
        }
    }

    fn deliver(&mut self) {
        if self.bag.is_empty() {
            return;
        }
        let last = self.bag.len() as u64 - 1;
        let place = if self.calm {
            0
        } else if self.chance.below(3) == 0 {
            self.chance.below(last + 1)
        } else {
            0
        };
        let again = !self.calm && self.chance.below(100) < 4;
        let message = if again {
            self.bag[place as usize].clone()
        } else {
            self.bag.remove(place as usize)
        };
        let lost = !self.calm && (self.chance.below(100) < self.loss || self.cut.contains(&(message.from, message.to)));
        let at = message.to as usize - 1;
        let arrives = !lost && self.members[at].alive;
        if !again {
            self.copy_went(&message, arrives);
        }
        if !arrives {
            return;
        }
        match &mut self.members[at].kind {
            Kind::Ours(one) => one.receive(&message, self.now),
            Kind::Theirs(one) => one.receive(&message),
        }
        self.look(at);
    }

    fn persist(&mut self, at: usize, all: bool) {
        if !self.members[at].alive {
            return;
        }
        match &mut self.members[at].kind {
            Kind::Ours(one) if one.writes() != 0 => {
                let some = 1 + self.chance.below(one.writes() as u64) as usize;
                let count = if all { one.writes() } else { some };
                one.persist(count, self.now);
            }
            Kind::Ours(_) => return,
            Kind::Theirs(one) => one.process(),
        }
        self.look(at);
    }

    fn pass(&mut self, time: i64) {
        self.now += time;
        for at in 0..self.members.len() {
            if !self.members[at].alive || (!self.calm && self.chance.below(16) == 0) {
                continue;
            }
            match &mut self.members[at].kind {
                Kind::Ours(one) => one.tick(self.now),
                Kind::Theirs(one) => one.tick(self.now),
            }
            self.look(at);
        }
    }

    fn propose(&mut self) {
        let count = self.members.len();
        let first = self.chance.below(count as u64) as usize;
        let Some(at) = (0..count).map(|i| (first + i) % count).find(|at| self.leads(*at)) else {
            return;
        };
        self.values += 1;
        match &mut self.members[at].kind {
            Kind::Ours(one) => one.propose(self.values, self.now),
            Kind::Theirs(one) => one.propose(self.values),
        };
        self.look(at);
    }

    fn trouble(&mut self) {
        let count = self.members.len() as u64;
        let at = self.chance.below(count) as usize;
        match self.chance.below(10) {
            0 | 1 => {
                let leader = (0..count as usize).find(|at| self.leads(*at)).unwrap_or(at);
                if self.members[leader].alive {
                    self.crash(leader);
                }
            }
            2 if self.members[at].alive => self.crash(at),
            3 | 4 => {
                let side = self.chance.below(1 << (count + 1));
                let one_way = self.chance.below(3) == 0;
                let pairs = (1..=count).flat_map(|from| (1..=count).map(move |to| (from, to)));
                let apart = |(from, to): &(u64, u64)| side >> from & 1 != side >> to & 1;
                self.cut = pairs
                    .filter(|pair| apart(pair) && (!one_way || side >> pair.0 & 1 == 1))
                    .collect();
            }
            5 | 6 => self.cut.clear(),
            7 if self.leads(at) => {
                let to = 1 + self.chance.below(count);
                match &mut self.members[at].kind {
                    Kind::Ours(one) => one.transfer(to, self.now),
                    Kind::Theirs(one) => one.transfer(to),
                }
            }
            8 | 9 if self.members[at].alive => match &mut self.members[at].kind {
                Kind::Ours(one) => one.compact(),
                Kind::Theirs(one) => one.compact(),
            },
            _ => {}
        }
    }

    fn step(&mut self) {
        let at = self.chance.below(self.members.len() as u64) as usize;
        match self.chance.below(100) {
            0..=54 => self.deliver(),
            55..=74 => self.persist(at, false),
            75..=84 => {
                let time = [30, 100, 300, 1200][self.chance.below(if self.hurry { 4 } else { 3 }) as usize];
                self.pass(time * MS);
            }
            85..=92 => self.propose(),
            93..=96 => {
                if self.chance.below(16) < self.unrest {
                    self.trouble();
                }
            }
            _ => {
                if !self.members[at].alive {
                    self.start(at);
                }
            }
        }
    }

    /// All is well: within a minute something more is committed everywhere.
    fn heal(&mut self) {
        self.calm = true;
        for at in 0..self.members.len() {
            if !self.members[at].alive {
                self.start(at);
            }
        }
        let before = self.totals.committed;
        for round in 0..1200 {
            self.pass(50 * MS);
            if round % 8 == 0 {
                self.propose();
            }
            for i in 0..60 {
                self.deliver();
                self.persist(i % self.members.len(), true);
                if self.fault.is_some() {
                    return;
                }
            }
            if self.totals.committed > before + 4 {
                return;
            }
        }
        let lasts: Vec<u64> = self
            .members
            .iter()
            .map(|member| match &member.kind {
                Kind::Ours(one) => one.last(),
                Kind::Theirs(one) => one.last(),
            })
            .collect();
        self.fault = Some(format!("a group that is well does not move; logs end at {lasts:?}"));
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.fault.is_some() {
                return;
            }
        }
        self.heal();
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let (first, count) = (numbers[0], numbers[1]);
    let mut sum = Totals::default();
    for seed in first..first + count {
        let mut group = Group::new(seed);
        group.run();
        if let Some(fault) = group.fault {
            println!("seed {seed}: {fault}");
            std::process::exit(1);
        }
        sum.led_by_ours += group.totals.led_by_ours;
        sum.led_by_theirs += group.totals.led_by_theirs;
        sum.committed += group.totals.committed;
        sum.crashes += group.totals.crashes;
        sum.copies += group.totals.copies;
    }
    println!(
        "{count} schedules: {} elections won by ours, {} by theirs, {} entries committed, {} crashes, {} copies",
        sum.led_by_ours, sum.led_by_theirs, sum.committed, sum.crashes, sum.copies
    );
}
