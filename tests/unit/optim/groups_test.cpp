#include "optim/groups.hpp"

#include "base/error.hpp"
#include "optim/optimizer.hpp"
#include "tensor/unit.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(parameter_groups)

using namespace lockstep;

namespace {

struct Model3 {
  Unit unit{"u",
            {{"h.0.attn.weight", Role::qkv, {2, 2}, {}, {}},
             {"h.0.attn.bias", Role::qkv_bias, {2}, {}, {}},
             {"wte.weight", Role::token_embedding, {3, 2}, {}, {}}},
            Precision::fp32};
  std::vector<Parameter*> parameters{unit.parameters()[0].get(), unit.parameters()[1].get(),
                                     unit.parameters()[2].get()};
  std::vector<double> decays(const OptimizerOptions& options) const {
    std::vector<double> values;
    for (const ParameterSettings& settings : settings_of(parameters, options)) values.push_back(settings.weight_decay);
    return values;
  }
  std::vector<double> scales(const OptimizerOptions& options) const {
    std::vector<double> values;
    for (const ParameterSettings& settings : settings_of(parameters, options)) values.push_back(settings.lr_scale);
    return values;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(matrices_decay_and_vectors_do_not_unless_all_shall) {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  BOOST_TEST(Model3().decays(options) == (std::vector<double>{0.1, 0, 0.1}));
  options.decay = Decay::all;
  BOOST_TEST(Model3().decays(options) == (std::vector<double>{0.1, 0.1, 0.1}));
  options.decay_exclude = {NamePattern::parse("wte")};
  BOOST_TEST(Model3().decays(options) == (std::vector<double>{0.1, 0.1, 0}));
}

BOOST_AUTO_TEST_CASE(the_first_matching_group_decides_and_may_set_a_decay_of_its_own) {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  options.groups = {{"biases", {.match = NamePattern::parse("bias$"), .lr_scale = 3, .weight_decay = 0.5}},
                    {"attention", {.match = NamePattern::parse("attn"), .lr_scale = 2}}};
  BOOST_TEST(Model3().scales(options) == (std::vector<double>{2, 3, 1}));
  BOOST_TEST(Model3().decays(options) == (std::vector<double>{0.1, 0.5, 0.1}));
}

BOOST_AUTO_TEST_CASE(a_group_of_which_earlier_ones_take_every_tensor_is_noted) {
  OptimizerOptions options;
  options.groups = {{"attention", {.match = NamePattern::parse("attn"), .lr_scale = 2}},
                    {"biases", {.match = NamePattern::parse("bias$"), .lr_scale = 3}}};
  const std::vector<std::string> notes =
      check_groups({"h.0.attn.weight", "h.0.attn.bias", "wte.weight"}, options).notes;
  BOOST_REQUIRE_EQUAL(notes.size(), 1u);
  BOOST_TEST(notes[0] == "optimizer.groups.biases has no effect: earlier groups take all its tensors");
  BOOST_TEST(check_groups({"h.0.attn.weight", "lm_head.bias"}, options).notes.empty());
  BOOST_CHECK_THROW(check_groups({"wte.weight"}, options), Error);
}

BOOST_AUTO_TEST_CASE(a_pattern_that_matches_nothing_is_an_error_that_names_it) {
  OptimizerOptions options;
  options.groups = {{"gates", {.match = NamePattern::parse("mlp\\.gate"), .lr_scale = 2}}};
  const auto names = [](std::string option, std::string pattern) {
    return [=](const Error& error) {
      const std::string text = error.what();
      return error.code() == ExitCode::usage && text.find(option) != std::string::npos &&
             text.find(pattern) != std::string::npos;
    };
  };
  const std::vector<std::string> all{"h.0.attn.weight", "h.0.attn.bias", "wte.weight"};
  BOOST_CHECK_EXCEPTION(check_groups(all, options), Error, names("optimizer.groups.gates", "mlp\\.gate"));
  BOOST_TEST(Model3().scales(options) == (std::vector<double>{1, 1, 1}));  // another stage may have such a tensor
  options.unmatched = Unmatched::warn;
  options.decay_exclude = {NamePattern::parse("^norm"), NamePattern::parse("bias")};
  const GroupRemarks remarks = check_groups(all, options);
  const std::vector<std::string> expected{
      "optimizer.groups.gates: pattern 'mlp\\.gate' matches none of the model's 3 parameters; it has no effect",
      "optimizer.decay_exclude: pattern '^norm' matches none of the model's 3 parameters; it has no effect"};
  BOOST_TEST(remarks.warnings == expected, boost::test_tools::per_element());
  BOOST_TEST(remarks.notes.empty());
  options.unmatched = Unmatched::refuse;
  options.groups.clear();
  options.decay_exclude = {NamePattern::parse("^norm")};
  BOOST_CHECK_EXCEPTION(check_groups(all, options), Error, names("optimizer.decay_exclude", "^norm"));
}

BOOST_AUTO_TEST_CASE(a_pattern_that_matches_nothing_is_answered_with_the_part_of_a_name_that_it_may_mean) {
  const std::vector<std::string> names{"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
                                       "model.layers.1.self_attn.q_proj.weight", "lm_head.weight"};
  OptimizerOptions options;
  for (const auto& [pattern, meant] : {std::pair("q_porj", "q_proj"),
                                       {"self_atn\\.q_proj", "self_attn.q_proj"},
                                       {"^lm_haed", "lm_head"},
                                       {"wte|embed_token$", "embed_tokens"},
                                       {"model.layers.1.q_proj", "model.layers.1.self_attn.q_proj.weight"}}) {
    options.frozen = {NamePattern::parse(pattern)};
    const std::string hint = fmt::format("did you mean '{}'? patterns are searched for", meant);
    BOOST_CHECK_EXCEPTION(check_groups(names, options), Error,
                          [&](const Error& error) { return error.hint().starts_with(hint); });
  }
  options.unmatched = Unmatched::warn;
  options.frozen = {NamePattern::parse("q_porj"), NamePattern::parse("q_[xyz]roj"), NamePattern::parse("zebra")};
  const std::vector<std::string> expected{
      "optimizer.frozen: pattern 'q_porj' matches none of the model's 4 parameters; it has no effect; did you mean "
      "'q_proj'?",
      "optimizer.frozen: pattern 'q_[xyz]roj' matches none of the model's 4 parameters; it has no effect",
      "optimizer.frozen: pattern 'zebra' matches none of the model's 4 parameters; it has no effect"};
  BOOST_TEST(check_groups(names, options).warnings == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_group_changes_what_it_says_of_the_rule_and_its_rates_are_peaks) {
  OptimizerOptions options;
  options.name = OptimizerName::muon;
  options.lr = 0.01;
  options.muon_lr = 0.04;
  options.groups = {
      {"own", {.match = NamePattern::parse("bias"), .lr = 0.002, .betas = std::array{0.8, 0.99}, .eps = 1e-6}},
      {"plain", {.match = NamePattern::parse("wte"), .name = OptimizerName::sgd, .lr_scale = 3, .momentum = 0.9}}};
  const std::vector<ParameterSettings> settings = settings_of(Model3().parameters, options);
  BOOST_TEST((settings[0].rule.name == OptimizerName::muon && settings[0].lr_scale == 4));
  BOOST_TEST((settings[1].rule.name == OptimizerName::adamw && settings[1].rule.eps == 1e-6));
  BOOST_TEST((settings[1].rule.betas == std::array{0.8, 0.99} && settings[1].lr_scale == 0.2));
  BOOST_TEST((settings[2].rule.name == OptimizerName::sgd && settings[2].lr_scale == 3));
  BOOST_TEST((settings[2].rule.momentum == 0.9 && settings[2].rule.betas == options.betas));
}

BOOST_AUTO_TEST_CASE(rules_that_keep_the_same_state_are_one_way) {
  OptimizerOptions options;
  const auto ways = [&] { return states_of(options, DType::f32); };
  const auto group = [](OptimizerGroup changes) {
    changes.match = NamePattern::parse("x");
    return changes;
  };
  options.groups = {{"a", group({.betas = std::array{0.1, 0.2}})}, {"b", group({.lr = 1, .eps = 1})}};
  BOOST_TEST(ways().size() == 1u);
  options.groups.emplace_back("c", group({.state_dtype = StateType::bf16}));
  options.groups.emplace_back("d", group({.name = OptimizerName::sgd}));
  options.groups.emplace_back("e", group({.name = OptimizerName::sgd, .momentum = 0.5}));
  options.groups.emplace_back("f", group({.name = OptimizerName::sgd, .momentum = 0.9}));
  const UpdateStates states = ways();
  BOOST_REQUIRE_EQUAL(states.size(), 4u);
  BOOST_TEST((states[1] == std::vector<StateDescription>{{"exp_avg", DType::bf16}, {"exp_avg_sq", DType::bf16}}));
  BOOST_TEST((states[2].empty() && states[3] == std::vector<StateDescription>{{"momentum_buffer", DType::f32}}));
  options.groups.clear();
  options.name = OptimizerName::muon;
  options.groups = {{"a", group({.muon_steps = 7})}};  // of all matrices of a unit
  BOOST_TEST(ways().size() == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
