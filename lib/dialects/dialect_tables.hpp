// The tables of the dialects. Each stands in a file of its own.
#pragma once

#include "dialects/dialect.hpp"

namespace lockstep {

const Dialect& forgather_dialect();
const Dialect& transformers_dialect();
const Dialect& xorl_dialect();

}  // namespace lockstep
