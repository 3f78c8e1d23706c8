#include "gateway/edge/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DAY_SECONDS = 86400,
    AUTHORITY_DAYS = 3652,
    SERVER_DAYS = 825,       /* the longest that common clients accept */
    BACKDATE_SECONDS = 3600, /* for clients whose clock is slow */
    DOMAIN_BYTES_MAX = 200,
    SERIAL_BYTES = 16,
};

static int openssl_error(struct error *err, const char *step)
{
    char reason[256] = "unknown reason";
    unsigned long code = ERR_peek_last_error();
    if (code) {
        ERR_error_string_n(code, reason, sizeof reason);
    }
    ERR_clear_error();
    return error_set(err, STATUS_INTERNAL, "%s: %s", step, reason);
}

/* ---- files ---- */

static int write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w == -1 && errno != EINTR) {
            return -1;
        }
        p += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
    return 0;
}

/* By way of a new file beside it, so that no reader sees a half one, nor a key with a wide mode. */
static int write_file(const char *path, BIO *content, mode_t mode, struct error *err)
{
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof temporary) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "write '%s': the path is too long", path);
    }
    if (unlink(temporary) == -1 && errno != ENOENT) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "remove '%s'", temporary);
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "create '%s'", temporary);
    }
    char *bytes;
    long len = BIO_get_mem_data(content, &bytes);
    bool is_ok =
        fchmod(fd, mode) != -1 && write_all(fd, bytes, (size_t)len) != -1 && fsync(fd) != -1;
    int error_number = errno;
    (void)close(fd);
    if (is_ok && rename(temporary, path) == -1) {
        is_ok = false;
        error_number = errno;
    }
    if (!is_ok) {
        (void)unlink(temporary);
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, error_number, "write '%s'", path);
    }
    return 0;
}

static int write_key(const char *path, EVP_PKEY *key, struct error *err)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    int rc = bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
                 ? write_file(path, bio, 0600, err)
                 : openssl_error(err, "encode a private key");
    BIO_free(bio);
    return rc;
}

/* second may be NULL. */
static int write_certificates(const char *path, X509 *first, X509 *second, struct error *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    bool is_ok = bio && PEM_write_bio_X509(bio, first) == 1 &&
                 (!second || PEM_write_bio_X509(bio, second) == 1);
    int rc = is_ok ? write_file(path, bio, 0644, err) : openssl_error(err, "encode a certificate");
    BIO_free(bio);
    return rc;
}

static X509 *read_certificate(const char *path)
{
    BIO *bio = BIO_new_file(path, "r");
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return x;
}

static EVP_PKEY *read_key(const char *path)
{
    BIO *bio = BIO_new_file(path, "r");
    /* An empty passphrase, so that an encrypted key fails instead of asking on the terminal. */
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)(uintptr_t) "") : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return key;
}

/* ---- X.509 ---- */

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool is_ok = extension && X509_add_ext(x, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_ok;
}

static bool set_serial(X509 *x)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1) {
        return false;
    }
    bytes[0] &= 0x7f; /* positive (RFC 5280 §4.1.2.2) */
    bytes[0] |= 0x40;
    BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool is_ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return is_ok;
}

/* Everything but issuer, extensions and signature. */
static X509 *new_certificate(EVP_PKEY *key, const char *common_name, int64_t now_s, int64_t days)
{
    X509 *x = X509_new();
    X509_NAME *name = x ? X509_get_subject_name(x) : NULL;
    time_t from = (time_t)(now_s - BACKDATE_SECONDS);
    time_t to = (time_t)(now_s + days * DAY_SECONDS);
    bool is_ok = x && X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
                 ASN1_TIME_set(X509_getm_notBefore(x), from) &&
                 ASN1_TIME_set(X509_getm_notAfter(x), to) &&
                 X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
                                            (const unsigned char *)"Cordium", -1, -1, 0) == 1 &&
                 X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                            (const unsigned char *)common_name, -1, -1, 0) == 1 &&
                 X509_set_pubkey(x, key) == 1;
    if (!is_ok) {
        X509_free(x);
        return NULL;
    }
    return x;
}

static X509 *build_authority(EVP_PKEY *key, int64_t now_s)
{
    X509 *x = new_certificate(key, "Cordium gateway authority", now_s, AUTHORITY_DAYS);
    bool is_ok = x && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
                 add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                 add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                 add_extension(x, x, NID_ext_key_usage, "serverAuth") &&
                 add_extension(x, x, NID_subject_key_identifier, "hash") &&
                 X509_sign(x, key, EVP_sha256()) > 0;
    if (!is_ok) {
        X509_free(x);
        return NULL;
    }
    return x;
}

static X509 *build_server(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, const char *domain,
                          int64_t now_s)
{
    char names[4 * DOMAIN_BYTES_MAX + 128];
    int n = snprintf(names, sizeof names,
                     "DNS:localhost,IP:127.0.0.1,IP:::1,DNS:%s,DNS:octelium-api.%s,DNS:*.%s",
                     domain, domain, domain);
    if (n < 0 || (size_t)n >= sizeof names) {
        return NULL;
    }
    /* A common name holds 64 bytes at most (X.520 ub-common-name); clients read the list of names.
     */
    X509 *x = new_certificate(key, "Cordium gateway", now_s, SERVER_DAYS);
    bool is_ok = x && X509_set_issuer_name(x, X509_get_subject_name(ca)) == 1 &&
                 add_extension(x, ca, NID_basic_constraints, "critical,CA:FALSE") &&
                 add_extension(x, ca, NID_key_usage, "critical,digitalSignature") &&
                 add_extension(x, ca, NID_ext_key_usage, "serverAuth") &&
                 add_extension(x, ca, NID_subject_key_identifier, "hash") &&
                 add_extension(x, ca, NID_authority_key_identifier, "keyid:always") &&
                 add_extension(x, ca, NID_subject_alt_name, names) &&
                 X509_sign(x, ca_key, EVP_sha256()) > 0;
    if (!is_ok) {
        X509_free(x);
        return NULL;
    }
    return x;
}

/* ---- what others call ---- */

int certificate_make_authority(const char *ca_path, const char *ca_key_path, int64_t now_s,
                               struct error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = key ? build_authority(key, now_s) : NULL;
    int rc = x ? write_key(ca_key_path, key, err) : openssl_error(err, "make an authority");
    if (!rc) {
        rc = write_certificates(ca_path, x, NULL, err);
    }
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

/* The name goes into OpenSSL's extension syntax, where a comma would start another name. */
static bool is_domain(const char *domain)
{
    size_t n = strlen(domain);
    return n > 0 && n <= DOMAIN_BYTES_MAX &&
           strspn(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n && domain[0] != '.' &&
           domain[0] != '-' && domain[n - 1] != '.' && !strstr(domain, "..");
}

int certificate_issue(const char *ca_path, const char *ca_key_path, const char *domain,
                      const char *certificate_path, const char *key_path, int64_t now_s,
                      struct error *err)
{
    if (!is_domain(domain)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "domain '%.200s' is not a DNS name in lower case", domain);
    }
    int rc = 0;
    X509 *ca = read_certificate(ca_path);
    EVP_PKEY *ca_key = read_key(ca_key_path);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = NULL;
    if (!ca || !ca_key) {
        rc = error_set(err, STATUS_FAILED_PRECONDITION, "read the authority '%s' and its key '%s'",
                       ca_path, ca_key_path);
    } else if (X509_check_private_key(ca, ca_key) != 1) {
        ERR_clear_error();
        rc = error_set(err, STATUS_FAILED_PRECONDITION,
                       "key '%s' does not belong to authority '%s'", ca_key_path, ca_path);
    } else {
        x = key ? build_server(key, ca, ca_key, domain, now_s) : NULL;
        rc = x ? write_key(key_path, key, err) : openssl_error(err, "make a server certificate");
    }
    if (!rc) {
        rc = write_certificates(certificate_path, x, ca, err);
    }
    X509_free(x);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    X509_free(ca);
    return rc;
}

bool certificate_ends_within(const char *path, int64_t now_s, int64_t seconds)
{
    X509 *x = read_certificate(path);
    if (!x) {
        return true;
    }
    time_t then = (time_t)(now_s + seconds);
    bool ends = X509_cmp_time(X509_get0_notAfter(x), &then) <= 0;
    X509_free(x);
    return ends;
}
