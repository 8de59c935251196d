// The declaration of config/record_options.hpp and the rules over them.
#pragma once

#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/record_options.hpp"

namespace lockstep {

/// Within the section `data`.
void describe_records(Declaration& visit, RecordOptions& records);
void check_records(const RecordOptions& records, Problems& problems);  // Local, pure
/// What DATASET.json says of them: the values that count, those of other forms left out. Pure.
Json json_of(const RecordOptions& records);

}  // namespace lockstep
