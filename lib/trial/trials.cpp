#include "trial/trials.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <iterator>

namespace lockstep::trial {

const std::vector<Trial>& all_trials() {
  static const std::vector<Trial> all = [] {
    std::vector<Trial> list;
    for (const auto& part :
         {product_trials, block_trials, attention_trials, expert_trials, loss_trials, update_trials, exchange_trials})
      std::ranges::move(part(), std::back_inserter(list));
    return list;
  }();
  return all;
}

const Trial& trial_of(std::string_view kernel) {
  const auto found = std::ranges::find(all_trials(), kernel, &Trial::kernel);
  if (found == all_trials().end()) fail(ExitCode::bug, "there is no trial of the kernel {}", kernel);
  return *found;
}

}  // namespace lockstep::trial
