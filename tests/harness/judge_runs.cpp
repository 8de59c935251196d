// judge-runs: reads the folders of runs from standard input, one a line, and says of each, as a line of JSON, what the
// program would find there when it starts: what killed jobs left is taken back or away, then each checkpoint gets its
// verdict, by all of its bytes and, as train does before it loads, by names and lengths alone.
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/manifest.hpp"
#include "store/run_directory.hpp"
#include "store/verdict.hpp"

#include <cstdio>
#include <iostream>
#include <string>

int main() {
  using namespace lockstep;
  for (std::string run; std::getline(std::cin, run);) {
    Json found = Json::object();
    collect_leftovers(run);
    for (const CheckpointEntry& entry : list_checkpoints(run)) {
      const Judgement whole = judge_checkpoint(entry.path, VerifyLevel::fingerprints);
      const Sighting seen = see_checkpoint(entry.path);
      const bool there = seen.judgement.verdict == Verdict::sound && seen.lacking.empty();
      found[entry.path.filename().string()] = {{"verdict", name_of(whole.verdict)}, {"seen", there}};
    }
    std::printf("%s\n", to_text(found).c_str());
    std::fflush(stdout);
  }
}
