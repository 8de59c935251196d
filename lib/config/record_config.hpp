// Declaration of the options in config/record_options.hpp, and the rules between them.
#pragma once

#include "config/record_options.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"

namespace lockstep {

/// Declares the options. Call it within the section `data`.
void describe_records(Declaration& visit, RecordOptions& records);
void check_records(const RecordOptions& records, Problems& problems);  // Local, pure
/// Returns the record options for DATASET.json: the values in effect, without options of other record forms. Pure.
Json json_of(const RecordOptions& records);

}  // namespace lockstep
