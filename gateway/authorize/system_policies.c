#include "gateway/authorize/system_policies.h"

static const struct system_policy policies[] = {
    {"allow-all", "{\"metadata\":{\"description\":\"Allows every request that nothing denies\"},"
                  "\"spec\":{\"rules\":[{\"name\":\"allow\",\"effect\":\"ALLOW\","
                  "\"condition\":{\"matchAny\":true}}]}}"},
    {"deny-all", "{\"metadata\":{\"description\":\"Denies every request\"},"
                 "\"spec\":{\"rules\":[{\"name\":\"deny\",\"effect\":\"DENY\","
                 "\"condition\":{\"matchAny\":true}}]}}"},
    {ADMIN_POLICY_NAME,
     "{\"metadata\":{\"description\":\"Makes whoever it is attached to an administrator\"},"
     "\"spec\":{\"rules\":[{\"name\":\"allow\",\"effect\":\"ALLOW\","
     "\"condition\":{\"matchAny\":true}}]}}"},
    {ADMIN_API_POLICY_NAME,
     "{\"metadata\":{\"description\":\"Makes an administrator, before any denial at priority 0\"},"
     "\"spec\":{\"rules\":[{\"name\":\"allow\",\"effect\":\"ALLOW\",\"priority\":-1,"
     "\"condition\":{\"match\":\"ctx.namespace.metadata.name == 'octelium-api'\"}}]}}"},
    {"octelium-api-read-only",
     "{\"metadata\":{\"description\":\"Get and List methods only\"},"
     "\"spec\":{\"rules\":[{\"name\":\"reads\",\"effect\":\"ALLOW\",\"priority\":-1,"
     "\"condition\":{\"match\":\"ctx.request.grpc.method.matches('^(Get|List)[A-Z]')\"}},"
     "{\"name\":\"rest\",\"effect\":\"DENY\",\"condition\":{\"matchAny\":true}}]}}"},
};

const struct system_policy *system_policy_at(size_t i)
{
    return i < sizeof policies / sizeof policies[0] ? &policies[i] : NULL;
}
