#include "train/groups_text.hpp"

#include "base/error.hpp"
#include "config/train_choices.hpp"
#include "optim/groups.hpp"
#include "optim/optimizer.hpp"
#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lockstep {

namespace {

struct TreatedAlike {
  std::vector<std::string> says;  // rule, learning rate, decay, which option
  bool trained = true;
  std::int64_t tensors = 0, elements = 0;
  std::string example;
};

std::string chosen_by(const LogicalTensor& tensor, const OptimizerOptions& options) {
  if (!tensor.trained) return "optimizer.frozen";
  const auto* const group = group_of(tensor.name, options);
  return group == nullptr ? "optimizer" : fmt::format("optimizer.groups.{}", group->first);
}

std::vector<std::string> treatment_of(const LogicalTensor& tensor, const OptimizerOptions& options) {
  if (!tensor.trained) return {"none", "", "", chosen_by(tensor, options)};
  const ParameterSettings settings = settings_of(tensor, options);
  return {std::string(choice_name(settings.rule.name)), fmt::format("{:.6g}", options.lr * settings.lr_scale),
          fmt::format("{:.6g}", settings.weight_decay), chosen_by(tensor, options)};
}

}  // namespace

std::string groups_text(const TrainConfig& config, const TrainPlan& plan) {
  std::vector<TreatedAlike> rows;
  for (const LogicalTensor& tensor : stored_tensors(plan.architecture)) {
    const std::vector<std::string> says = treatment_of(tensor, config.optimizer);
    auto row = std::ranges::find(rows, says, &TreatedAlike::says);
    if (row == rows.end())
      row = rows.insert(rows.end(), {.says = says, .trained = tensor.trained, .example = tensor.name});
    ++row->tensors;
    row->elements += elements(tensor.shape);
  }
  std::ranges::stable_partition(rows, &TreatedAlike::trained);
  Table table({{"update"},
               {"learning rate", Table::Align::right},
               {"weight decay", Table::Align::right},
               {"set by"},
               {"tensors", Table::Align::right},
               {"elements", Table::Align::right},
               {"example"}});
  for (const TreatedAlike& row : rows)
    table.add({row.says[0], row.says[1], row.says[2], row.says[3], std::to_string(row.tensors),
               std::to_string(row.elements), row.example});
  return table.text();
}

}  // namespace lockstep
