#ifndef SERVICES_ONESHOT_FILE_KINDS_H
#define SERVICES_ONESHOT_FILE_KINDS_H

/* What cordium-files says of each file; see oneshot_files.h. */
enum oneshot_file_kind {
    ONESHOT_FILE_REGULAR,
    ONESHOT_FILE_LINK,
    ONESHOT_FILE_PIPE,
    ONESHOT_FILE_SOCKET,
    ONESHOT_FILE_DEVICE,
    ONESHOT_FILE_TOO_LARGE,
    ONESHOT_FILE_UNREADABLE,
    ONESHOT_FILE_KIND_COUNT,
};

#endif
