// The kernels of the plug-in as entries of the table. Products: cuda/product_entries.hpp.
#pragma once

#include "tensor/functions/kernel_table.hpp"

namespace lockstep::cuda {

/// The tables of the plug-in. Entries without kernels are null.
const KernelTables& kernel_tables();

}  // namespace lockstep::cuda
