#include "optim/loss_scale.hpp"

#include "config/train_config.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(loss_scale)

using namespace lockstep;

namespace {

/// The scale before each step and after the last; x: gradients overflow.
std::vector<double> scales(double start, const LossScaleOptions& options, std::string_view steps) {
  LossScale now{.scale = start};
  std::vector<double> seen{start};
  for (const char step : steps) {
    now = after_step(now, options, step != 'x');
    seen.push_back(now.scale);
  }
  return seen;
}

}  // namespace

// Against torch.amp.GradScaler itself: tests/e2e/loss_scale_test.py.
BOOST_AUTO_TEST_CASE(it_grows_after_so_many_good_steps_in_a_row_and_falls_with_each_other) {
  const LossScaleOptions options{.growth_factor = 2, .backoff_factor = 0.25, .growth_interval = 3};
  BOOST_TEST((scales(64, options, "...xx..x.......") ==
              std::vector<double>{64, 64, 64, 128, 32, 8, 8, 8, 2, 2, 2, 4, 4, 4, 8, 8}));
}

BOOST_AUTO_TEST_CASE(it_never_leaves_the_range_of_fp32) {
  const LossScaleOptions options{.growth_factor = 16, .growth_interval = 1};
  const double most = 0x1p125;
  BOOST_TEST((scales(most, options, "...") == std::vector<double>(4, most)));
}

BOOST_AUTO_TEST_SUITE_END()
