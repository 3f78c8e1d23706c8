#ifndef EXECUTOR_INIT_TEMPLATE_H
#define EXECUTOR_INIT_TEMPLATE_H

#include <stdbool.h>

/* The launcher's own root: one read-only tmpfs with what every sandbox is made of.
 *
 *   /root /storage /tmpfs /empty    places to attach to
 *   /dev                            the device nodes, read-only, shared by all
 *   /etc/{hosts,hostname,resolv.conf,resolv.none}
 *   /tools                          the config's tools_dir, becomes /opt/cordium
 *   /build                          the root of a build sandbox                                 */
struct template_config {
    bool is_build;
    const char *tools_dir;   /* empty = none */
    const char *build_root;  /* "/" = the host's own /usr */
    const char *resolvers;   /* text of resolv.conf */
    const char *build_hosts; /* lines added to /etc/hosts */
};

/* Leaves the host's mounts for the template. 0, or -errno with the step's name. */
int template_enter(const struct template_config *config, const char **ret_step);

#endif
