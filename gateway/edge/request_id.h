#ifndef EDGE_REQUEST_ID_H
#define EDGE_REQUEST_ID_H

/* What a request's records in the audit log and its answer have in common, so that the request of
 * somebody who asks why he was refused is found. A client does not choose it: what it sends by that
 * name is ignored, else one request could pass for another. */

#define REQUEST_ID_HEADER "x-request-id"

enum { REQUEST_ID_SIZE = 33 }; /* with the NUL */

/* 128 random bits, lower-case hex. */
void request_id_make(char id[REQUEST_ID_SIZE]);

#endif
