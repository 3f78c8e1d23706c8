#include "executor/steps/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <nftables/libnftables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/steps/network_denials.h"
#include "executor/steps/network_rules.h"
#include "executor/steps/network_wire.h"

enum {
    TABLE_NAME_MAX = NETWORK_INSTANCE_MAX + sizeof("cordium-"),
    COMMANDS_MAX = 1 << 20, /* 128 rules of 64 ranges and 64 ports each take 320 KiB */
    RANGE_TRIES_MAX = 32,
    LINK_BUCKETS = 1024, /* a power of two */
};

static const char IP_FORWARD[] = "/proc/sys/net/ipv4/ip_forward";

/* A slot is a /30. It is given out again when its interface, which dies with the sandbox's
 * namespace in the background, is gone. */
struct slot {
    bool used;
    char interface[NETWORK_NAME_MAX]; /* "" while never used */
};

struct network {
    struct nft_ctx *nft;
    struct network_wire *wire;
    struct network_notes *notes;
    char table[TABLE_NAME_MAX];
    char prefix[sizeof("cord0000-")];
    uint32_t range;
    uint8_t range_prefix_length;
    uint32_t resolvers[NETWORK_RESOLVERS_MAX];
    size_t resolver_count;
    bool forwarding_was_off; /* and is on now, by us */
    bool forwarding_checked;
    bool counts_connections; /* the kernel has NFT_CONNLIMIT */
    uint32_t serial;         /* of the next interface's name */
    unsigned slot_next;
    unsigned slot_count;
    struct slot *slots;
    struct network_link *links[LINK_BUCKETS]; /* by index */
};

struct network_link {
    struct network *net;
    struct network_link *next; /* in its bucket */
    unsigned slot;
    int index;
    bool has_rules;
    uint16_t loopback_ports[NETWORK_LOOPBACK_PORTS_MAX];
    size_t loopback_port_count;
    struct network_denials *denials; /* NULL: none */
};

static int run(struct network *net, const char *commands, const char *step, struct error *err)
{
    if (nft_run_cmd_from_buffer(net->nft, commands) == 0) {
        return 0;
    }
    const char *text = nft_ctx_get_error_buffer(net->nft);
    return error_set(err, STATUS_INTERNAL, "nftables table '%s': %s: %.300s", net->table, step,
                     text && text[0] ? text : strerror(errno));
}

/* Runs what was collected and frees it. */
static int run_and_free(struct network *net, struct buf *commands, const char *step,
                        struct error *err)
{
    int r;

    buf_add_u8(commands, 0);
    if (commands->failed) {
        r = error_set(err, STATUS_RESOURCE_EXHAUSTED, "nftables table '%s': %s: too many rules",
                      net->table, step);
    } else {
        r = run(net, (const char *)commands->ptr, step, err);
    }
    buf_free(commands);
    return r;
}

static bool answer_has(struct network *net, const char *command, const char *text)
{
    if (nft_run_cmd_from_buffer(net->nft, command) != 0) {
        return false;
    }
    const char *answer = nft_ctx_get_output_buffer(net->nft);
    return answer && strstr(answer, text);
}

static int forwarding_read(bool *ret_on, struct error *err)
{
    char value = 0;
    int fd = open(IP_FORWARD, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd == -1 ? -1 : read(fd, &value, 1);
    int error_number = errno;

    if (fd != -1) {
        close(fd);
    }
    if (n != 1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, error_number, "read %s",
                               IP_FORWARD);
    }
    *ret_on = value != '0';
    return 0;
}

static int forwarding_write(bool on, struct error *err)
{
    int fd = open(IP_FORWARD, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd == -1 ? -1 : write(fd, on ? "1" : "0", 1);
    int error_number = errno;

    if (fd != -1) {
        close(fd);
    }
    if (n != 1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, error_number,
                               "write %s, which workspaces with network rules need; set "
                               "net.ipv4.ip_forward=1 on this host",
                               IP_FORWARD);
    }
    return 0;
}

/* Turns forwarding on before the first link. When it was off the mark in our table remembers
 * so, as long as the setting itself lives: both survive a crash and neither a reboot. A mark in
 * another instance's table says that it is on only through that instance. */
static int forwarding_ensure(struct network *net, struct error *err)
{
    struct buf commands;
    bool on = false;

    if (net->forwarding_checked) {
        return 0;
    }
    int r = forwarding_read(&on, err);
    if (r < 0) {
        return r;
    }
    if (!on || answer_has(net, "list chains", NETWORK_FORWARDING_MARK)) {
        buf_init(&commands, COMMANDS_MAX);
        network_rules_write_no_forwarding(&commands, net->table);
        r = run_and_free(net, &commands, "keep other packets from being forwarded", err);
        if (r < 0) {
            return r;
        }
        net->forwarding_was_off = true;
        r = on ? 0 : forwarding_write(true, err);
        if (r < 0) {
            return r;
        }
    }
    net->forwarding_checked = true;
    return 0;
}

/* Called when our table is gone. Another instance that has a mark needs forwarding still and will
 * put it back in its turn; one without has had no link yet, or found forwarding on anyway. */
static void forwarding_restore(struct network *net)
{
    if (net->forwarding_was_off && !answer_has(net, "list chains", NETWORK_FORWARDING_MARK)) {
        struct error ignored;
        (void)forwarding_write(false, &ignored); /* nothing better to do while stopping */
    }
    net->forwarding_was_off = false;
}

/* FNV-1a, 32 bits. */
static uint32_t name_hash(const char *name)
{
    uint32_t hash = 2166136261U;

    for (; *name; name++) {
        hash = (hash ^ (uint8_t)*name) * 16777619U;
    }
    return hash;
}

static int config_check(const struct network_config *c, struct error *err)
{
    size_t n = c->instance ? strlen(c->instance) : 0;

    if (n == 0 || n > NETWORK_INSTANCE_MAX ||
        strspn(c->instance, "abcdefghijklmnopqrstuvwxyz0123456789-") != n) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "network instance name must be 1-%d of a-z, 0-9 and '-'",
                         NETWORK_INSTANCE_MAX);
    }
    if (c->range != 0 && (c->range_prefix_length < 8 || c->range_prefix_length > 28)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "network range must be a /8 to a /28");
    }
    if (c->resolver_count > NETWORK_RESOLVERS_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "more than %d resolvers",
                         NETWORK_RESOLVERS_MAX);
    }
    return 0;
}

static bool in_range(uint32_t address, uint32_t range, uint8_t prefix_length)
{
    return (address ^ range) >> (32 - prefix_length) == 0;
}

/* 1 when the host or a resolver is in the range, and then says which in ret. */
static int range_in_use(struct network *net, uint32_t range, uint8_t prefix_length, char ret[64],
                        struct error *err)
{
    for (size_t i = 0; i < net->resolver_count; i++) {
        if (in_range(net->resolvers[i], range, prefix_length)) {
            (void)snprintf(ret, 64, "a resolver");
            return 1;
        }
    }
    return network_wire_find_route(net->wire, range, prefix_length, net->prefix, ret, err);
}

/* Without a range in the configuration: a /16 of 10.128-10.254, by the instance's name. */
static int range_choose(struct network *net, const struct network_config *c, struct error *err)
{
    char user[64] = "";

    for (unsigned i = 0; i < RANGE_TRIES_MAX; i++) {
        uint32_t second = 128 + (name_hash(c->instance) + i) % 127;
        uint8_t prefix_length = c->range ? c->range_prefix_length : 16;
        uint32_t range = c->range ? c->range : 10U << 24 | second << 16;

        range &= UINT32_MAX << (32 - prefix_length);
        int r = range_in_use(net, range, prefix_length, user, err);
        if (r < 0) {
            return r;
        }
        if (r == 0) {
            net->range = range;
            net->range_prefix_length = prefix_length;
            /* The last /30 holds the service address. */
            uint32_t slots = (1U << (32 - prefix_length)) / 4 - 1;
            net->slot_count = slots < NETWORK_SLOTS_MAX ? slots : NETWORK_SLOTS_MAX;
            return 0;
        }
        if (c->range) {
            break;
        }
    }
    return error_set(err, STATUS_FAILED_PRECONDITION,
                     "network range for sandboxes is in use on this host (%s); set another "
                     "private range in the executor's configuration",
                     user);
}

static int table_make(struct network *net, struct error *err)
{
    struct network_rules_table t = {.table = net->table,
                                    .prefix = net->prefix,
                                    .range = net->range,
                                    .range_prefix_length = net->range_prefix_length,
                                    .service = network_service_address(net),
                                    .resolvers = net->resolvers,
                                    .resolver_count = net->resolver_count};
    struct buf commands;
    char own_mark[TABLE_NAME_MAX + 64];

    /* A mark left by a crash of ours is kept in the new table. */
    (void)snprintf(own_mark, sizeof(own_mark), "list chain inet %s " NETWORK_FORWARDING_MARK,
                   net->table);
    net->forwarding_was_off = answer_has(net, own_mark, NETWORK_FORWARDING_MARK);
    buf_init(&commands, COMMANDS_MAX);
    network_rules_write_table(&commands, &t);
    if (net->forwarding_was_off) {
        network_rules_write_no_forwarding(&commands, net->table);
    }
    int r = run_and_free(net, &commands, "make the table", err);
    if (r < 0) {
        err->status = STATUS_FAILED_PRECONDITION;
        return error_wrap(
            err, "network rules need CAP_NET_ADMIN and a kernel with nf_tables "
                 "(NF_TABLES_INET, NFT_NAT, NFT_MASQ, NFT_REJECT_INET, NFT_LIMIT, NFT_OBJREF)");
    }
    struct error ignored;
    buf_init(&commands, COMMANDS_MAX);
    network_rules_write_count_probe(&commands, net->table);
    net->counts_connections = run_and_free(net, &commands, "count connections", &ignored) == 0;
    return 0;
}

static int network_set_up(struct network *net, const struct network_config *c, struct error *err)
{
    net->nft = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!net->nft || nft_ctx_buffer_output(net->nft) != 0 || nft_ctx_buffer_error(net->nft) != 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "start libnftables");
    }
    int r = network_wire_open(&net->wire, err);
    r = r < 0 ? r : network_notes_open(&net->notes, err);
    if (r == 0) {
        r = network_wire_remove_all(net->wire, net->prefix, err);
    }
    if (r == 0) {
        r = range_choose(net, c, err);
    }
    if (r == 0) {
        net->slots = calloc(net->slot_count, sizeof(*net->slots));
        r = net->slots ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for slots");
    }
    return r == 0 ? table_make(net, err) : r;
}

static void network_free(struct network *net)
{
    if (net->nft) {
        nft_ctx_free(net->nft);
    }
    network_wire_close(net->wire);
    network_notes_close(net->notes);
    free(net->slots);
    free(net);
}

int network_open(const struct network_config *config, struct network **ret, struct error *err)
{
    struct error own_error = {0};

    err = err ? err : &own_error;
    int r = config_check(config, err);
    if (r < 0) {
        return r;
    }
    struct network *net = calloc(1, sizeof(*net));
    if (!net) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the network's state");
    }
    (void)snprintf(net->table, sizeof(net->table), "cordium-%s", config->instance);
    (void)snprintf(net->prefix, sizeof(net->prefix), "cord%04x-",
                   name_hash(config->instance) & 0xffff);
    memcpy(net->resolvers, config->resolvers, sizeof(net->resolvers));
    net->resolver_count = config->resolver_count;
    r = network_set_up(net, config, err);
    if (r < 0) {
        network_free(net);
        return r;
    }
    *ret = net;
    return 0;
}

void network_close(struct network *net)
{
    struct error ignored;
    char command[TABLE_NAME_MAX + 32];

    if (!net) {
        return;
    }
    (void)snprintf(command, sizeof(command), "delete table inet %s", net->table);
    (void)run(net, command, "delete", &ignored); /* the next start deletes it otherwise */
    forwarding_restore(net);
    network_free(net);
}

uint32_t network_service_address(const struct network *net)
{
    return (net->range | UINT32_MAX >> net->range_prefix_length) - 1;
}

bool network_policy_needs_link(const struct network_policy *policy)
{
    if (policy->mode == NETWORK_MODE_NONE) {
        return false;
    }
    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy->rules[i].action == NETWORK_ACTION_ALLOW) {
            return true;
        }
    }
    return policy->default_action != NETWORK_ACTION_DENY || policy->loopback_port_count > 0;
}

static int cidr_check(const struct network_cidr *c, size_t rule, struct error *err)
{
    static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff};

    if ((c->family != 4 && c->family != 6) || c->prefix_length > (c->family == 4 ? 32 : 128)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "network rule %zu: wrong CIDR", rule + 1);
    }
    if (c->family == 6 && memcmp(c->address, MAPPED, sizeof(MAPPED)) == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "network rule %zu: IPv4-mapped IPv6 address; write it as IPv4", rule + 1);
    }
    return 0;
}

static int rule_check(const struct network_rule *rule, size_t i, struct error *err)
{
    if (rule->action != NETWORK_ACTION_DENY && rule->action != NETWORK_ACTION_ALLOW) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "network rule %zu: no action", i + 1);
    }
    if (rule->cidr_count < 1 || rule->cidr_count > NETWORK_CIDRS_MAX ||
        rule->port_count > NETWORK_PORTS_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "network rule %zu: needs 1-%d CIDRs and at most %d ports", i + 1,
                         NETWORK_CIDRS_MAX, NETWORK_PORTS_MAX);
    }
    for (size_t k = 0; k < rule->cidr_count; k++) {
        int r = cidr_check(&rule->cidrs[k], i, err);
        if (r < 0) {
            return r;
        }
    }
    for (size_t k = 0; k < rule->port_count; k++) {
        if (rule->ports[k] == 0) {
            return error_set(err, STATUS_INVALID_ARGUMENT, "network rule %zu: port 0", i + 1);
        }
    }
    return 0;
}

int network_policy_check(const struct network_policy *policy, struct error *err)
{
    if (policy->mode != NETWORK_MODE_RULES && policy->mode != NETWORK_MODE_NONE) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "network mode %u", policy->mode);
    }
    if (policy->mode == NETWORK_MODE_RULES &&
        (policy->default_action < NETWORK_ACTION_DENY ||
         policy->default_action > NETWORK_ACTION_ALLOW_PUBLIC)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "network: no default action");
    }
    if (policy->rule_count > NETWORK_RULES_MAX ||
        policy->loopback_port_count > NETWORK_LOOPBACK_PORTS_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "network: more than %d rules or %d loopback ports", NETWORK_RULES_MAX,
                         NETWORK_LOOPBACK_PORTS_MAX);
    }
    for (size_t i = 0; i < policy->rule_count; i++) {
        int r = rule_check(&policy->rules[i], i, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int slot_take(struct network *net, unsigned *ret, struct error *err)
{
    for (unsigned i = 0; i < net->slot_count; i++) {
        unsigned k = (net->slot_next + i) % net->slot_count;
        struct slot *slot = &net->slots[k];

        if (!slot->used && (slot->interface[0] == 0 || !network_wire_exists(slot->interface))) {
            net->slot_next = (k + 1) % net->slot_count;
            slot->used = true;
            *ret = k;
            return 0;
        }
    }
    return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                     "network: all %u address pairs are taken; a larger range in the executor's "
                     "configuration gives more",
                     net->slot_count);
}

static struct network_link **link_bucket(struct network *net, uint32_t index)
{
    return &net->links[index & (LINK_BUCKETS - 1)];
}

int network_prepare(struct network *net, int netns_fd, struct network_link **ret, struct error *err)
{
    unsigned slot = 0;

    int r = forwarding_ensure(net, err);
    if (r < 0) {
        return r;
    }
    struct network_link *link = calloc(1, sizeof(*link));
    if (!link) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a link");
    }
    r = slot_take(net, &slot, err);
    if (r < 0) {
        free(link);
        return r;
    }
    link->net = net;
    link->slot = slot;
    char *name = net->slots[slot].interface;
    /* The prefix leaves 6 digits; names come round only after a million links. */
    (void)snprintf(name, NETWORK_NAME_MAX, "%s%u", net->prefix, net->serial++ % 1000000);
    struct network_wire_pair pair = {.host_name = name,
                                     .netns_fd = netns_fd,
                                     .gateway = network_link_addresses(link).gateway,
                                     .sandbox = network_link_addresses(link).sandbox,
                                     .prefix_length = network_link_addresses(link).prefix_length};
    r = network_wire_connect(net->wire, &pair, &link->index, err);
    if (r < 0) {
        net->slots[slot].used = false;
        free(link);
        return r;
    }
    struct network_link **bucket = link_bucket(net, (uint32_t)link->index);
    link->next = *bucket;
    *bucket = link;
    *ret = link;
    return 0;
}

static struct network_rules_link rules_link(const struct network_link *link)
{
    return (struct network_rules_link){.table = link->net->table,
                                       .interface = link->net->slots[link->slot].interface,
                                       .slot = link->slot,
                                       .sandbox = network_link_addresses(link).sandbox,
                                       .counts_connections = link->net->counts_connections};
}

int network_apply(struct network_link *link, const struct network_policy *policy, struct error *err)
{
    struct network_rules_link names = rules_link(link);
    struct buf commands;

    int r = network_policy_check(policy, err);
    if (r < 0) {
        return r;
    }
    if (policy->mode == NETWORK_MODE_NONE) {
        return 0; /* as prepared: all is refused */
    }
    if (policy->loopback_port_count > 0) {
        r = network_wire_allow_loopback(link->net->wire, link->index, err);
        if (r < 0) {
            return r;
        }
        link->loopback_port_count = policy->loopback_port_count;
        memcpy(link->loopback_ports, policy->loopback_ports,
               policy->loopback_port_count * sizeof(uint16_t));
    }
    buf_init(&commands, COMMANDS_MAX);
    network_rules_write_link(&commands, &names, policy);
    r = run_and_free(link->net, &commands, "add a sandbox's rules", err);
    link->has_rules = r == 0;
    return r;
}

int network_attach(struct network *net, int netns_fd, const struct network_policy *policy,
                   struct network_link **ret, struct error *err)
{
    struct network_link *link = NULL;

    int r = network_policy_check(policy, err);
    if (r < 0) {
        return r;
    }
    r = network_prepare(net, netns_fd, &link, err);
    if (r < 0) {
        return r;
    }
    r = network_apply(link, policy, err);
    if (r < 0) {
        network_release(link);
        return r;
    }
    *ret = link;
    return 0;
}

static void link_forget(struct network_link *link)
{
    struct network_link **at = link_bucket(link->net, (uint32_t)link->index);
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    free(link->denials);
    free(link);
}

static void keep_note(void *context, const struct network_note *note)
{
    struct network *net = context;
    struct network_link *link = *link_bucket(net, note->interface);

    while (link && (uint32_t)link->index != note->interface) {
        link = link->next;
    }
    if (link && !link->denials) {
        link->denials = calloc(1, sizeof(*link->denials));
    }
    if (link && link->denials) {
        network_denials_add(link->denials, &note->denial);
    }
}

int network_collect_denials(struct network *net, struct error *err)
{
    return network_notes_drain(net->notes, net->table, keep_note, net, err);
}

bool network_take_denials(struct network_link *link, struct network_denials *ret)
{
    if (!link->denials) {
        return false;
    }
    *ret = *link->denials;
    free(link->denials);
    link->denials = NULL;
    return true;
}

void network_release(struct network_link *link)
{
    struct buf commands;
    struct error ignored;

    if (!link) {
        return;
    }
    bool removed = true;
    if (link->has_rules) {
        struct network_rules_link names = rules_link(link);
        buf_init(&commands, COMMANDS_MAX);
        network_rules_write_unlink(&commands, &names, link->loopback_ports,
                                   link->loopback_port_count);
        removed = run_and_free(link->net, &commands, "remove a sandbox's rules", &ignored) == 0;
    }
    /* A slot whose chain could not be removed is lost rather than given to another sandbox. */
    link->net->slots[link->slot].used = !removed;
    link_forget(link);
}

struct network_link_addresses network_link_addresses(const struct network_link *link)
{
    uint32_t base = link->net->range + link->slot * 4;
    return (struct network_link_addresses){
        .sandbox = base + 2, .gateway = base + 1, .prefix_length = 30};
}

size_t network_read_resolvers(const char *path, uint32_t ret[NETWORK_RESOLVERS_MAX])
{
    char line[512];
    size_t count = 0;
    FILE *file = fopen(path, "re");

    while (file && count < NETWORK_RESOLVERS_MAX && fgets(line, sizeof(line), file)) {
        char text[64];
        struct in_addr address;

        if (sscanf(line, " nameserver %63s", text) == 1 && inet_aton(text, &address) != 0 &&
            ntohl(address.s_addr) >> 24 != 127) {
            ret[count++] = ntohl(address.s_addr);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return count;
}
