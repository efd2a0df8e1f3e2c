------------------------------ MODULE Founding ------------------------------
(* The first members of a group: servers that know of each other, and of nothing else, agree on one list of disks.

   Paxos for one value. A ballot belongs to one disk of one server; each disk answers a ballot at most once, and what it
   has promised and accepted is on the disk before the answer leaves. What differs from the paper is who has to answer:

     Rule = "majority"   more than half of the servers that are expected, or of the list where that is longer
     Rule = "everyone"   each server of the list, and the list has at least as many servers as are expected

   A disk may be wiped, at any time: its server is then another disk, which knows nothing, and the disk before is gone.

   Not here: how members elect a leader and what they do with a log (native/raft).                                    *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Servers, Expected, Ballots, Wipes, Rule

None == <<0, {}>>

VARIABLES disk,      (* of each server: the number of its disk *)
          promised,  (* of each server's disk: the highest ballot that it has answered *)
          accepted,  (* of each server's disk: <<ballot, list>> *)
          begun,     (* of each ballot: {} or its <<server, disk, list that it would propose>> *)
          sent,      (* the messages; none is ever taken away, so each may arrive late, or never *)
          wiped,
          founded    (* the lists of all groups that were ever founded *)

vars == <<disk, promised, accepted, begun, sent, wiped, founded>>

Now(server) == <<server, disk[server]>>
ServersOf(list) == {one[1] : one \in list}
Owned(ballot, server) == \E one \in begun[ballot] : one[1] = server /\ one[2] = disk[server]
Most(a, b) == IF a > b THEN a ELSE b

Init == /\ disk = [server \in Servers |-> 1]
        /\ promised = [server \in Servers |-> 0]
        /\ accepted = [server \in Servers |-> None]
        /\ begun = [ballot \in Ballots |-> {}]
        /\ sent = {}
        /\ wiped = 0
        /\ founded = {}

(* Enough servers have answered for a list of that many. *)
Enough(answered, list) ==
    IF Rule = "majority" THEN 2 * Cardinality(answered) > Most(Expected, Cardinality(list))
    ELSE ServersOf(list) \subseteq answered /\ Cardinality(ServersOf(list)) >= Expected

Promised(server, ballot) == [kind |-> "promise", ballot |-> ballot, by |-> Now(server), had |-> accepted[server]]

Begin(server, ballot) ==
    /\ begun[ballot] = {} /\ ballot > promised[server]
    /\ \E seen \in SUBSET Servers :
        /\ server \in seen
        /\ Enough(seen, {Now(one) : one \in seen})
        /\ begun' = [begun EXCEPT ![ballot] = {<<server, disk[server], {Now(one) : one \in seen}>>}]
    /\ promised' = [promised EXCEPT ![server] = ballot]
    /\ sent' = sent \cup {Promised(server, ballot)}
    /\ UNCHANGED <<disk, accepted, wiped, founded>>

Promise(server, ballot) ==
    /\ begun[ballot] # {} /\ ballot > promised[server]
    /\ promised' = [promised EXCEPT ![server] = ballot]
    /\ sent' = sent \cup {Promised(server, ballot)}
    /\ UNCHANGED <<disk, accepted, begun, wiped, founded>>

(* The list that these promises leave no choice about, or None. *)
Bound(promises) ==
    LET had == {one.had : one \in promises} \ {None}
        last == CHOOSE one \in had : \A other \in had : other[1] <= one[1]
    IN IF had = {} THEN None ELSE last

(* Rule "everyone": no member of that list which has answered lacks it, so it may have been founded. *)
MayBeFounded(promises, list) ==
    \A one \in promises : one.by \in list => one.had[2] = list

Propose(ballot) ==
    /\ \E own \in begun[ballot] :
        /\ own[2] = disk[own[1]] /\ promised[own[1]] = ballot
        /\ ~ \E past \in sent : past.kind = "accept" /\ past.ballot = ballot
        /\ \E promises \in SUBSET {message \in sent : message.kind = "promise" /\ message.ballot = ballot} :
            LET answered == {one.by[1] : one \in promises}
                bound == Bound(promises)
                keeps == bound # None /\ (Rule = "majority" \/ MayBeFounded(promises, bound[2]))
                list == IF keeps THEN bound[2] ELSE own[3]
            IN /\ Cardinality(answered) = Cardinality(promises)
               /\ Enough(answered, own[3])
               /\ accepted' = [accepted EXCEPT ![own[1]] = <<ballot, list>>]
               /\ sent' = sent \cup {[kind |-> "accept", ballot |-> ballot, list |-> list, kept |-> keeps],
                                    [kind |-> "accepted", ballot |-> ballot, by |-> Now(own[1])]}
    /\ UNCHANGED <<disk, promised, begun, wiped, founded>>

Accept(server) ==
    /\ \E message \in sent :
        /\ message.kind = "accept" /\ message.ballot >= promised[server]
        /\ accepted[server] # <<message.ballot, message.list>>
        /\ promised' = [promised EXCEPT ![server] = message.ballot]
        /\ accepted' = [accepted EXCEPT ![server] = <<message.ballot, message.list>>]
        /\ sent' = sent \cup {[kind |-> "accepted", ballot |-> message.ballot, by |-> Now(server)]}
    /\ UNCHANGED <<disk, begun, wiped, founded>>

(* The acceptances of the ballot are enough: for "everyone" those of all disks of the list; of a list that was kept, of
   those that are still there. *)
Accepted(ballot, message) ==
    LET by == {one.by : one \in {other \in sent : other.kind = "accepted" /\ other.ballot = ballot}}
        gone == {one \in message.list : one[2] # disk[one[1]]}
    IN IF Rule = "majority" THEN Enough({one[1] : one \in by}, message.list)
       ELSE message.list \subseteq (by \cup (IF message.kept THEN gone ELSE {}))

Found(ballot) ==
    /\ \E own \in begun[ballot], message \in sent :
        /\ own[2] = disk[own[1]]
        /\ message.kind = "accept" /\ message.ballot = ballot /\ Accepted(ballot, message)
        /\ founded' = founded \cup {message.list}
    /\ founded' # founded
    /\ UNCHANGED <<disk, promised, accepted, begun, sent, wiped>>

Wipe(server) ==
    /\ wiped < Wipes
    /\ wiped' = wiped + 1
    /\ disk' = [disk EXCEPT ![server] = @ + 1]
    /\ promised' = [promised EXCEPT ![server] = 0]
    /\ accepted' = [accepted EXCEPT ![server] = None]
    /\ UNCHANGED <<begun, sent, founded>>

Next == \/ \E server \in Servers, ballot \in Ballots : Begin(server, ballot) \/ Promise(server, ballot)
        \/ \E ballot \in Ballots : Propose(ballot) \/ Found(ballot)
        \/ \E server \in Servers : Accept(server) \/ Wipe(server)

Spec == Init /\ [][Next]_vars

Alike == Permutations(Servers)

OneGroup == Cardinality(founded) <= 1
==============================================================================
