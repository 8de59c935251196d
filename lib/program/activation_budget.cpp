// The memory of activations while an action runs is a sum over blocks, each of whose terms its own choice decides. So
// the programs in which all blocks choose alike tell all terms, one row for each action; what is sought are choices of
// least work under which no row exceeds the budget. They are made block after block, following up all partial choices
// but those that another one is as good as in work and in every row that later blocks add to.
#include "program/activation_budget.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "program/memory_estimate.hpp"
#include "program/memory_walk.hpp"
#include "program/passes.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using Choice = std::optional<KeepSet>;  // of a block that is recomputed: what it keeps

/// Not to recompute, and each keep-set that differs from those before it for some block. Projections and mlp go
/// together, so that there are fewer partial choices to follow up.
std::vector<Choice> choices_for(const ModelPlan& plan) {
  std::vector<Choice> choices{std::nullopt};
  const auto alike = [](const BlockPlan& block, KeepSet a, KeepSet b) {
    const Recomputation one = recomputation_of(block, a), other = recomputation_of(block, b);
    return one.kept_bytes == other.kept_bytes && one.workspace_bytes == other.workspace_bytes &&
           one.flops == other.flops;
  };
  for (std::size_t index = 0; index < KeepSet::count; ++index) {
    const KeepSet keeps = KeepSet::at(index);
    if (keeps.has(Keep::projections) != keeps.has(Keep::mlp)) continue;
    const auto adds_nothing = [&](const Choice& before) {
      return before && std::ranges::all_of(plan.blocks, [&](const BlockPlan& block) {
               return !block.recomputable || alike(block, *before, keeps);
             });
    };
    if (std::ranges::none_of(choices, adds_nothing)) choices.emplace_back(keeps);
  }
  return choices;
}

/// The training program as far as activations go, where all blocks that may choose alike.
StepProgram program_of(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options, const Choice& choice) {
  const PipelinePlan pipeline = pipeline_of(mesh, plan, options, ProgramPhase::training);
  const StepProgram expanded = expand(schedule_training(mesh, pipeline), plan, pipeline);
  const RecomputePolicy policy = choice ? RecomputePolicy{1, *choice} : RecomputePolicy::none;
  return allocate(gather_weights(recompute(expanded, plan, policy), plan, options.shards), plan);
}

/// Bytes of activations while an action runs, by the block whose choice decides on them.
struct Loads {
  std::int64_t fixed = 0;
  std::map<int, std::int64_t> of_blocks;
};
/// An action of a block or of a boundary. Either backward is the same.
using Moment = std::tuple<Op, Subject, MicroBatch>;

Moment moment_of(const Action& action) {
  return {action.op == Op::backward_input ? Op::backward : action.op, action.subject, action.micro_batch};
}

/// The block whose choice decides how long a slot lives; −1: none of this rank.
int decider_of(const Slot& slot, const std::vector<int>& blocks) {
  if (slot.kind == SlotKind::boundary_gradient) return -1;
  const int block = slot.subject.index - (slot.kind == SlotKind::boundary ? 1 : 0);
  return std::ranges::binary_search(blocks, block) ? block : -1;
}

std::map<Moment, Loads> loads_of(const RankClass& ranks, const std::vector<int>& blocks) {
  std::map<Moment, Loads> all;
  Loads now;
  const auto change = [&](int index, int sign) {
    const Slot& slot = ranks.slots[static_cast<std::size_t>(index)];
    if (!is_activation(slot.kind)) return;
    const int decider = decider_of(slot, blocks);
    (decider < 0 ? now.fixed : now.of_blocks[decider]) += sign * slot.bytes;
  };
  walk_memory(ranks, change, [&](int position) {
    const Action& action = ranks.actions[static_cast<std::size_t>(position)];
    if (action.subject.kind == Subject::Kind::block || action.subject.kind == Subject::Kind::boundary)
      all[moment_of(action)] = now;
  });
  return all;
}

/// What a choice of a block adds while an action runs, by choice. Where the action is then not there it is `absent`.
using Column = std::vector<std::int64_t>;
constexpr std::int64_t absent = std::numeric_limits<std::int64_t>::min() / 4;
struct LoadRow {
  std::int64_t fixed = 0;
  std::vector<Column> columns;  // by block of the rank
  auto operator<=>(const LoadRow&) const = default;
};

std::vector<LoadRow> rows_from(const std::vector<std::map<Moment, Loads>>& by_choice, const std::vector<int>& blocks,
                               const ModelPlan& plan) {
  const auto at = [](const Loads& loads, int block) {
    const auto found = loads.of_blocks.find(block);
    return found == loads.of_blocks.end() ? 0 : found->second;
  };
  std::set<LoadRow> rows;
  for (const auto& [moment, loads] : by_choice.back()) {
    const auto& [op, subject, micro_batch] = moment;
    LoadRow row{loads.fixed, std::vector<Column>(blocks.size())};
    for (std::size_t choice = 0; choice < by_choice.size(); ++choice) {
      // Without recomputation other blocks have what they have at the backward then.
      const bool misses = choice == 0 && op == Op::recompute;
      const Loads& here = by_choice[choice].at({misses ? Op::backward : op, subject, micro_batch});
      for (std::size_t i = 0; i < blocks.size(); ++i)
        row.columns[i].push_back(misses && blocks[i] == subject.index ? absent : at(here, blocks[i]));
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (!plan.blocks[static_cast<std::size_t>(blocks[i])].recomputable) row.columns[i].resize(1);
    rows.insert(std::move(row));
  }
  return {rows.begin(), rows.end()};
}

/// What is computed again: FLOPs and, of equal ones, bytes that norms and activations make.
struct Work {
  double flops = 0;
  std::int64_t bytes = 0;
  auto operator<=>(const Work&) const = default;
  friend Work operator+(const Work& a, const Work& b) { return {a.flops + b.flops, a.bytes + b.bytes}; }
};

/// Choices for the first blocks of a rank.
struct Partial {
  Work work;
  std::vector<std::int64_t> loads;  // of rows that differ so far, and that later blocks add to
  std::size_t before = 0;           // the partial choice of one block less that it extends
  std::size_t choice = 0;
};

bool is_as_good(const Partial& a, const Partial& b) {
  return a.work <= b.work && std::ranges::equal(a.loads, b.loads, std::less_equal{});
}

/// Without those that another one is as good as; of very many so many, from the least work to the least memory, and as
/// many whose largest load is least, which later blocks leave room for longest.
std::vector<Partial> best_of(std::vector<Partial> all) {
  constexpr std::size_t most = 1024;
  std::ranges::stable_sort(
      all, [](const Partial& a, const Partial& b) { return std::tie(a.work, a.loads) < std::tie(b.work, b.loads); });
  std::vector<Partial> best;
  for (Partial& one : all) {
    // With one load it is enough to look at the last: each has less than those before it.
    const auto others = one.loads.size() > 1 || best.empty() ? std::span(best) : std::span(best).last(1);
    if (std::ranges::none_of(others, [&](const Partial& other) { return is_as_good(other, one); }))
      best.push_back(std::move(one));
  }
  if (best.size() <= most) return best;
  std::vector<bool> taken(best.size());
  for (std::size_t i = 0; i < most / 2; ++i) taken[i * (best.size() - 1) / (most / 2 - 1)] = true;
  std::vector<std::size_t> by_load(best.size());
  std::iota(by_load.begin(), by_load.end(), std::size_t{0});
  std::ranges::stable_sort(by_load, {}, [&](std::size_t i) {
    return best[i].loads.empty() ? std::int64_t{0} : std::ranges::max(best[i].loads);
  });
  for (std::size_t i = 0; i < most / 2; ++i) taken[by_load[i]] = true;
  std::vector<Partial> spread;
  for (std::size_t i = 0; i < best.size(); ++i)
    if (taken[i]) spread.push_back(std::move(best[i]));
  return spread;
}

/// Numbers for what is equal.
template <class Key>
class Numbering {
 public:
  std::size_t of(const Key& key) { return numbers_.try_emplace(key, numbers_.size()).first->second; }
  std::size_t size() const { return numbers_.size(); }
  const std::map<Key, std::size_t>& all() const { return numbers_; }

 private:
  std::map<Key, std::size_t> numbers_;
};

/// By block and row, and behind the last block: equal where all columns from there on are; 0 where they add nothing.
std::vector<std::vector<std::size_t>> rests_of(const std::vector<LoadRow>& rows, std::size_t blocks) {
  std::vector<std::vector<std::size_t>> rests(blocks + 1, std::vector<std::size_t>(rows.size(), 0));
  for (std::size_t i = blocks; i-- > 0;) {
    Numbering<std::pair<Column, std::size_t>> numbering;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Column& column = rows[r].columns[i];
      const bool nothing = rests[i + 1][r] == 0 && std::ranges::all_of(column, [](std::int64_t b) { return b <= 0; });
      rests[i][r] = nothing ? 0 : 1 + numbering.of({column, rests[i + 1][r]});
    }
  }
  return rests;
}

/// By block the choice of least work; nothing if none fits.
std::optional<std::vector<std::size_t>> solve(const std::vector<LoadRow>& rows,
                                              const std::vector<std::vector<Work>>& works, std::int64_t budget) {
  const std::size_t blocks = works.size();
  const std::vector<std::vector<std::size_t>> rests = rests_of(rows, blocks);
  if (std::ranges::any_of(rows, [&](const LoadRow& row) { return row.fixed > budget; })) return std::nullopt;
  Numbering<std::int64_t> beginnings;
  std::vector<std::size_t> load_of;  // by row, among those of a partial choice; as long as later blocks add to it
  for (const LoadRow& row : rows) load_of.push_back(beginnings.of(row.fixed));
  std::vector<std::vector<Partial>> followed(1, std::vector<Partial>(1));
  followed[0][0].loads.resize(beginnings.size());
  for (const auto& [fixed, index] : beginnings.all()) followed[0][0].loads[index] = fixed;

  for (std::size_t i = 0; i < blocks; ++i) {
    // Rows that are equal so far have one load; of those that later blocks add the same to the largest counts.
    Numbering<std::pair<std::size_t, Column>> sums;
    std::map<std::size_t, std::set<std::size_t>> by_rest;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rests[i][r] == 0) continue;
      const std::size_t sum = sums.of({load_of[r], rows[r].columns[i]});
      if (rests[i + 1][r] != 0) by_rest[rests[i + 1][r]].insert(sum);
    }
    Numbering<std::set<std::size_t>> kept;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (rests[i + 1][r] != 0) load_of[r] = kept.of(by_rest[rests[i + 1][r]]);

    std::vector<Partial> next;
    for (std::size_t before = 0; before < followed[i].size(); ++before) {
      for (std::size_t choice = 0; choice < works[i].size(); ++choice) {
        std::vector<std::int64_t> values(sums.size());
        std::int64_t most = 0;
        for (const auto& [sum, index] : sums.all())
          most = std::max(most, values[index] = followed[i][before].loads[sum.first] + sum.second[choice]);
        if (most > budget) continue;
        Partial partial{followed[i][before].work + works[i][choice], std::vector<std::int64_t>(kept.size()), before,
                        choice};
        for (const auto& [set, index] : kept.all()) {
          std::int64_t& load = partial.loads[index] = absent;
          for (const std::size_t sum : set) load = std::max(load, values[sum]);
        }
        next.push_back(std::move(partial));
      }
    }
    followed.push_back(best_of(std::move(next)));
    if (followed.back().empty()) return std::nullopt;
  }
  const auto least = std::ranges::min_element(followed.back(), {}, &Partial::work);
  auto at = static_cast<std::size_t>(least - followed.back().begin());
  std::vector<std::size_t> chosen(blocks);
  for (std::size_t i = blocks; i-- > 0; at = followed[i + 1][at].before) chosen[i] = followed[i + 1][at].choice;
  return chosen;
}

[[noreturn]] void refuse(const StepProgram& recomputed, const RankClass& ranks, std::int64_t budget_bytes) {
  const auto human = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  MemoryUse use = activations_of(ranks);
  const auto of = [&](SlotKind kind) { return use.bytes[kind]; };
  throw Error(ExitCode::usage,
              fmt::format("train.activation_memory_budget {} is too small: even with full recompute the activations of "
                          "rank {} take {} + {} + {} = {} (kept by blocks, passed between blocks, workspace) at {}",
                          human(budget_bytes), ranks.ranks.front(), human(of(SlotKind::stash) + of(SlotKind::kept)),
                          human(of(SlotKind::boundary) + of(SlotKind::boundary_gradient)),
                          human(of(SlotKind::workspace) + of(SlotKind::deferred)), human(use.peak_bytes),
                          to_text(recomputed, ranks.actions[static_cast<std::size_t>(use.peak_action)])),
              "use a smaller train.micro_batch, or a pipeline schedule with fewer micro-batches in flight");
}

}  // namespace

RecomputePolicy fit_activations(const Mesh& mesh, const ModelPlan& plan, const ProgramOptions& options,
                                const ActivationBudget& budget) {
  const std::vector<Choice> choices = choices_for(plan);
  std::vector<StepProgram> programs;
  for (const Choice& choice : choices) programs.push_back(program_of(mesh, plan, options, choice));
  RecomputePolicy policy;
  policy.blocks.resize(plan.blocks.size());
  for (std::size_t index = 0; index < programs.front().classes.size(); ++index) {
    std::set<int> held;
    for (const Action& action : programs.front().classes[index].actions)
      if (action.subject.kind == Subject::Kind::block) held.insert(action.subject.index);
    const std::vector<int> blocks(held.begin(), held.end());
    const auto peak = [&](std::size_t program) { return activations_of(programs[program].classes[index]).peak_bytes; };
    const std::int64_t least = peak(programs.size() > 1 ? 1 : 0), between = std::max<std::int64_t>(peak(0) - least, 0);
    const std::int64_t budget_bytes =
        budget.share ? least + static_cast<std::int64_t>(static_cast<double>(between) * *budget.share) : budget.bytes;
    std::vector<std::map<Moment, Loads>> loads;
    for (const StepProgram& program : programs) loads.push_back(loads_of(program.classes[index], blocks));
    std::vector<std::vector<Work>> works;  // by block and choice
    for (const int number : blocks) {
      const BlockPlan& block = plan.blocks[static_cast<std::size_t>(number)];
      works.emplace_back(1);
      for (std::size_t choice = 1; block.recomputable && choice < choices.size(); ++choice) {
        const Recomputation again = recomputation_of(block, *choices[choice]);
        works.back().push_back({again.flops, block.stash_bytes + block.output_bytes - again.kept_bytes});
      }
    }
    const auto chosen = solve(rows_from(loads, blocks, plan), works, budget_bytes);
    if (!chosen) refuse(programs[1], programs[1].classes[index], budget_bytes);  // all recomputed, nothing kept
    for (std::size_t i = 0; i < blocks.size(); ++i)
      policy.blocks[static_cast<std::size_t>(blocks[i])] = choices[(*chosen)[i]];
  }
  return policy;
}

}  // namespace lockstep
