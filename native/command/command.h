/* command.h: what control orders: one function a command of abi.h, and their answers.
 *
 *     command.c        connections, accounts, subscriptions, limits      admit.c    logins, and rights that change
 *     command_table.c  the rows, which name these functions              listing.c  those that list
 *     proxied.c        the PROXY protocol's header
 *     secure.c         TLS                                               compress.c the compression of leaf links
 *     greeting.c, known_logins.c   said ahead, so that nobody waits for control: greeting.h
 *
 * Body and strings have the shape of the command's row; account and peer are there. JetStream's commands are in
 * jetstream/commands.h.
 */
#ifndef LEAFD_COMMAND_COMMAND_H
#define LEAFD_COMMAND_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "plane/plane.h"
#include "plane/secure.h"
#include "plane/subscription.h"

void command_run(plane_t *plane, const plane_command_t *command);
void command_done(plane_t *plane, const plane_command_t *command, status_t status);
/* With a payload; arg and arg2 for the caller. */
void command_answer(plane_t *plane, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
                    bytes_t payload);

/* command.c */
void command_listen(plane_t *plane, const plane_command_t *command);
void command_unlisten(plane_t *plane, const plane_command_t *command);
void command_adopt(plane_t *plane, const plane_command_t *command);
void command_send(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_resume(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_close(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_upgrade(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_describe(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_broadcast(plane_t *plane, const plane_command_t *command);
void command_connections(plane_t *plane, const plane_command_t *command);
void command_account(plane_t *plane, const plane_command_t *command);
void command_traces(plane_t *plane, const plane_command_t *command, account_t *account);
void command_allow(plane_t *plane, const plane_command_t *command, account_t *account);
void command_mapping(plane_t *plane, const plane_command_t *command, account_t *account);
void command_imports(plane_t *plane, const plane_command_t *command, account_t *account);
void command_subscribe(plane_t *plane, const plane_command_t *command, account_t *account);
void command_unsubscribe(plane_t *plane, const plane_command_t *command);
void command_publish(plane_t *plane, const plane_command_t *command, account_t *account);
void command_limits(plane_t *plane, const plane_command_t *command);

/* admit.c */
void command_admit(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_admit_route(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_admit_gateway(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_gateway(plane_t *plane, const plane_command_t *command);
void command_mqtt(plane_t *plane, const plane_command_t *command);
void command_placed(plane_t *plane, const plane_command_t *command);
void command_rights(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_route_rights(plane_t *plane, const plane_command_t *command, peer_t *peer);
/* Carries out an ADMIT; its account has to exist, which admit_possible() tells. */
bool admit_possible(plane_t *plane, const plane_command_t *verdict);
LEAF_MUST_USE status_t admit_peer(plane_t *plane, peer_t *peer, const plane_command_t *verdict);
/* A verdict that cannot be carried out: the connection that it names is closed. peer NULL: it has gone. */
void command_refuse_login(plane_t *plane, peer_t *peer, const plane_command_t *command, status_t status);

/* secure.c */
void command_tls(plane_t *plane, const plane_command_t *command);
void command_secure(plane_t *plane, const plane_command_t *command, peer_t *peer);

/* compress.c */
void command_precedence(plane_t *plane, const plane_command_t *command, peer_t *peer); /* precedence.c */
void command_budget(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_compress(plane_t *plane, const plane_command_t *command, peer_t *peer);

/* greeting.c */
void command_greet(plane_t *plane, const plane_command_t *command);
/* known_logins.c */
void command_remember(plane_t *plane, const plane_command_t *command, account_t *account);
void command_forget(plane_t *plane, const plane_command_t *command);
void command_author(plane_t *plane, const plane_command_t *command);
void command_authors_forget(plane_t *plane, const plane_command_t *command);
/* proxied.c */
void proxied_begin(plane_t *plane, peer_t *peer); /* of one that is new */
/* Something of its header may have been read. */
void proxied_look(plane_t *plane, peer_t *peer);
void proxied_chores(plane_t *plane, peer_t *peer);
/* TLS has to wait for the end of a proxy's header; the text that goes before TLS is sent now. */
bool proxied_waits(plane_t *plane, peer_t *peer, const secure_t *how, const secure_texts_t *texts);

/* meta.c */
void command_meta_open(plane_t *plane, const plane_command_t *command, account_t *account);
void command_meta_found(plane_t *plane, const plane_command_t *command);
void command_meta_send(plane_t *plane, const plane_command_t *command);
void command_meta_look(plane_t *plane, const plane_command_t *command);
void command_meta_put(plane_t *plane, const plane_command_t *command);
void command_meta_rows(plane_t *plane, const plane_command_t *command);
void command_meta_transfer(plane_t *plane, const plane_command_t *command);
void command_meta_alter(plane_t *plane, const plane_command_t *command);
void command_meta_ways(plane_t *plane, const plane_command_t *command);

/* listing.c */
void command_subscriptions(plane_t *plane, const plane_command_t *command, peer_t *peer);
void command_interest(plane_t *plane, const plane_command_t *command, account_t *account);

#endif
