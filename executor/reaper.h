#ifndef EXECUTOR_REAPER_H
#define EXECUTOR_REAPER_H

/* Starts the process that removes what may take long: the trees in the trash, and what a build
 * left beside the image it became. A byte on the returned pipe wakes it, and its end ends the
 * process. fd or -errno. */
int reaper_start(int trash_fd, int images_fd);

#endif
