#include "gateway/services/admin_target.h"

#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

int admin_target_find(struct request *r, enum store_kind kind, const char *uid, const char *name,
                      struct error *err)
{
    int status = admin_require(r, err);
    ProtobufCMessage *found = NULL;
    if (!status) {
        status = resource_find(r->gateway->store, kind, uid, name, &r->arena, &found, err);
    }
    r->touched.target = found;
    return status;
}

int admin_target_by_options(struct request *r, enum store_kind kind, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    resource_options(r->message, &uid, &name);
    return admin_target_find(r, kind, uid, name, err);
}

int admin_target_by_metadata(struct request *r, enum store_kind kind, struct error *err)
{
    const Meta__Metadata *metadata = resource_metadata(r->message);
    return admin_target_find(r, kind, metadata ? metadata->uid : "", metadata ? metadata->name : "",
                             err);
}
