// The caches of a model's decoder blocks: keys and values of earlier positions of the texts that it continues. A step
// program knows them as slots (SlotKind::cache).
#pragma once

#include "architecture/block_profile.hpp"
#include "model/model.hpp"

namespace lockstep {

/// Takes the memory of the caches of this rank's blocks, and lends it to them as long as it lives.
class TextCache {
 public:
  /// Local. Throws Error(resources) if there is not enough memory. `model` must outlive it.
  TextCache(const Model& model, const TextShape& texts);
  ~TextCache();
  TextCache(const TextCache&) = delete;
  TextCache& operator=(const TextCache&) = delete;

 private:
  const Model& model_;
};

}  // namespace lockstep
