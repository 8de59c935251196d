#include "optim/groups.hpp"

#include "base/error.hpp"
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
  options.groups = {{NamePattern::parse("bias$"), 3, 0.5}, {NamePattern::parse("attn"), 2, {}}};
  BOOST_TEST(Model3().scales(options) == (std::vector<double>{2, 3, 1}));
  BOOST_TEST(Model3().decays(options) == (std::vector<double>{0.1, 0.5, 0.1}));
}

BOOST_AUTO_TEST_CASE(a_group_of_which_earlier_ones_take_every_tensor_is_noted) {
  OptimizerOptions options;
  options.groups = {{NamePattern::parse("attn"), 2, {}}, {NamePattern::parse("bias$"), 3, {}}};
  const std::vector<std::string> notes = check_groups({"h.0.attn.weight", "h.0.attn.bias", "wte.weight"}, options);
  BOOST_REQUIRE_EQUAL(notes.size(), 1u);
  BOOST_TEST(notes[0] == "optimizer.groups: 'bias$' has no effect: earlier groups take all its tensors");
  BOOST_TEST(check_groups({"h.0.attn.weight", "lm_head.bias"}, options).empty());
  BOOST_CHECK_THROW(check_groups({"wte.weight"}, options), Error);
}

BOOST_AUTO_TEST_CASE(a_pattern_that_matches_nothing_is_an_error_that_names_it) {
  OptimizerOptions options;
  options.groups = {{NamePattern::parse("mlp\\.gate"), 2, {}}};
  const auto names = [](std::string option, std::string pattern) {
    return [=](const Error& error) {
      const std::string text = error.what();
      return error.code() == ExitCode::usage && text.find(option) != std::string::npos &&
             text.find(pattern) != std::string::npos;
    };
  };
  const std::vector<std::string> all{"h.0.attn.weight", "h.0.attn.bias", "wte.weight"};
  BOOST_CHECK_EXCEPTION(check_groups(all, options), Error, names("optimizer.groups", "mlp\\.gate"));
  BOOST_TEST(Model3().scales(options) == (std::vector<double>{1, 1, 1}));  // another stage may have such a tensor
  options.groups.clear();
  options.decay_exclude = {NamePattern::parse("^norm")};
  BOOST_CHECK_EXCEPTION(check_groups(all, options), Error, names("optimizer.decay_exclude", "^norm"));
}

BOOST_AUTO_TEST_SUITE_END()
