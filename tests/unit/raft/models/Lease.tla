-------------------------------- MODULE Lease ---------------------------------
(* The lease of a leader: it may answer reads alone while no other can lead, by clocks that agree in their rates only
   about.

     the leader     has a lease while a majority, itself included, has answered what it sent less than Lease ago, by its
                    own clock; counted from the sending
     any other      votes for nobody before Election has passed, by its own clock, since it heard a leader, or since its
                    start

   Time passes in ticks. In each the clock of the first leader goes on by FirstRate, and those of the others by
   OtherRate. The worst case is a slow one and fast ones. One server leads at the begin, and another one wants to.

   Not here: logs, and elections as such: one is a step here, of a majority that may vote at that moment. Votes that are
   given one after the other are later ones.                                                                          *)
EXTENDS Naturals, FiniteSets

CONSTANTS Servers, First, Second, FirstRate, OtherRate, Lease, Election, Ticks, StartWaits

VARIABLES now, clock, term, leads, heard, sent, answered

vars == <<now, clock, term, leads, heard, sent, answered>>

Majority(some) == 2 * Cardinality(some) > Cardinality(Servers)

(* Long ago, by any clock: each has a past in which it heard nobody. *)
Past == 2 * Election

Init == /\ now = 0
        /\ clock = [server \in Servers |-> Past]
        /\ term = [server \in Servers |-> 1]
        /\ leads = [server \in Servers |-> IF server = First THEN 1 ELSE 0]   (* a term; 0: it does not lead *)
        /\ heard = [server \in Servers |-> 0]
        /\ sent = {}                            (* <<term, leader's clock>> *)
        /\ answered = {}                        (* <<term, leader's clock, who>> *)

Tick == /\ now < Ticks
        /\ now' = now + 1
        /\ clock' = [server \in Servers |-> clock[server] + IF server = First THEN FirstRate ELSE OtherRate]
        /\ UNCHANGED <<term, leads, heard, sent, answered>>

MayVote(server) == clock[server] - heard[server] >= Election

Elect(server) ==
    /\ server = Second /\ leads[server] = 0
    /\ \E voters \in SUBSET Servers :
        /\ server \in voters /\ Majority(voters)
        /\ \A one \in voters : MayVote(one) /\ term[one] <= term[server]
        /\ term' = [one \in Servers |-> IF one \in voters THEN term[server] + 1 ELSE term[one]]
        /\ leads' = [one \in Servers |-> IF one = server THEN term[server] + 1
                                         ELSE IF one \in voters THEN 0 ELSE leads[one]]
    /\ UNCHANGED <<now, clock, heard, sent, answered>>

Send(server) ==
    /\ leads[server] # 0 /\ \A message \in sent : message[1] # leads[server]   (* the last one that counts *)
    /\ sent' = sent \cup {<<leads[server], clock[server]>>}
    /\ UNCHANGED <<now, clock, term, leads, heard, answered>>

Hear(server) ==
    /\ leads[server] = 0
    /\ \E message \in sent :
        /\ message[1] >= term[server]
        /\ <<message[1], message[2], server>> \notin answered
        /\ term' = [term EXCEPT ![server] = message[1]]
        /\ heard' = [heard EXCEPT ![server] = clock[server]]
        /\ answered' = answered \cup {<<message[1], message[2], server>>}
    /\ UNCHANGED <<now, clock, leads, sent>>

Restart(server) ==
    /\ leads[server] = 0 /\ heard[server] > 0
    /\ heard' = [heard EXCEPT ![server] = IF StartWaits THEN clock[server] ELSE 0]
    /\ UNCHANGED <<now, clock, term, leads, sent, answered>>

Next == Tick \/ \E server \in Servers : Elect(server) \/ Send(server) \/ Hear(server) \/ Restart(server)

Spec == Init /\ [][Next]_vars

Leased(server) ==
    /\ leads[server] # 0
    /\ Majority({server} \cup {one \in Servers : \E answer \in answered :
                    /\ answer[1] = leads[server] /\ answer[3] = one /\ clock[server] - answer[2] < Lease})

OneLease == \A one, other \in Servers : Leased(one) /\ Leased(other) => one = other
===============================================================================
