#include "model/text_cache.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <exception>

namespace lockstep {

namespace {

void take_back(const Model& model) {
  for (std::size_t i = 0; i < model.block_count(); ++i)
    if (model.has_block(i)) model.block(i).lend_cache({}, 0);
}

}  // namespace

TextCache::TextCache(const Model& model, const TextShape& texts) : model_(model) {
  try {
    for (std::size_t i = 0; i < model.block_count(); ++i)
      if (model.has_block(i)) model.block(i).lend_cache(model.block(i).new_cache(texts), texts.positions);
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    take_back(model);
    throw Error(ExitCode::resources,
                fmt::format("cannot take memory for the keys and values of {} with {}: out of memory",
                            counted(texts.texts, "text"), counted(texts.positions, "position")),
                "use a smaller sample.batch or sample.max_tokens, or more ranks along parallel.tp");
  }
}

TextCache::~TextCache() { take_back(model_); }

}  // namespace lockstep
