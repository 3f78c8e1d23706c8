#ifndef GATEWAY_TEXT_SUGGEST_H
#define GATEWAY_TEXT_SUGGEST_H

#include "policy/base/suggest.h"

#endif
