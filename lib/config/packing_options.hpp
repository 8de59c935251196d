// Names of the ways to pack documents into samples. The packing itself: data/packing.hpp, data/sample_source.hpp.
#pragma once

namespace lockstep {

enum class SamplePacking { windows, none, sequential, multipack, best_fit };  // plug-ins add names

/// LongDocuments says how documents that do not fit into a row are handled.
enum class LongDocuments {
  split,     // into rows; every label counts
  truncate,  // keep the beginning that fills a row
  drop,
};

}  // namespace lockstep
