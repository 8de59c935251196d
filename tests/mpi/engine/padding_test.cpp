// Rows that the vocabulary's matrices have in memory behind their own: whatever a gradient holds there, training is the
// same as without them, and in weights they stay zero.
#include "composition_job.hpp"

#include <ATen/ops/eq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sub.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(padding)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr std::int64_t multiple = 16;  // 29 rows have memory for 32, and the parts of 2, 3, 4 ranks for 16 each
constexpr std::int64_t steps = 2;
constexpr int most_sharers = 4;  // of the blocks of these models
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

void pad(Architecture& architecture) { pad_vocabulary(architecture, multiple); }

/// The values in memory behind a buffer of a unit.
at::Tensor behind(const Unit& unit, const at::Tensor& buffer) {
  return at::from_blob(static_cast<std::byte*>(buffer.mutable_data_ptr()) + buffer.nbytes(), {unit.padding()},
                       buffer.options());
}

/// Memory that is taken next holds no numbers, nor does what is behind the gradients that are kept.
void spoil_memory(const Job& job) {
  std::vector<at::Tensor> spoilt;
  for (const Unit* unit : job.model().units()) {
    if (unit->gradient().defined() && !unit->is_cut()) behind(*unit, unit->gradient()).fill_(not_a_number);
    for (int i = 0; i < 8; ++i)
      spoilt.push_back(
          at::full({unit->whole_length() + unit->padding()}, not_a_number, at::TensorOptions().dtype(at::kDouble)));
  }
}

std::vector<Composition> ways() {
  const int ranks = world().size();
  std::vector<Composition> ways;
  for (const char* family : {"gpt2", "llama", "tied llama"}) {
    std::vector<Composition> of_family{
        {.replicas = ranks},
        {.replicas = ranks, .accumulate = Accumulate::sums, .micro_batch = 1},
        {.replicas = ranks, .bucket_bytes = std::int64_t{1} << 30},
        {.replicas = ranks, .in_backward = true},
    };
    if (ranks > 1)
      of_family.insert(of_family.end(), {{.shards = ranks, .micro_batch = 1},
                                         {.shards = ranks, .zero = 2, .accumulate = Accumulate::shards}});
    if (ranks > 1 && ranks <= most_sharers) of_family.push_back({.micro_batch = 4, .stages = ranks});
    for (Composition& how : of_family) {
      how.family = family;
      ways.push_back(how);
    }
  }
  if (ranks > 1 && ranks <= most_sharers) {
    ways.push_back({.family = "shared llama", .tensor = ranks});
    ways.push_back({.family = "tied llama", .tensor = ranks, .sequence = true});
  }
  return ways;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_behind_the_vocabulary_are_never_read_and_stay_zero_in_weights) {
  if (!this_device().properties().is_host) return;  // memory that the test cannot touch
  for (const Composition& how : ways()) {
    const std::optional<double> clip = how.in_backward ? std::nullopt : std::optional(0.5);
    std::vector<StepOutcome> want;
    std::map<std::string, at::Tensor> weights;
    {
      Job plain(all_ranks(), how, Precision::fp64, clip);
      for (std::int64_t step = 0; step < steps; ++step) want.push_back(plain.step(step));
      for (const LogicalTensor& tensor : plain.tensors()) weights[tensor.name] = plain.whole_weight(tensor);
    }
    Job padded(all_ranks(), how, Precision::fp64, clip, {}, pad);
    for (std::int64_t step = 0; step < steps; ++step) {
      spoil_memory(padded);
      const StepOutcome got = padded.step(step);
      const StepOutcome& right = want[static_cast<std::size_t>(step)];
      BOOST_TEST(got.updated, how.text());
      BOOST_TEST(std::abs(got.loss - right.loss) <= 1e-13 * std::abs(right.loss), how.text());
      BOOST_TEST(std::abs(got.gradient_norm - right.gradient_norm) <= 1e-12 * right.gradient_norm, how.text());
    }
    for (const LogicalTensor& tensor : padded.tensors()) {
      const double error = norm_of(padded.whole_weight(tensor).sub(weights[tensor.name]));
      BOOST_TEST(error <= 1e-13 * norm_of(weights[tensor.name]), how.text()
                                                                     << ": " << tensor.name << " is off by " << error);
    }
    bool has_padding = false;
    for (const Unit* unit : padded.model().units()) {
      has_padding = has_padding || unit->padding() > 0;
      if (!unit->is_cut()) BOOST_TEST(behind(*unit, unit->compute()).eq(0).all().item<bool>(), how.text());
    }
    BOOST_TEST((has_padding || how.stages > 2), how.text());  // a stage in the middle has no such matrix
  }
}

BOOST_AUTO_TEST_CASE(a_plan_counts_rows_behind_the_vocabulary_in_memory_and_not_in_exchanges) {
  const Composition how{.replicas = world().size()};
  const Job plain(all_ranks(), how, Precision::fp64, {}), padded(all_ranks(), how, Precision::fp64, {}, {}, pad);
  if (!this_device().properties().is_host) return;
  constexpr std::int64_t width = 14, more = 3 * width * 8;  // gpt2's head is its embedding, which ends on a border
  for (const SlotKind kind : {SlotKind::master, SlotKind::gradient}) {
    const std::int64_t before = plain.planned(Arena::device, kind), now = padded.planned(Arena::device, kind);
    BOOST_TEST(now > before);
    BOOST_TEST(now - before <= more);
  }
  BOOST_TEST(padded.planned(Arena::device, SlotKind::optimizer_state) ==
             plain.planned(Arena::device, SlotKind::optimizer_state));
  const auto exchanged = [](const Job& job) {
    std::vector<std::int64_t> bytes;
    for (const Action& action : job.program().classes.front().actions)
      if (is_collective(action.op)) bytes.push_back(action.bytes);
    return bytes;
  };
  BOOST_TEST(exchanged(padded) == exchanged(plain));
}

BOOST_AUTO_TEST_SUITE_END()
