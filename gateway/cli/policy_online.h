#ifndef CLI_POLICY_ONLINE_H
#define CLI_POLICY_ONLINE_H

#include "api/ext.pb-c.h"
#include "gateway/cli/cli.h"
#include "gateway/policyfile/diagnostic.h"

/* Policies and their tests as the server judges them. */

/* Is the server to be asked? With --online, or where --server names one. */
bool policy_is_online(const struct arguments *args);

/* Texts to be sent; everything is borrowed. */
struct policy_texts {
    Ext__PolicyFile **items;
    size_t count;
    size_t room;
};

/* A path that is there already is passed over. INVALID_ARGUMENT: the text is not UTF-8, or holds
 * NUL bytes, and cannot be sent. */
int policy_texts_add(struct cli *cli, struct policy_texts *texts, const char *path, struct str text,
                     struct error *err);

/* PolicyService.Check: its findings are added to those that are there, the counts too. */
int policy_online_check(struct cli *cli, const struct policy_texts *texts,
                        const struct arguments *args, struct diagnostics *found,
                        size_t *ret_policies, struct error *err);

/* PolicyService.Test of one file; no policies: those in force. */
int policy_online_test(struct cli *cli, const struct policy_texts *policies, const char *path,
                       struct str text, Ext__TestResponse **ret, struct error *err);

#endif
