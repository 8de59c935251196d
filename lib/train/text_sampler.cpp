#include "train/text_sampler.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "comm/together.hpp"
#include "model/text_cache.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

namespace lockstep {

/// A text that is being continued.
struct TextSampler::Running {
  std::size_t number = 0;
  SampledText text;
  double begin_s = 0, end_s = 0;
};

SampleRecord record_of(const Prompt& prompt, const GeneratedText& text, std::int64_t step) {
  const auto tokens = static_cast<double>(text.ids.size());
  return {.step = step,
          .prompt = prompt.text,
          .prompt_tokens = std::ssize(prompt.ids),
          .text = text.text,
          .tokens = std::ssize(text.ids),
          .ids = {text.ids.begin(), text.ids.end()},
          .log_probabilities = text.log_probabilities,
          .end = std::string(name_of(text.end.value())),
          .tokens_per_s = text.seconds > 0 ? tokens / text.seconds : 0};
}

// Some decoders drop the space before a first word: a token that is a space has a text only behind another one.
std::vector<std::int32_t> ids_with_text(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> all, ids;
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) all.push_back(id);
  const auto first = std::ranges::find_if(all, [&](std::int32_t id) { return !tokenizer.decode({&id, 1}).empty(); });
  if (first == all.end()) return {};
  const std::string before = tokenizer.decode({&*first, 1});
  std::ranges::copy_if(all, std::back_inserter(ids), [&](std::int32_t id) {
    const std::array<std::int32_t, 2> behind{*first, id};
    return tokenizer.decode(behind) != before;
  });
  return ids;
}

std::vector<std::int32_t> stop_tokens_of(const std::string& generation_config, const Tokenizer& tokenizer) {
  if (!generation_config.empty()) {
    const Json config = parse_json(generation_config, "generation_config.json");
    const Json ids = config.is_object() ? config.value("eos_token_id", Json()) : Json();
    std::vector<std::int32_t> tokens;
    for (const Json& id : ids.is_array() ? ids : ids.is_null() ? Json::array() : Json::array({ids})) {
      const auto token = id.is_number_integer() ? id.get<std::int64_t>() : -1;
      if (token < 0 || token >= std::numeric_limits<std::int32_t>::max())
        throw Error(ExitCode::input,
                    fmt::format("eos_token_id of generation_config.json has {}, which is no token id", to_text(id)));
      tokens.push_back(static_cast<std::int32_t>(token));
    }
    if (!ids.is_null()) return tokens;
  }
  const auto end = tokenizer.end_of_text();
  return end ? std::vector{*end} : std::vector<std::int32_t>{};
}

TextSampler::TextSampler(const SampleOptions& options, const TextShape& shape, Engine& engine, const Model& model,
                         const Tokenizer& tokenizer, std::vector<std::int32_t> stop_tokens, Session& session,
                         std::int64_t step)
    : options_(options),
      shape_(shape),
      engine_(engine),
      model_(model),
      tokenizer_(tokenizer),
      rules_{.candidates = ids_with_text(tokenizer),
             .stop_tokens = std::move(stop_tokens),
             .positions = shape.positions,
             .decode = [&tokenizer](std::span<const std::int32_t> ids) { return tokenizer.decode(ids); }},
      session_(session),
      step_(step) {
  std::erase_if(rules_.candidates, [&](std::int32_t id) { return id >= model.config().vocabulary; });
  // What ends a text may be drawn although it stands for no text.
  for (const std::int32_t token : rules_.stop_tokens)
    if (token >= 0 && token < model.config().vocabulary) rules_.candidates.push_back(token);
  std::ranges::sort(rules_.candidates);
  const auto repeated = std::ranges::unique(rules_.candidates);
  rules_.candidates.erase(repeated.begin(), repeated.end());
}

std::vector<GeneratedText> TextSampler::generate(const std::vector<Prompt>& prompts,
                                                 const std::optional<Follower>& follower) {
  const auto count = static_cast<std::size_t>(options_.count), at_once = static_cast<std::size_t>(shape_.texts);
  std::vector<GeneratedText> made;
  std::optional<TextCache> cache;
  together(session_.world(), {}, [&] {
    session_.enter(Phase::sample, step_);
    cache.emplace(model_, shape_);
  });
  bool wanted = true;
  for (std::size_t first = 0; wanted && first < prompts.size() * count; first += at_once) {
    std::vector<Running> texts;
    together(session_.world(), {},
             [&] { texts = begin(prompts, first, std::min(first + at_once, prompts.size() * count)); });
    while (wanted && std::ranges::any_of(texts, [](const Running& one) { return !one.text.end(); })) {
      const std::vector<Running*> drawn = pass(texts);
      if (follower) wanted = hand_out(drawn, *follower);
    }
    for (const Running& one : texts) made.push_back(made_of(one));
  }
  return made;
}

/// Whether texts are still wanted.
bool TextSampler::hand_out(const std::vector<Running*>& drawn, const Follower& follower) const {
  const auto is_told = [&](const Running* one) { return follower.each_token || one->text.end(); };
  if (std::ranges::none_of(drawn, is_told)) return true;
  return run_on_rank0(session_.world(), "hand out the texts", [&]() -> std::string {
           for (const Running* const one : drawn)
             if (is_told(one)) follower.take(made_of(*one));
           return follower.wants_more() ? "more" : "";
         }) == "more";
}

GeneratedText TextSampler::made_of(const Running& one) const {
  return {.number = one.number,
          .prompt = one.number / static_cast<std::size_t>(options_.count),
          .text = one.text.text(),
          .ids = {one.text.added().begin(), one.text.added().end()},
          .log_probabilities = one.text.log_probabilities(),
          .end = one.text.end(),
          .seconds = one.end_s - one.begin_s};
}

/// A text depends on its prompt and on its number among the texts of that; the largest seed goes on with the smallest.
std::vector<TextSampler::Running> TextSampler::begin(const std::vector<Prompt>& prompts, std::size_t first,
                                                     std::size_t end) const {
  const auto count = static_cast<std::size_t>(options_.count);
  std::vector<Running> texts;
  for (std::size_t number = first; number < end; ++number) {
    SampleOptions options = options_;
    options.seed = static_cast<std::int64_t>(static_cast<std::uint64_t>(options.seed) + number % count);
    texts.push_back({.number = number,
                     .text = SampledText(prompts[number / count].ids, options, rules_),
                     .begin_s = monotonic_seconds(),
                     .end_s = 0});
    texts.back().end_s = texts.back().begin_s;
  }
  return texts;
}

/// The next pieces of prompts or, if all are computed, the next token of each text. Returns the texts that got a token.
std::vector<TextSampler::Running*> TextSampler::pass(std::vector<Running>& texts) {
  const auto goes_on = [](const Running& one) { return !one.text.end(); };
  const bool prompt = std::ranges::any_of(texts, [&](const Running& one) { return goes_on(one) && one.text.begins(); });
  std::vector<TextRows> rows;
  std::vector<Running*> of_rows;
  for (std::size_t slot = 0; slot < texts.size(); ++slot) {
    if (!goes_on(texts[slot]) || (prompt && !texts[slot].text.begins())) continue;
    rows.push_back(texts[slot].text.next_rows(static_cast<std::int32_t>(slot), prompt ? shape_.piece : 1));
    of_rows.push_back(&texts[slot]);
  }
  const TextPass pass = pass_over(rows);
  const std::vector<DrawnToken> drawn = engine_.continue_texts(
      pass, prompt ? ProgramPhase::prompt : ProgramPhase::token,
      [&](std::size_t segment, std::span<const double> logits) { return of_rows[segment]->text.draw(logits); }, step_);
  std::vector<Running*> got;
  for (std::size_t i = 0; i < of_rows.size(); ++i) {
    Running& one = *of_rows[i];
    one.text.computed(rows[i].count);
    if (!pass.draws[i]) continue;
    one.text.append(drawn[i]);
    one.end_s = monotonic_seconds();
    got.push_back(&one);
  }
  return got;
}

}  // namespace lockstep
