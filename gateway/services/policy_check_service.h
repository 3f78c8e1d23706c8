#ifndef SERVICES_POLICY_CHECK_SERVICE_H
#define SERVICES_POLICY_CHECK_SERVICE_H

#include "gateway/request.h"

/* Policies that are not in force yet: cordium.ext.v1.PolicyService's Check and Test. For
 * administrators. Nothing is changed; the work is done beside the event loop. */

enum {
    POLICY_CHECK_TEXT_MAX_BYTES = 1 << 20, /* of all files of a request: some 2,500 policies */
    POLICY_CHECK_FILES_MAX = 1000,
    POLICY_TESTS_MAX = 1000,
    POLICY_TESTS_RULES_MAX = 20000, /* that the answer tells the use of */
    POLICY_TESTS_TIME_MAX_MS = 2000,
    POLICY_TESTS_IN_FORCE_MAX_BYTES = 8 << 20, /* of policies in force, as YAML */
};

void policy_check_handle(struct request *r);
void policy_test_handle(struct request *r);

#endif
