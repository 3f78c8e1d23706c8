#ifndef CLI_LOCAL_TREE_H
#define CLI_LOCAL_TREE_H

#include "policy/base/status.h"

/* Moves all that is in the folder `from` into the folder `to`, both open and of one file system.
 * Folders are merged, files and links replace what has their name. `from` was filled by somebody
 * who is not trusted: a link in `to` is never gone through, and pipes, sockets and devices stay
 * where they are. `path` is how errors call `to`. 0, or FAILED_PRECONDITION with the name that is
 * in the way. */
int local_tree_merge(int from_fd, int to_fd, const char *path, struct error *err);

#endif
