#include "artifact/export_report.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "report/table.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lockstep {

namespace {

std::string_view name_of_recipe(Recipe recipe) { return recipe == Recipe::int8 ? "int8" : "none"; }

Json error_json(const ErrorStatistics& error) {
  const double sqnr = error.sqnr_db();
  return {{"max_abs_error", error.max_abs},
          {"relative_l2_error", error.relative_l2()},
          {"sqnr_db", std::isfinite(sqnr) ? Json(sqnr) : Json(nullptr)}};
}

Json head_of(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& weights) {
  Json head{{"schema", "lockstep-export-1"},
            {"recipe", name_of_recipe(config.recipe)},
            {"dtype", config.dtype == ExportDtype::bf16 ? "bf16" : "fp32"}};
  if (source.step) head["source"] = {{"step", *source.step}, {"state_digest", source.state_digest}};
  head["bytes"] = weights.bytes;
  return head;
}

Json entry_of(const ExportedTensor& tensor) {
  return {
      {"name", tensor.name}, {"shape", tensor.shape}, {"stored_as", name_of(tensor.storage)}, {"bytes", tensor.bytes}};
}

std::vector<std::string> cells_of(const ExportedTensor& tensor) {
  return {tensor.name, to_text(tensor.shape), std::string(name_of(tensor.storage)), human_bytes(tensor.bytes)};
}

std::string error_text(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

const std::vector<Table::Column> report_columns{{"tensor"}, {"shape"}, {"stored as"}, {"size", Table::Align::right}};

}  // namespace

Json export_report(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& weights) {
  Json report = head_of(config, source, weights);
  ErrorStatistics all;
  Json tensors = Json::array();
  for (const ExportedTensor& tensor : weights.tensors) {
    all.add(tensor.error);
    Json entry = entry_of(tensor);
    entry.update(error_json(tensor.error));
    tensors.push_back(std::move(entry));
  }
  report["all"] = error_json(all);
  report["tensors"] = std::move(tensors);
  return report;
}

Json plan_json(const FinalizeConfig& config, const ModelSource& source, const ExportedWeights& plan) {
  Json document = head_of(config, source, plan);
  Json tensors = Json::array();
  for (const ExportedTensor& tensor : plan.tensors) tensors.push_back(entry_of(tensor));
  document["tensors"] = std::move(tensors);
  return document;
}

std::string error_table(const ExportedWeights& weights) {
  std::vector<Table::Column> wider = report_columns;
  for (const char* const title : {"max error", "relative L2", "SQNR"}) wider.push_back({title, Table::Align::right});
  Table table(std::move(wider));
  for (const ExportedTensor& tensor : weights.tensors) {
    std::vector<std::string> cells = cells_of(tensor);
    const double sqnr = tensor.error.sqnr_db();
    cells.push_back(error_text(tensor.error.max_abs));
    cells.push_back(error_text(tensor.error.relative_l2()));
    cells.push_back(std::isfinite(sqnr) ? fmt::format("{:.1f} dB", sqnr) : "exact");
    table.add(std::move(cells));
  }
  return table.text();
}

std::string plan_table(const ExportedWeights& plan) {
  Table table(report_columns);
  for (const ExportedTensor& tensor : plan.tensors) table.add(cells_of(tensor));
  return table.text();
}

}  // namespace lockstep
