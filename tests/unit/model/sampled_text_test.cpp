#include "model/sampled_text.hpp"

#include "base/error.hpp"
#include "model/model.hpp"
#include "small_models.hpp"

#include <ATen/core/Tensor.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <set>

BOOST_AUTO_TEST_SUITE(generation)

using namespace lockstep;

namespace {

/// All weights 0: all logits are equal.
Model even_model() {
  Model model(small_gpt2(), Precision::fp32);
  for (const auto& unit : model.units()) unit->master().zero_();
  return model;
}

/// A text by a model on one rank, which computes the whole text for each token: what the engine's must equal.
SampledText continued(const Model& model, const std::vector<std::int32_t>& prompt, const SampleOptions& options,
                      TextRules rules = {}) {
  if (rules.positions == 0) rules.positions = model.config().max_positions;
  SampledText text(prompt, options, rules);
  while (!text.end()) {
    const TextPass pass = pass_over({{.tokens = text.tokens(), .first = 0, .count = std::ssize(text.tokens())}});
    const at::Tensor logits = model.logits(to_tensors(pass.batch, model.config())).select(0, -1).to(at::kDouble);
    text.append(text.draw(values_of<double>(logits)));
  }
  return text;
}

std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, const TextRules& rules = {}) {
  return continued(model, prompt, options, rules).tokens();
}

}  // namespace

BOOST_AUTO_TEST_CASE(temperature_0_takes_the_most_likely_token_of_the_logits) {
  Model model(small_llama(), Precision::fp32);
  model.initialise(3);
  for (const auto& unit : model.units()) unit->master().mul_(5);  // logits that differ
  SampleOptions options;
  options.max_tokens = 6;
  options.temperature = 0;
  const std::vector<std::int32_t> text = generate(model, {1, 7}, options);
  BOOST_TEST(text.size() == 8u);
  for (std::size_t seen = 2; seen < text.size(); ++seen) {
    Batch batch = counting_batch(1, static_cast<std::int64_t>(seen), 29);
    batch.tokens.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(seen));
    const at::Tensor logits = model.logits(to_tensors(batch, model.config()));
    BOOST_TEST(logits[-1].argmax().item<std::int64_t>() == text[seen]);
  }
}

BOOST_AUTO_TEST_CASE(a_draw_depends_on_seed_and_prompt_and_continues_a_shorter_one) {
  Model model(small_gpt2(), Precision::fp32);
  model.initialise(3);
  SampleOptions options;
  options.max_tokens = 12;
  options.temperature = 1;
  const auto text = generate(model, {1, 7}, options);
  BOOST_TEST(text == generate(model, {1, 7}, options));
  options.seed = 1;
  BOOST_TEST(text != generate(model, {1, 7}, options));
  options.seed = 0;
  options.max_tokens = 5;
  BOOST_TEST(std::vector<std::int32_t>(text.begin(), text.begin() + 7) == generate(model, {1, 7}, options));
}

BOOST_AUTO_TEST_CASE(equal_logits_are_drawn_evenly_among_the_top_k) {
  const std::vector<double> logits(23, 0.5);
  SampleOptions options;
  options.top_k = 4;
  std::vector<int> counts(23);
  for (options.seed = 0; options.seed < 400; ++options.seed)
    ++counts[static_cast<std::size_t>(SampledText({5}, options, {.positions = 9}).draw(logits).id)];
  for (std::size_t token = 0; token < 4; ++token) BOOST_TEST((counts[token] > 60 && counts[token] < 140));
  BOOST_TEST(counts[0] + counts[1] + counts[2] + counts[3] == 400);
}

BOOST_AUTO_TEST_CASE(a_text_ends_at_its_length_at_the_positions_at_a_stop_token_or_at_a_stop_text) {
  const Model model = even_model();  // 32 positions
  SampleOptions options;
  options.max_tokens = 50;
  options.temperature = 0;
  const auto ended = [&](const TextRules& rules = {}) { return continued(model, {5, 6}, options, rules); };
  const SampledText whole = ended();
  BOOST_TEST((whole.end() == EndOfText::positions && whole.tokens().size() == 32u));
  options.max_tokens = 30;
  BOOST_TEST((ended().end() == EndOfText::length && ended().tokens().size() == 32u));
  options.max_tokens = 7;
  BOOST_TEST((ended().end() == EndOfText::length && ended().added().size() == 7u));
  const SampledText stopped = ended({.stop_tokens = {4, 0}});
  BOOST_TEST((stopped.end() == EndOfText::stop_token));
  BOOST_TEST(stopped.tokens() == (std::vector<std::int32_t>{5, 6, 0}));
  options.stop = {"zz", "bab"};
  const auto letters = [](std::span<const std::int32_t> ids) {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) text += i % 2 == 0 ? "a" : "b";
    return text;
  };
  const SampledText by_text = ended({.decode = letters});
  BOOST_TEST((by_text.end() == EndOfText::stop_text));
  BOOST_TEST(by_text.text() == "a");  // of "abab"
  BOOST_TEST(by_text.added().size() == 4u);
}

// The decoder of Llama 2 drops the space before the first word of what it is given.
BOOST_AUTO_TEST_CASE(a_text_reads_as_behind_its_prompt_and_a_stop_text_is_found_at_any_length) {
  const TextRules rules{.positions = 500, .decode = [](std::span<const std::int32_t> ids) {
                          std::string text;
                          for (const std::int32_t id : ids)
                            text += id == 0 ? "" : id == 1 ? " a" : id == 2 ? " b" : "c";
                          return text.starts_with(' ') ? text.substr(1) : text;
                        }};
  SampleOptions options;
  options.max_tokens = 400;
  options.stop = {"c bc"};
  for (const int length : {0, 1, 7, 8, 9, 200}) {
    SampledText text({1, 2}, options, rules);
    std::string wanted;
    for (int i = 0; i < length; ++i) {
      text.append({.id = 1});
      wanted += " a";
    }
    BOOST_TEST(text.text() == wanted);
    for (const std::int32_t id : {3, 0, 0, 2}) {  // some tokens have no text
      BOOST_TEST(!text.end());
      text.append({.id = id});
    }
    BOOST_TEST(!text.end());
    text.append({.id = 3});
    BOOST_TEST((text.end() == EndOfText::stop_text));
    BOOST_TEST(text.text() == wanted);
  }
}

BOOST_AUTO_TEST_CASE(a_prompt_that_fills_the_positions_has_ended_and_a_longer_one_is_an_error) {
  BOOST_TEST((SampledText({1, 2, 3}, SampleOptions{}, {.positions = 3}).end() == EndOfText::positions));
  BOOST_CHECK_EXCEPTION(SampledText({1, 2, 3}, SampleOptions{}, {.positions = 2}), Error, [](const Error& e) {
    return e.code() == ExitCode::input &&
           std::string(e.what()) == "cannot continue a prompt of 3 tokens: the model has 2 positions";
  });
}

BOOST_AUTO_TEST_CASE(top_p_draws_among_the_fewest_tokens_that_have_this_probability) {
  const std::vector<double> logits{std::log(0.1), std::log(0.5), std::log(0.25), std::log(0.15)};
  SampleOptions options;
  options.temperature = 1;
  const auto drawn = [&](double top_p) {
    options.top_p = top_p;
    std::set<std::int32_t> tokens;
    for (options.seed = 0; options.seed < 200; ++options.seed)
      tokens.insert(SampledText({5}, options, {.positions = 9}).draw(logits).id);
    return tokens;
  };
  BOOST_TEST((drawn(0.4) == std::set<std::int32_t>{1}));
  BOOST_TEST((drawn(0.6) == std::set<std::int32_t>{1, 2}));
  BOOST_TEST((drawn(0.8) == std::set<std::int32_t>{1, 2, 3}));
  BOOST_TEST((drawn(1) == std::set<std::int32_t>{0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(frequencies_of_draws_are_the_probabilities_of_many_tokens_in_any_order) {
  constexpr std::size_t tokens = 700;  // more than are put in order at once
  std::vector<double> logits(tokens);
  for (std::size_t i = 0; i < tokens; ++i) logits[i] = 0.001 * static_cast<double>(i * 389 % tokens);
  SampleOptions options;
  options.temperature = 0.5;
  double sum = 0, low = 0;
  for (std::size_t i = 0; i < tokens; ++i) {
    const double weight = std::exp(logits[i] / options.temperature);
    sum += weight;
    if (i < tokens / 2) low += weight;
  }
  int below = 0;
  constexpr int draws = 2000;
  for (options.seed = 0; options.seed < draws; ++options.seed) {
    const DrawnToken token = SampledText({5}, options, {.positions = 9}).draw(logits);
    if (token.id < static_cast<std::int32_t>(tokens / 2)) ++below;
  }
  BOOST_TEST(std::abs(below / static_cast<double>(draws) - low / sum) < 0.05);
}

BOOST_AUTO_TEST_CASE(the_log_probability_of_a_draw_is_the_models_own) {
  const std::vector<double> logits{0.3, -1.2, 2.5};
  SampleOptions options;
  options.temperature = 3;
  options.top_k = 1;
  const DrawnToken token = SampledText({5}, options, {.positions = 9}).draw(logits);
  BOOST_TEST(token.id == 2);
  BOOST_TEST(token.log_probability == 2.5 - std::log(std::exp(0.3) + std::exp(-1.2) + std::exp(2.5)),
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(only_candidates_are_drawn_however_likely_other_tokens_are) {
  const Model model = even_model();
  const std::vector<std::int32_t> candidates{2, 3, 11};
  SampleOptions options;
  options.max_tokens = 30;
  for (const double temperature : {0.0, 1.0}) {
    for (const std::optional<std::int64_t> top_k : {std::optional<std::int64_t>(), std::optional<std::int64_t>(5)}) {
      options.temperature = temperature;
      options.top_k = top_k;
      const auto text = generate(model, {5}, options, {.candidates = candidates});
      const std::set<std::int32_t> drawn(text.begin() + 1, text.end());
      // without them temperature 0 takes token 0, the first of equal ones, and a draw takes others as well
      BOOST_TEST((drawn == (temperature > 0 ? std::set<std::int32_t>{2, 3, 11} : std::set<std::int32_t>{2})));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_empty_prompt_is_an_error) {
  BOOST_CHECK_THROW(SampledText({}, SampleOptions{}, {.positions = 32}), Error);
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_are_an_error) {
  const SampledText text({1}, SampleOptions{}, {.positions = 32});
  const std::vector<double> logits{1, std::numeric_limits<double>::quiet_NaN(), 0};
  BOOST_CHECK_EXCEPTION(text.draw(logits), Error, [](const Error& e) { return e.code() == ExitCode::numerics; });
}

BOOST_AUTO_TEST_CASE(a_text_of_no_tokens_has_ended) {
  SampleOptions options;
  options.max_tokens = 0;
  BOOST_TEST((SampledText({4}, options, {.positions = 32}).end() == EndOfText::length));
}

BOOST_AUTO_TEST_SUITE_END()
