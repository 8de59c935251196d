#include "model/text_pass.hpp"

#include <algorithm>

namespace lockstep {

TextPass pass_over(const std::vector<TextRows>& texts) {
  TextPass pass;
  Batch& batch = pass.batch;
  batch.samples = 1;
  batch.documents = {0};
  for (const TextRows& text : texts) {
    const auto rows = text.tokens.subspan(static_cast<std::size_t>(text.first), static_cast<std::size_t>(text.count));
    batch.tokens.insert(batch.tokens.end(), rows.begin(), rows.end());
    for (std::int64_t row = 0; row < text.count; ++row)
      batch.positions.push_back(static_cast<std::int32_t>(text.first + row));
    batch.documents.push_back(std::ssize(batch.tokens));
    pass.slots.push_back(text.slot);
    pass.draws.push_back(text.first + text.count == std::ssize(text.tokens));
    pass.length = std::max(pass.length, std::ssize(text.tokens));
  }
  batch.length = std::ssize(batch.tokens);
  batch.labels.assign(batch.tokens.size(), ignored_label);
  return pass;
}

}  // namespace lockstep
