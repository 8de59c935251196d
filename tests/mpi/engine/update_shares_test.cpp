// Optimizers that need more than the parts that ranks have: Muon, whose matrices go to owners and come back, and
// Adafactor, which sums up over parts. Weights are those of one rank, state that ranks hold alike is the same to the
// bit, and what ranks said is what the program has.
#include "composition_job.hpp"
#include "harness/share.hpp"

#include <ATen/ops/sub.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(update_shares)

using namespace lockstep;
using namespace lockstep::test;

namespace {

/// Ways in which matrices are cut.
std::vector<Composition> of_this_world() {
  std::vector<Composition> all;
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (int zero = 1; zero <= 3; ++zero)
      all.push_back({.shards = ranks, .zero = zero, .family = zero == 2 ? "gpt2" : "shared llama"});
    if (ranks == 2 || ranks == 3 || ranks == 4)
      for (const char* family : {"shared llama", "shared gpt2"})
        all.push_back({.family = family, .tensor = ranks, .sequence = ranks == 3});
  }
  all.push_back({.shards = 3, .bucket_bytes = 1 << 20, .family = "mixtral"});  // several matrices of experts a unit
  all.push_back({.family = "grouped llama", .tensor = 4});                     // some have the same key heads
  all.push_back({.shards = 2, .family = "grouped llama", .tensor = 4});
  all.push_back({.shards = 2, .family = "shared llama", .tensor = 2});
  all.push_back({.replicas = 2, .shards = 2, .family = "shared gpt2"});
  all.push_back({.shards = 4, .inner = 2, .family = "llama"});
  all.push_back({.shards = 2, .family = "deep llama", .stages = 2});
  all.push_back({.replicas = 2, .bucket_bytes = 1 << 20, .family = "deep gpt2", .stages = 2});  // of each kind
  all.push_back({.shards = 2, .family = "shared llama", .ulysses = 2, .folds = true});
  all.push_back({.shards = 2, .family = "shared llama", .offload = {.optimizer = true}});
  all.push_back({.shards = 4, .family = "four experts", .experts = 2});
  all.push_back({.replicas = 2, .family = "four experts", .experts = 2});
  all.push_back({.replicas = 2, .family = "shared llama"});  // nothing is cut
  std::erase_if(all, [](const Composition& how) { return how.ranks() != test::world().size(); });
  std::vector<Composition> of_each;
  for (const OptimizerName name : {OptimizerName::muon, OptimizerName::adafactor})
    for (Composition& how : all) {
      how.optimizer = name;
      of_each.push_back(how);
    }
  return of_each;
}

/// Every rank that has a part of a tensor has the whole means of rows and columns. Collective.
void check_means_are_alike(Job& job, const Composition& how) {
  std::map<std::string, std::string> mine;
  for (const Parameter* parameter : job.model().parameters()) {
    const std::vector<StateDescription>& kept = parameter->unit().kept();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i].of == StateShape::elements) continue;
      const at::Tensor state = parameter->state()[i].cpu();
      const std::span<std::byte> bytes = bytes_of(state);
      mine[fmt::format("{} of {} {}", kept[i].name, parameter->name(), to_text(parameter->state_places()[i].box))] =
          std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  BOOST_TEST(mine.empty() == (how.optimizer == OptimizerName::muon), how.text());
  std::set<std::string> names;
  std::string told;
  for (const auto& [name, values] : mine) told += name + "\n";
  for (const std::string& of_rank : test::world().all_gather(told))
    for (std::size_t begin = 0, end = 0; begin < of_rank.size(); begin = end + 1) {
      end = of_rank.find('\n', begin);
      names.insert(of_rank.substr(begin, end - begin));
    }
  for (const std::string& name : names) {
    std::set<std::string> values;
    const auto own = mine.find(name);
    for (std::string& value : test::world().all_gather(own == mine.end() ? std::string() : own->second))
      if (!value.empty()) values.insert(std::move(value));
    BOOST_TEST(values.size() == 1u, how.text() << ": " << name << " differs");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_are_those_of_one_rank_however_matrices_are_cut) {
  Share share(3), backward(2);
  for (Composition how : of_this_world()) {
    if (!share.takes()) continue;
    const bool also_in_backward = backward.takes();
    const NotedMargins noted;
    Job one(solo_communicator(), {.micro_batch = global_batch, .family = how.family, .optimizer = how.optimizer},
            Precision::fp64, std::nullopt);
    for (std::int64_t step = 0; step < 3; ++step) one.step(step);
    for (const bool in_backward : {false, true}) {
      if (in_backward && (how.stages > 1 || how.offload.optimizer || !also_in_backward)) continue;
      how.in_backward = in_backward;
      Job job(all_ranks(), how, Precision::fp64, std::nullopt);
      for (std::int64_t step = 0; step < 3; ++step) {
        job.step(step);
        const auto fault = job.trace_fault(step);
        BOOST_TEST(!fault.has_value(), how.text() << ", step " << step << ": " << fault.value_or(""));
      }
      for (const LogicalTensor& tensor : job.tensors()) {
        const auto tensors = one.tensors();
        const at::Tensor expected = one.whole_weight(*std::ranges::find(tensors, tensor.name, &LogicalTensor::name));
        const double error = norm_of(at::sub(job.whole_weight(tensor), expected));
        BOOST_TEST(error <= 1e-9 * norm_of(expected), how.text() << ": " << tensor.name << " differs by " << error);
      }
      check_means_are_alike(job, how);
    }
    BOOST_TEST(least_routing_margin() >= least_margin, how.text());
  }
}

BOOST_AUTO_TEST_CASE(what_is_cut_is_updated_by_ranks_together_and_nothing_else_is) {
  for (const Composition& how : of_this_world()) {
    const Job job(all_ranks(), how, Precision::fp32, std::nullopt);
    const StepProgram& program = job.program();
    int together = 0;
    for (const Action& action : program.of(test::world().rank()))
      if (action.op == Op::optimizer && exchanges_within(action)) {
        ++together;
        const std::vector<BlockExchange>& said = exchanges_of(program, action);
        if (how.optimizer == OptimizerName::muon) BOOST_TEST(said.size() == 2u, how.text());
        for (const BlockExchange& exchange : said)  // of vectors only few numbers are
          BOOST_TEST((exchange.kind == (how.optimizer == OptimizerName::muon ? BlockExchange::Kind::all_to_all
                                                                             : BlockExchange::Kind::all_reduce)),
                     how.text());
      }
    BOOST_TEST((together > 0) == (how.shards > 1 || how.tensor > 1), how.text() << ": " << together);
  }
}

BOOST_AUTO_TEST_SUITE_END()
