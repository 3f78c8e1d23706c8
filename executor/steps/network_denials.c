#include "executor/steps/network_denials.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/network_rules.h"
#include "policy/base/bytes.h"

enum {
    ANSWER_BYTES_MAX = 32768, /* the kernel fills dumps in pieces of up to as many */
    REQUEST_BYTES_MAX = 65536,
    DELETIONS_MAX = 1024, /* of one transaction: an attribute's length has 16 bits */
    NOTES_MAX = NETWORK_NOTED_MAX + NETWORK_SLOTS_MAX,
    ANSWERS_MAX = 4096,   /* datagrams of one dump; the fullest sets take some hundred */
    PATIENCE_SECONDS = 1, /* the kernel answers while we send: silence is a fault */
};

struct network_notes {
    int fd;
    uint32_t sequence;
    uint64_t refused;          /* packets at all, when the sets were last drained */
    struct network_note *list; /* of the dump under way */
    size_t count;
    size_t room;
    uint8_t answer[ANSWER_BYTES_MAX];
};

/* Registers of four bytes: each field begins on a multiple. */
struct key {
    uint32_t interface;
    uint32_t address; /* network order, as the port */
    uint8_t protocol;
    uint8_t zero[3];
    uint16_t port;
    uint16_t zero_too;
    uint32_t mark;
};
enum { KEY_BYTES_OTHERS = sizeof(uint32_t) }; /* the interface alone */

/* Messages and attributes begin on multiples of four bytes (NLMSG_ALIGNTO, NLA_ALIGNTO). */
static size_t padding_after(size_t length)
{
    return -length & (NLMSG_ALIGNTO - 1);
}

/* --- requests --- */

/* Begins a message; returns where, for message_end(). */
static size_t message_begin(struct buf *out, uint16_t type, uint16_t flags, uint32_t sequence,
                            uint8_t family, uint16_t resource)
{
    const size_t at = out->len;
    const struct nlmsghdr header = {.nlmsg_type = type,
                                    .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                                    .nlmsg_seq = sequence};
    const struct nfgenmsg more = {.nfgen_family = family, .res_id = htons(resource)};
    buf_add(out, &header, sizeof header);
    buf_add(out, &more, sizeof more);
    return at;
}

static size_t nest_begin(struct buf *out, uint16_t type)
{
    const size_t at = out->len;
    const struct nlattr header = {.nla_type = type};
    buf_add(out, &header, sizeof header);
    return at;
}

static void nest_end(struct buf *out, size_t at)
{
    static const uint8_t padding[NLA_ALIGNTO];
    const uint16_t length = (uint16_t)(out->len - at);
    if (!out->failed) {
        memcpy(out->ptr + at + offsetof(struct nlattr, nla_len), &length, sizeof length);
    }
    buf_add(out, padding, padding_after(length));
}

static void message_end(struct buf *out, size_t at)
{
    const uint32_t length = (uint32_t)(out->len - at);
    if (!out->failed) {
        memcpy(out->ptr + at + offsetof(struct nlmsghdr, nlmsg_len), &length, sizeof length);
    }
}

static void add_attribute(struct buf *out, uint16_t type, const void *data, size_t size)
{
    const size_t at = nest_begin(out, type);
    buf_add(out, data, size);
    nest_end(out, at);
}

static void add_text(struct buf *out, uint16_t type, const char *text)
{
    add_attribute(out, type, text, strlen(text) + 1);
}

static uint16_t nft_message(uint16_t type)
{
    return (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type);
}

/* --- answers --- */

/* The next attribute of a sequence, without its header. */
static bool next_attribute(struct bytes *in, uint16_t *ret_type, struct bytes *ret)
{
    struct str view;
    uint16_t length;
    if (!bytes_read_u16(in, &length) || !bytes_read_u16(in, ret_type) ||
        length < sizeof(struct nlattr) ||
        !bytes_read_view(in, length - sizeof(struct nlattr), &view)) {
        return false;
    }
    *ret = bytes_over(view.ptr, view.len);
    *ret_type &= (uint16_t)NLA_TYPE_MASK;
    return bytes_left(in) == 0 || bytes_read_view(in, padding_after(length), &view);
}

/* The first attribute of that type; false when there is none, or the sequence is broken before. */
static bool find_attribute(struct bytes in, uint16_t type, struct bytes *ret)
{
    uint16_t found;
    while (bytes_left(&in) > 0 && next_attribute(&in, &found, ret)) {
        if (found == type) {
            return true;
        }
    }
    return false;
}

static bool read_packets(struct bytes counter, uint64_t *ret)
{
    struct bytes value;
    uint64_t packets;
    if (!find_attribute(counter, NFTA_COUNTER_PACKETS, &value) || bytes_left(&value) != 8 ||
        !bytes_read_u64(&value, &packets)) {
        return false;
    }
    *ret = be64toh(packets);
    return true;
}

static bool read_key(struct bytes data, struct network_note *ret)
{
    struct bytes value;
    struct key key = {0};
    if (!find_attribute(data, NFTA_DATA_VALUE, &value)) {
        return false;
    }
    const size_t size = bytes_left(&value);
    if (size != sizeof key && size != KEY_BYTES_OTHERS) {
        return false;
    }
    memcpy(&key, value.next, size);
    *ret = (struct network_note){.interface = key.interface,
                                 .denial = {.address = ntohl(key.address),
                                            .port = ntohs(key.port),
                                            .protocol = key.protocol,
                                            .reason = (uint8_t)key.mark}};
    return size == KEY_BYTES_OTHERS ||
           ((key.protocol == IPPROTO_TCP || key.protocol == IPPROTO_UDP) &&
            key.mark >= NETWORK_DENIAL_PROTECTED && key.mark <= NETWORK_DENIAL_DEFAULT);
}

static bool parse_element(struct bytes element, struct network_note *ret)
{
    struct bytes key, expression, name, counter;
    return find_attribute(element, NFTA_SET_ELEM_KEY, &key) && read_key(key, ret) &&
           find_attribute(element, NFTA_SET_ELEM_EXPR, &expression) &&
           find_attribute(expression, NFTA_EXPR_NAME, &name) &&
           bytes_left(&name) == sizeof "counter" &&
           memcmp(name.next, "counter", sizeof "counter") == 0 &&
           find_attribute(expression, NFTA_EXPR_DATA, &counter) &&
           read_packets(counter, &ret->denial.packets);
}

static bool parse_elements(struct bytes in,
                           bool (*each)(void *context, const struct network_note *note),
                           void *context)
{
    struct bytes list, element;
    uint16_t type;
    if (!find_attribute(in, NFTA_SET_ELEM_LIST_ELEMENTS, &list)) {
        return true; /* an empty set */
    }
    while (bytes_left(&list) > 0) {
        struct network_note note;
        if (!next_attribute(&list, &type, &element) || type != NFTA_LIST_ELEM ||
            !parse_element(element, &note) || !each(context, &note)) {
            return false;
        }
    }
    return true;
}

/* The next message of a datagram: its header, and its payload behind struct nfgenmsg. Of control
 * messages the payload is empty. */
static bool next_message(struct bytes *in, struct nlmsghdr *ret_header, struct bytes *ret)
{
    struct str view;
    struct nlmsghdr header;
    if (!bytes_read_view(in, sizeof header, &view)) {
        return false;
    }
    memcpy(&header, view.ptr, sizeof header);
    if (header.nlmsg_len < sizeof header ||
        !bytes_read_view(in, header.nlmsg_len - sizeof header, &view)) {
        return false;
    }
    *ret_header = header;
    *ret = bytes_over(view.ptr, view.len);
    if (bytes_left(in) > 0 && !bytes_read_view(in, padding_after(header.nlmsg_len), &view)) {
        return false;
    }
    return header.nlmsg_type < NLMSG_MIN_TYPE ||
           bytes_read_view(ret, sizeof(struct nfgenmsg), &view);
}

bool network_notes_parse(const void *datagram, size_t size,
                         bool (*each)(void *context, const struct network_note *note),
                         void *context, bool *ret_is_last)
{
    struct bytes in = bytes_over(datagram, size);
    *ret_is_last = false;
    while (bytes_left(&in) > 0) {
        struct nlmsghdr header;
        struct bytes payload;
        if (!next_message(&in, &header, &payload)) {
            return false;
        }
        if (header.nlmsg_type == NLMSG_DONE) {
            uint32_t failure = 0; /* a negative errno, when the dump was cut short */
            *ret_is_last = bytes_read_u32(&payload, &failure) && failure == 0;
            return *ret_is_last;
        }
        if (header.nlmsg_type != nft_message(NFT_MSG_NEWSETELEM) ||
            !parse_elements(payload, each, context)) {
            return false;
        }
    }
    return true;
}

/* --- the kernel --- */

int network_notes_open(struct network_notes **ret, struct error *err)
{
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    const struct sockaddr_nl any = {.nl_family = AF_NETLINK};
    struct network_notes *notes = calloc(1, sizeof *notes);
    if (!notes) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the network's state");
    }
    notes->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (notes->fd == -1 || bind(notes->fd, (const struct sockaddr *)&any, sizeof any) == -1 ||
        setsockopt(notes->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == -1) {
        const int error_number = errno;
        network_notes_close(notes);
        return error_set_errno(err, STATUS_INTERNAL, error_number, "open an nfnetlink socket");
    }
    *ret = notes;
    return 0;
}

void network_notes_close(struct network_notes *notes)
{
    if (notes) {
        fd_close(&notes->fd);
        free(notes->list);
        free(notes);
    }
}

static int send_request(struct network_notes *notes, const struct buf *request)
{
    if (request->failed) {
        return -ENOMEM;
    }
    const ssize_t n = send(notes->fd, request->ptr, request->len, 0);
    return n == (ssize_t)request->len ? 0 : n == -1 ? -errno : -EMSGSIZE;
}

/* One datagram of the answer to the last request; what is left of an earlier one, which somebody
 * gave up on, is passed over. Returns its size, or a negative errno: the kernel's own when it
 * refused. An acknowledgement counts as a datagram. */
static ssize_t receive(struct network_notes *notes)
{
    for (int i = 0; i < ANSWERS_MAX; i++) {
        struct nlmsghdr header;
        struct nlmsgerr refusal;
        const ssize_t n = recv(notes->fd, notes->answer, sizeof notes->answer, MSG_TRUNC);
        if (n == -1) {
            return -errno;
        }
        if (n < (ssize_t)sizeof header || (size_t)n > sizeof notes->answer) {
            return -EBADMSG;
        }
        memcpy(&header, notes->answer, sizeof header);
        if (header.nlmsg_seq != notes->sequence) {
            continue;
        }
        if (header.nlmsg_type != NLMSG_ERROR) {
            return n;
        }
        if (n < (ssize_t)(sizeof header + sizeof refusal)) {
            return -EBADMSG;
        }
        memcpy(&refusal, notes->answer + sizeof header, sizeof refusal);
        return refusal.error < 0 ? refusal.error : n;
    }
    return -EBADMSG;
}

static bool list_add(void *context, const struct network_note *note)
{
    struct network_notes *notes = context;
    if (notes->count == notes->room) {
        const size_t room = notes->room ? notes->room * 2 : NETWORK_DENIALS_MAX;
        struct network_note *list =
            room <= 2 * NOTES_MAX ? realloc(notes->list, room * sizeof *list) : NULL;
        if (!list) {
            return false;
        }
        notes->list = list;
        notes->room = room;
    }
    notes->list[notes->count++] = *note;
    return true;
}

static int dump_set(struct network_notes *notes, const char *table, const char *set)
{
    struct buf request;
    buf_init(&request, REQUEST_BYTES_MAX);
    const size_t at = message_begin(&request, nft_message(NFT_MSG_GETSETELEM), NLM_F_DUMP,
                                    ++notes->sequence, NFPROTO_INET, 0);
    add_text(&request, NFTA_SET_ELEM_LIST_TABLE, table);
    add_text(&request, NFTA_SET_ELEM_LIST_SET, set);
    message_end(&request, at);
    int rc = send_request(notes, &request);
    buf_free(&request);
    bool is_last = false;
    notes->count = 0;
    for (int i = 0; rc == 0 && !is_last && i < ANSWERS_MAX; i++) {
        const ssize_t n = receive(notes);
        rc = n < 0 ? (int)n : 0;
        if (rc == 0 && !network_notes_parse(notes->answer, (size_t)n, list_add, notes, &is_last)) {
            rc = -EBADMSG;
        }
    }
    return rc == 0 && !is_last ? -EBADMSG : rc;
}

static int note_order(const void *a, const void *b)
{
    const struct network_note *x = a, *y = b;
    const uint64_t of_x[] = {x->interface, x->denial.address, x->denial.port, x->denial.protocol,
                             x->denial.reason};
    const uint64_t of_y[] = {y->interface, y->denial.address, y->denial.port, y->denial.protocol,
                             y->denial.reason};
    for (size_t i = 0; i < sizeof of_x / sizeof *of_x; i++) {
        if (of_x[i] != of_y[i]) {
            return of_x[i] < of_y[i] ? -1 : 1;
        }
    }
    return 0;
}

/* A set that grows while it is dumped may show an element twice, which could not be deleted so. */
static void list_make_unique(struct network_notes *notes)
{
    size_t kept = 0;
    if (notes->count > 0) {
        qsort(notes->list, notes->count, sizeof *notes->list, note_order);
    }
    for (size_t i = 0; i < notes->count; i++) {
        struct network_note *last = kept > 0 ? &notes->list[kept - 1] : NULL;
        if (last && note_order(last, &notes->list[i]) == 0) {
            const uint64_t packets = notes->list[i].denial.packets;
            last->denial.packets = packets > last->denial.packets ? packets : last->denial.packets;
        } else {
            notes->list[kept++] = notes->list[i];
        }
    }
    notes->count = kept;
}

static void add_element(struct buf *out, const struct network_note *note)
{
    const struct network_denial *denial = &note->denial;
    const struct key key = {.interface = note->interface,
                            .address = htonl(denial->address),
                            .protocol = denial->protocol,
                            .port = htons(denial->port),
                            .mark = denial->reason};
    const size_t element = nest_begin(out, NLA_F_NESTED | NFTA_LIST_ELEM);
    const size_t data = nest_begin(out, NLA_F_NESTED | NFTA_SET_ELEM_KEY);
    add_attribute(out, NFTA_DATA_VALUE, &key, denial->protocol ? sizeof key : KEY_BYTES_OTHERS);
    nest_end(out, data);
    nest_end(out, element);
}

/* `delete element` for the notes given or, without any, `flush set`. */
static void add_deletion(struct buf *out, uint16_t flags, uint32_t sequence, const char *table,
                         const char *set, const struct network_note *list, size_t count)
{
    const size_t at =
        message_begin(out, nft_message(NFT_MSG_DELSETELEM), flags, sequence, NFPROTO_INET, 0);
    add_text(out, NFTA_SET_ELEM_LIST_TABLE, table);
    add_text(out, NFTA_SET_ELEM_LIST_SET, set);
    if (count > 0) {
        const size_t elements = nest_begin(out, NLA_F_NESTED | NFTA_SET_ELEM_LIST_ELEMENTS);
        for (size_t i = 0; i < count; i++) {
            add_element(out, &list[i]);
        }
        nest_end(out, elements);
    }
    message_end(out, at);
}

static void add_batch_mark(struct buf *out, uint16_t type, uint32_t sequence)
{
    const size_t at = message_begin(out, type, 0, sequence, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    message_end(out, at);
}

/* Deletes these, and gives every interface its room again. */
static int delete_notes(struct network_notes *notes, const char *table, const char *set,
                        const struct network_note *list, size_t count)
{
    struct buf request;
    const uint32_t sequence = ++notes->sequence;
    buf_init(&request, REQUEST_BYTES_MAX);
    add_batch_mark(&request, NFNL_MSG_BATCH_BEGIN, sequence);
    add_deletion(&request, 0, sequence, table, NETWORK_SET_ROOM, NULL, 0);
    add_deletion(&request, NLM_F_ACK, sequence, table, set, list, count);
    add_batch_mark(&request, NFNL_MSG_BATCH_END, sequence);
    const int rc = send_request(notes, &request);
    buf_free(&request);
    const ssize_t n = rc < 0 ? rc : receive(notes);
    return n < 0 ? (int)n : 0;
}

/* How many packets were refused at all. */
static int read_refused(struct network_notes *notes, const char *table, uint64_t *ret)
{
    const uint32_t type = htonl(NFT_OBJECT_COUNTER);
    struct buf request;
    struct nlmsghdr header;
    struct bytes payload, data;
    buf_init(&request, REQUEST_BYTES_MAX);
    const size_t at =
        message_begin(&request, nft_message(NFT_MSG_GETOBJ), 0, ++notes->sequence, NFPROTO_INET, 0);
    add_text(&request, NFTA_OBJ_TABLE, table);
    add_text(&request, NFTA_OBJ_NAME, NETWORK_COUNTER_REFUSED);
    add_attribute(&request, NFTA_OBJ_TYPE, &type, sizeof type);
    message_end(&request, at);
    const int rc = send_request(notes, &request);
    buf_free(&request);
    const ssize_t n = rc < 0 ? rc : receive(notes);
    if (n < 0) {
        return (int)n;
    }
    struct bytes in = bytes_over(notes->answer, (size_t)n);
    return next_message(&in, &header, &payload) &&
                   header.nlmsg_type == nft_message(NFT_MSG_NEWOBJ) &&
                   find_attribute(payload, NFTA_OBJ_DATA, &data) && read_packets(data, ret)
               ? 0
               : -EBADMSG;
}

static int drain_set(struct network_notes *notes, const char *table, const char *set,
                     void (*each)(void *context, const struct network_note *note), void *context)
{
    int rc = dump_set(notes, table, set);
    list_make_unique(notes);
    for (size_t i = 0; rc == 0 && i < notes->count;) {
        const size_t left = notes->count - i;
        const size_t end = i + (left < DELETIONS_MAX ? left : DELETIONS_MAX);
        rc = delete_notes(notes, table, set, &notes->list[i], end - i);
        for (; rc == 0 && i < end; i++) {
            each(context, &notes->list[i]);
        }
    }
    return rc;
}

int network_notes_drain(struct network_notes *notes, const char *table,
                        void (*each)(void *context, const struct network_note *note), void *context,
                        struct error *err)
{
    /* Asked first: what is refused meanwhile shows at the next call. */
    uint64_t refused = 0;
    int rc = read_refused(notes, table, &refused);
    if (rc == 0 && refused == notes->refused) {
        return 0;
    }
    rc = rc < 0 ? rc : drain_set(notes, table, NETWORK_SET_NOTED, each, context);
    rc = rc < 0 ? rc : drain_set(notes, table, NETWORK_SET_OTHERS, each, context);
    if (rc < 0) {
        return error_set_errno(err, rc == -ENOMEM ? STATUS_RESOURCE_EXHAUSTED : STATUS_INTERNAL,
                               -rc, "nftables table '%s': read what was refused", table);
    }
    notes->refused = refused;
    return 0;
}

/* --- what is told --- */

static bool is_same(const struct network_denial *a, const struct network_denial *b)
{
    return a->address == b->address && a->port == b->port && a->protocol == b->protocol &&
           a->reason == b->reason;
}

void network_denials_add(struct network_denials *denials, const struct network_denial *denial)
{
    for (size_t i = 0; denial->protocol != 0 && i < denials->count; i++) {
        if (is_same(&denials->entries[i], denial)) {
            denials->entries[i].packets += denial->packets;
            return;
        }
    }
    if (denial->protocol == 0 || denials->count == NETWORK_DENIALS_MAX) {
        denials->others += denial->packets;
    } else {
        denials->entries[denials->count++] = *denial;
    }
}
