// Prints which ways to divide a step are compared with one rank together: lockstep-programs(7) shows it.
#include "composition.hpp"

#include <cstdio>
#include <functional>
#include <string_view>

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Way {
  const char *name, *short_name;
  std::function<bool(const Composition&)> takes_part;
};

std::vector<Way> ways() {
  const auto family_has = [](std::string_view part) {
    return [part](const Composition& how) { return std::string_view(how.family).find(part) != std::string_view::npos; };
  };
  return {{"replicas", "rep", [](const Composition& how) { return how.replicas * how.node > 1; }},
          {"ZeRO-1", "Z1", [](const Composition& how) { return how.shards > 1 && how.zero == 1; }},
          {"ZeRO-2", "Z2", [](const Composition& how) { return how.shards > 1 && how.zero == 2; }},
          {"ZeRO-3", "Z3", [](const Composition& how) { return how.shards > 1 && how.zero == 3; }},
          {"pipeline", "pp", [](const Composition& how) { return how.stages > 1; }},
          {"tensor parallel", "tp", [](const Composition& how) { return how.tensor > 1; }},
          {"sequence parallel", "sp", [](const Composition& how) { return how.sequence; }},
          {"Ulysses", "uly", [](const Composition& how) { return how.ulysses > 1; }},
          {"ring", "rng", [](const Composition& how) { return how.ring > 1; }},
          {"isolated docs", "doc", family_has(" in documents")},
          {"windows", "win", family_has("windowed")},
          {"experts", "exp",
           [=](const Composition& how) {
             return family_has("mixtral")(how) || family_has("moe")(how) || family_has("experts")(how);
           }},
          {"expert parallel", "ep", [](const Composition& how) { return how.experts > 1; }},
          {"dropout", "drp", family_has(" with dropout")},
          {"recompute", "rec", [](const Composition& how) { return how.recompute != RecomputePolicy::none; }},
          {"keep-sets", "kep", [](const Composition& how) { return !how.recompute.keeps.empty(); }},
          {"offload", "off", [](const Composition& how) {
             return how.offload.optimizer || how.offload.shards || how.offload.activations;
           }}};
}

}  // namespace

int main() {
  const std::vector<Composition> all = all_compositions();
  const std::vector<Way> rows = ways();
  std::printf("%zu compositions, of which so many have both:\n%-18s", all.size(), "");
  for (const Way& way : rows) std::printf("%4s", way.short_name);
  for (const Way& row : rows) {
    std::printf("\n%-18s", row.name);
    for (const Way& column : rows) {
      int count = 0;
      for (const Composition& how : all) count += row.takes_part(how) && column.takes_part(how) ? 1 : 0;
      std::printf("%4s", count > 0 ? std::to_string(count).c_str() : ".");
    }
  }
  std::printf("\n");
}
