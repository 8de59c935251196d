// How documents become samples, as options name it. What they do: data/packing.hpp, data/sample_source.hpp.
#pragma once

namespace lockstep {

enum class SamplePacking { windows, none, sequential, multipack, best_fit };  // and of plug-ins

/// LongDocuments says what becomes of documents that do not fit into a row.
enum class LongDocuments {
  split,     // into rows: every label counts
  truncate,  // their beginning fills a row
  drop,
};

}  // namespace lockstep
