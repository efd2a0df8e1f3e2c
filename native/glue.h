#include "base/abi_types.h"
