// Damage of every kind at random places of a checkpoint: each is found and its file named, and a resume either falls
// back to the checkpoint before or has read nothing of it. LOCKSTEP_TEST_DAMAGES sets the number, LOCKSTEP_TEST_SEED
// repeats a campaign.
#include "base/error.hpp"
#include "checkpoint/resume.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

using namespace lockstep;
using namespace lockstep::test;

namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

enum class Kind {
  flip,
  truncate,
  append,
  remove,
  zero_page,
  swap_sectors,
  stale_sector,
  stale_file,
  edit_text,
  stranger
};
constexpr const char* names[] = {"flipped bit",     "truncated file", "appended bytes", "missing file", "zeroed page",
                                 "swapped sectors", "stale sector",   "stale file",     "edited text",  "extra file"};

class Campaign : TemporaryFolder {
 public:
  Campaign(std::uint64_t seed) : random_(seed, "damage") {
    on_ranks(2, [&](Communicator& ranks) {
      Job job = job_of(2, ranks.rank());
      for (const std::int64_t step : {10, 20}) {
        job.advance_to(step);
        SaveRequest request = job.request(path);
        request.retention.keep_last = 9;
        request.documents = {{"config.yaml", "train:\n  seed: 1\n"}};
        save(ranks, job.components(), request);
      }
    });
    for (const auto& entry : std::filesystem::recursive_directory_iterator(newest())) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().lexically_relative(newest()).string();
      right_[name] = read_file(entry.path());
      stale_[name] = read_file(checkpoint_folder(path, 10) / name);
    }
  }

  void run(std::uint64_t trials) {
    for (std::uint64_t trial = 0; trial < trials; ++trial) {
      const Kind kind = static_cast<Kind>(below(std::size(names)));
      auto file = std::next(right_.begin(), static_cast<std::ptrdiff_t>(below(right_.size())));
      if (kind == Kind::edit_text) file = right_.find("MANIFEST.json");
      const std::string damaged = damage(kind, file->first, file->second);
      if (kind != Kind::stranger && kind != Kind::remove && damaged == file->second)
        continue;  // two equal sectors: nothing is damaged
      const std::string name = kind == Kind::stranger ? "replicated/part-0099.h5" : file->first;
      if (kind == Kind::remove) {
        std::filesystem::remove(newest() / name);
      } else {
        write(name, damaged);
      }
      judge(kind, name, fmt::format("trial {}: {} {}", trial, names[static_cast<int>(kind)], name));
      std::filesystem::remove(newest() / name);
      if (kind != Kind::stranger) write(name, file->second);
    }
    BOOST_TEST(verify_checkpoint(newest(), VerifyLevel::fingerprints).defects.empty());
    std::string text;
    for (const auto& [kind, count] : counts_) text += fmt::format(", {} {}", count, names[static_cast<int>(kind)]);
    std::cout << "# damages: " << found_ << " found (" << text.substr(2) << "), of which " << fallen_back_
              << " made a resume fall back and " << unused_ << " were in bytes that a load never reads; " << silent_
              << " silent" << std::endl;
  }

 private:
  static Job job_of(int ranks, Rank rank) {
    const World world = single_axis_world(ranks);
    std::vector<Tensor> tensors = replicated_model(world.mesh);
    tensors.push_back({"large", replicated({130, 33}, DType::f32, world.mesh)});
    return {world, rank, tensors};
  }
  Path newest() const { return checkpoint_folder(path, 20); }
  std::uint64_t below(std::uint64_t bound) { return random_.below(draw_++, bound); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(newest() / name, std::ios::binary) << content;
  }

  std::string damage(Kind kind, const std::string& name, std::string content) {
    constexpr std::size_t sector = 512;
    const std::size_t at = below(content.size());
    const std::size_t first = at / sector * sector;
    const std::size_t second = below(content.size()) / sector * sector;
    switch (kind) {
      case Kind::flip: content[at] = static_cast<char>(content[at] ^ (1 << below(8))); break;
      case Kind::truncate: content.resize(at); break;
      case Kind::append: content.append(1 + below(5000), 'x'); break;
      case Kind::zero_page:
        std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(at / 4096 * 4096),
                    std::min<std::size_t>(4096, content.size() - at / 4096 * 4096), '\0');
        break;
      case Kind::swap_sectors:
        if (first + sector > content.size() || second + sector > content.size()) break;
        std::swap_ranges(content.begin() + static_cast<std::ptrdiff_t>(first),
                         content.begin() + static_cast<std::ptrdiff_t>(first + sector),
                         content.begin() + static_cast<std::ptrdiff_t>(second));
        break;
      case Kind::stale_sector:
        content.replace(first, sector, stale_[name].substr(std::min(first, stale_[name].size()), sector));
        break;
      case Kind::stale_file: content = stale_[name]; break;
      case Kind::edit_text: content[at] = content[at] == '7' ? '8' : '7'; break;
      case Kind::remove:
      case Kind::stranger: break;
    }
    return content;
  }

  void judge(Kind kind, const std::string& name, const std::string& what) {
    const std::vector<Defect> defects = verify_checkpoint(newest(), VerifyLevel::fingerprints).defects;
    bool named = false;
    bool harmless = true;
    for (const Defect& defect : defects) {
      // the manifest of another step contradicts the index, which is then what is named
      named = named || defect.file == name || defect.message.find(name) != std::string::npos || name == "MANIFEST.json";
      harmless = harmless && (defect.message.find("outside of its tensors") != std::string::npos ||
                              defect.message.find("nothing reads it") != std::string::npos);
    }
    BOOST_TEST(!defects.empty(), what << " was not found");
    BOOST_TEST(named, what << " was not named");
    ++(defects.empty() ? silent_ : found_);
    ++counts_[kind];
    const auto ranks = solo_communicator();
    Job job = job_of(1, 0);
    const Resumed resumed = resume(*ranks, job.world(), job.components(), {.run = path, .patience_s = 0});
    BOOST_REQUIRE(resumed.checkpoint.has_value());
    const std::int64_t step = resumed.checkpoint->step;
    BOOST_TEST((step == 10 || (step == 20 && harmless)), what << " was resumed from");
    BOOST_TEST(job.wrong_bytes(step) == 0, what << " changed what was loaded");
    ++(step == 10 ? fallen_back_ : unused_);
  }

  RandomStream random_;
  std::uint64_t draw_ = 0;
  std::map<std::string, std::string> right_;  // by file of the newest checkpoint
  std::map<std::string, std::string> stale_;  // the same files of the one before
  std::map<Kind, int> counts_;
  int found_ = 0, fallen_back_ = 0, unused_ = 0, silent_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(damage_campaign)

BOOST_AUTO_TEST_CASE(damage_of_any_kind_is_found_and_named_and_never_loaded) {
  const std::uint64_t seed = setting("LOCKSTEP_TEST_SEED", 11);
  std::cout << "# LOCKSTEP_TEST_SEED=" << seed << std::endl;
  Campaign(seed).run(setting("LOCKSTEP_TEST_DAMAGES", 150));
}

BOOST_AUTO_TEST_SUITE_END()
