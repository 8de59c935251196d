// Continues texts by an engine, all of them at once, and by a model on one rank that computes each text anew for every
// token.
#pragma once

#include "engine/engine.hpp"
#include "model/sampled_text.hpp"
#include "model/text_cache.hpp"

#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// Draws the next token of the text with this number.
using DrawOfText = std::function<DrawnToken(std::size_t text, std::span<const double> logits)>;

/// Pieces of the prompts first, then a token of each text at a time. Returns the rows of the last pass. Collective.
inline std::int64_t continue_all(Engine& engine, const Model& model, const TextShape& shape,
                                 std::vector<SampledText>& texts, const DrawOfText& draw) {
  const TextCache cache(model, shape);
  std::int64_t last_rows = 0;
  for (;;) {
    std::vector<TextRows> rows;
    std::vector<std::size_t> of_rows;
    const auto begins = [](const SampledText& text) { return !text.end() && text.begins(); };
    const bool prompt = std::ranges::any_of(texts, begins);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].end() || (prompt && !texts[i].begins())) continue;
      rows.push_back(texts[i].next_rows(static_cast<std::int32_t>(i), prompt ? shape.piece : 1));
      of_rows.push_back(i);
    }
    if (rows.empty()) return last_rows;
    const TextPass pass = pass_over(rows);
    last_rows = pass.batch.length;
    const std::vector<DrawnToken> drawn = engine.continue_texts(
        pass, prompt ? ProgramPhase::prompt : ProgramPhase::token,
        [&](std::size_t segment, std::span<const double> logits) { return draw(of_rows[segment], logits); }, 0);
    for (std::size_t s = 0; s < of_rows.size(); ++s) {
      texts[of_rows[s]].computed(rows[s].count);
      if (pass.draws[s]) texts[of_rows[s]].append(drawn[s]);
    }
  }
}

/// The same of one text by the whole model of one rank, without a program and without a cache.
inline std::vector<std::int32_t> continued_anew(const Model& model, SampledText text) {
  while (!text.end()) {
    const TextPass pass = pass_over({{.tokens = text.tokens(), .first = 0, .count = std::ssize(text.tokens())}});
    const at::Tensor logits = model.logits(to_tensors(pass.batch, model.config()))[-1].to(at::kDouble).cpu();
    text.append(text.draw(values_of<double>(logits)));
  }
  return text.tokens();
}

}  // namespace lockstep
