#ifndef EXECUTOR_INIT_HOME_FILL_H
#define EXECUTOR_INIT_HOME_FILL_H

/* Copies the image's home directory into a new storage's: regular files, directories and symbolic
 * links only, within bounds on count, depth and bytes. Runs as the workspace's user. Errors leave
 * the rest uncopied: a home without a .bashrc is no reason to refuse a workspace. */
void home_fill(int source_fd, const char *target);

#endif
