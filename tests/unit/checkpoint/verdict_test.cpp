// What a look at checkpoints comes to, and what a resume makes of it. A rank that sees the storage differently is given
// another folder: a copy in which something is missing.
#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/resume.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/retention.hpp"
#include "store/trash.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <atomic>
#include <set>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(verdict)

namespace {

std::string message_of(const std::exception_ptr& problem, ExitCode code, std::string* hint = nullptr) {
  BOOST_REQUIRE(problem);
  try {
    std::rethrow_exception(problem);
  } catch (const Error& error) {
    BOOST_TEST((error.code() == code), error.what());
    if (hint != nullptr) *hint = error.hint();
    return error.what();
  }
  return {};
}

bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) BOOST_TEST_MESSAGE("'" << text << "' does not say '" << part << "'");
  return found;
}

void change_manifest(const Path& checkpoint, const std::function<void(Json&)>& change, bool own_hash = true) {
  const Path path = checkpoint / manifest_file;
  Json document = parse_json(read_file(path), "a manifest");
  document.erase("hash");
  change(document);
  std::string text = to_text(document, 1);
  if (own_hash) {
    text.resize(text.size() - 2);
    text += ",\n \"hash\": \"" + to_hex(hash128(text)) + "\"\n}\n";
  }
  publish_file(path, text);
}

std::set<std::string> names_in(const Path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

/// A run with checkpoints of steps 10, 20 and 30, and a second view of it.
struct TwoViews : TemporaryFolder {
  TwoViews() {
    on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      for (const std::int64_t step : {10, 20, 30}) {
        job.advance_to(step);
        SaveRequest request = job.request(run);
        request.retention.keep_last = 9;
        save(ranks, job.components(), request);
      }
    });
    std::filesystem::copy(run, view, std::filesystem::copy_options::recursive);
  }
  Path newest(const Path& folder) const { return checkpoint_folder(folder, 30); }

  /// Two ranks resume, of which rank 1 sees `view`. `on_wait` runs once, when rank 1 begins to wait.
  std::vector<std::exception_ptr> resume_both(double patience_s, const std::function<void()>& on_wait = {},
                                              const Accept& accept = {}) {
    return attempt_on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      ResumeRequest request{
          .run = ranks.rank() == 0 ? run : view, .patience_s = patience_s, .accept = accept, .tell = {}};
      request.tell = [&](const std::string& reason) {
        if (ranks.rank() != 1) return;
        told = reason;
        if (on_wait) on_wait();
      };
      const Resumed found = resume(ranks, job.world(), job.components(), request);
      if (job.wrong_bytes(found.checkpoint->step) != 0) fail(ExitCode::bug, "wrong bytes");
      if (ranks.rank() == 0) resumed = found;
    });
  }
  std::int64_t resumed_step() const { return resumed.checkpoint ? resumed.checkpoint->step : -1; }

  Path run = path / "run";
  Path view = path / "view";
  Resumed resumed;
  std::string told;  // by rank 1
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_one_rank_lacks_is_waited_for, TwoViews) {
  const Path part = newest(view) / "replicated" / "part-0001.h5";
  std::filesystem::rename(part, path / "away");
  for (const auto& problem : resume_both(60, [&] { std::filesystem::rename(path / "away", part); }))
    BOOST_TEST(!problem);
  BOOST_TEST(resumed_step() == 30);
  BOOST_TEST(resumed.damaged.empty());
  BOOST_TEST(says(told, "part-0001.h5 is missing: retrying for up to 60 s"));

  std::filesystem::rename(newest(view), path / "away");
  for (const auto& problem : resume_both(60, [&] { std::filesystem::rename(path / "away", newest(view)); }))
    BOOST_TEST(!problem);
  BOOST_TEST(resumed_step() == 30);
  BOOST_TEST(says(told, "rank 1 sees 'step-0000000010 step-0000000020 '"));
}

BOOST_FIXTURE_TEST_CASE(what_only_one_rank_lacks_at_the_end_is_unreadable_and_not_damaged, TwoViews) {
  const Path part = newest(view) / "replicated" / "part-0001.h5";
  std::filesystem::resize_file(part, 100);
  std::string hint;
  for (const auto& problem : resume_both(0.2))
    BOOST_TEST(says(message_of(problem, ExitCode::storage, &hint), "replicated/part-0001.h5 has 100 bytes instead of"));
  BOOST_TEST(says(hint, "repair the storage and start the same command again, or start a new run from an older"));
  BOOST_TEST(says(hint, "--checkpoint.resume"));
  BOOST_TEST(says(hint, "step-0000000020"));
  std::filesystem::remove_all(newest(view));
  for (const auto& problem : resume_both(0.2)) message_of(problem, ExitCode::storage);
}

BOOST_FIXTURE_TEST_CASE(an_errno_on_one_rank_is_unreadable_and_passes_if_the_storage_does, TwoViews) {
  const Path part = newest(view) / "replicated" / "part-0001.h5";
  const auto break_it = [&] {
    std::filesystem::rename(part, path / "away");
    std::filesystem::create_symlink(part, part);  // too many levels of symbolic links
  };
  break_it();
  for (const auto& problem : resume_both(0.2))
    BOOST_TEST(says(message_of(problem, ExitCode::storage), "Too many levels of symbolic links"));
  for (const auto& problem : resume_both(60, [&] { std::filesystem::rename(path / "away", part); }))
    BOOST_TEST(!problem);
  BOOST_TEST(resumed_step() == 30);
  break_it();
  const Verification found = verify_checkpoint(newest(view), VerifyLevel::hashes);
  BOOST_TEST((found.judgement().verdict == Verdict::unreadable));
}

BOOST_FIXTURE_TEST_CASE(what_all_ranks_lack_at_the_end_is_damage, TwoViews) {
  for (const Path& folder : {run, view}) std::filesystem::remove(newest(folder) / "replicated" / "part-0001.h5");
  for (const auto& problem : resume_both(0.2)) BOOST_TEST(!problem);
  BOOST_TEST(resumed_step() == 20);
  BOOST_REQUIRE_EQUAL(resumed.damaged.size(), 1u);
  BOOST_TEST(says(to_text(resumed.damaged.front()), "part-0001.h5 is missing (retried for 0.2 s)"));
}

BOOST_FIXTURE_TEST_CASE(what_is_no_file_is_damage_at_once_and_never_waited_for, TwoViews) {
  const std::vector<std::pair<std::string, std::function<void(const Path&)>>> things{
      {"it is a FIFO, not a file", [](const Path& at) { BOOST_REQUIRE(::mkfifo(at.c_str(), 0600) == 0); }},
      {"it is a folder, not a file", [](const Path& at) { std::filesystem::create_directory(at); }},
      {"it is a device, not a file", [](const Path& at) { std::filesystem::create_symlink("/dev/zero", at); }},
  };
  for (const std::string name : {"replicated/part-0001.h5", "INDEX.h5", "MANIFEST.json"}) {
    for (const auto& [reason, make] : things) {
      BOOST_TEST_CONTEXT(name << ": " << reason) {
        told.clear();
        for (const Path& folder : {run, view}) {
          std::filesystem::rename(newest(folder) / name, folder / "away");
          make(newest(folder) / name);
        }
        for (const auto& problem : resume_both(60)) BOOST_TEST(!problem);
        BOOST_TEST(resumed_step() == 20);
        BOOST_TEST(told == "");
        BOOST_REQUIRE_EQUAL(resumed.damaged.size(), 1u);
        BOOST_TEST(says(to_text(resumed.damaged.front()), reason));
        for (const VerifyLevel level : {VerifyLevel::sizes, VerifyLevel::hashes, VerifyLevel::fingerprints}) {
          const Judgement judged = judge_checkpoint(newest(run), level);
          BOOST_TEST((judged.verdict == Verdict::damaged));
          BOOST_TEST(says(judged.reason, reason));
        }
        for (const Path& folder : {run, view}) {
          std::filesystem::remove(newest(folder) / name);
          std::filesystem::rename(folder / "away", newest(folder) / name);
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_read_that_fails_is_done_again, TwoViews) {
  std::atomic<int> calls{0};
  const auto once = [&](const CheckpointReader&) {
    if (calls++ == 0) fail(ExitCode::storage, "cannot read: Input/output error");
  };
  for (const auto& problem : resume_both(60, {}, once)) BOOST_TEST(!problem);
  BOOST_TEST(resumed_step() == 30);
  const auto ever = [&](const CheckpointReader&) { fail(ExitCode::storage, "cannot read: Input/output error"); };
  for (const auto& problem : resume_both(0.2, {}, ever))
    BOOST_TEST(says(message_of(problem, ExitCode::storage), "Input/output error (retried for 0.2 s)"));
}

BOOST_FIXTURE_TEST_CASE(another_format_or_word_is_foreign_and_names_what_can_read_it, TwoViews) {
  const auto refused = [&](const std::function<void(Json&)>& change, bool own_hash, Verdict judged = Verdict::foreign) {
    const std::string right = read_file(newest(run) / manifest_file);
    for (const Path& folder : {run, view}) change_manifest(newest(folder), change, own_hash);
    std::string hint;
    std::string message;
    for (const auto& problem : resume_both(0)) message = message_of(problem, ExitCode::usage, &hint);
    BOOST_TEST(says(hint, "lockstep 7.5 wrote it: read it with that version"));
    BOOST_TEST((judge_checkpoint(newest(run), VerifyLevel::sizes).verdict == judged));
    for (const Path& folder : {run, view}) publish_file(newest(folder) / manifest_file, right);
    return message;
  };
  for (const bool own_hash : {true, false}) {
    BOOST_TEST(says(refused(
                        [](Json& manifest) {
                          manifest["version"] = 3;
                          manifest["software"] = "lockstep 7.5";
                        },
                        own_hash),
                    "checkpoint format 3 is not known; this program reads formats 1 and 2"));
  }
  const auto says_of = [&](const char* key, const Json& value, const std::string& expected) {
    const auto change = [&](Json& manifest) {
      manifest[key] = value;
      manifest["software"] = "lockstep 7.5";
    };
    const std::string message = refused(change, true);
    BOOST_TEST(says(message, expected), message);
  };
  says_of("requires", Json::array({"per_node_storage"}),
          "it requires the feature \"per_node_storage\", which is not known");
  says_of("block_bytes", 1 << 20, "a block size of 1048576 bytes is not known");
  says_of("hash_algorithm", "blake3", "the hash_algorithm \"blake3\" is not known");
  says_of("fingerprint_algorithm", "sum", "the fingerprint_algorithm \"sum\" is not known");
  says_of("metrics", {{"accuracy", {{"value", 0.5}, {"better", "closer to 1"}}}},
          "the value 'closer to 1' is not known");
  BOOST_TEST(says(refused(
                      [](Json& manifest) {
                        manifest["components"][0]["pattern"] = "per_galaxy";
                        manifest["software"] = "lockstep 7.5";
                      },
                      true),
                  "the value 'per_galaxy' is not known"));
  BOOST_TEST(says(refused(
                      [](Json& manifest) {
                        manifest["components"].push_back(manifest["components"][0]);
                        manifest["components"].back()["key"] = "loss_scale";
                        manifest["software"] = "lockstep 7.5";
                      },
                      true, Verdict::sound),
                  "component 'loss_scale' of"));
  for (const auto& problem : resume_both(0)) BOOST_TEST(!problem);
}

BOOST_FIXTURE_TEST_CASE(a_start_elsewhere_counts_until_the_run_has_a_checkpoint_of_its_own, TwoViews) {
  const auto start_of = [&](const Path& start) {
    const auto ranks = solo_communicator();
    Job job = replica(1, 0);
    const Path own = path / "own";
    const Resumed found = resume(*ranks, job.world(), job.components(),
                                 {.run = own, .wanted = {ResumeTarget::Kind::start, 0, start}, .patience_s = 0});
    return std::pair(found.checkpoint->step, found.checkpoint->path.string());
  };
  BOOST_TEST(start_of(checkpoint_folder(run, 20)).first == 20);
  BOOST_TEST(start_of(run).first == 30);
  BOOST_CHECK_EXCEPTION(start_of(path / "absent"), Error,
                        [](const Error& error) { return says(error.what(), "is neither a checkpoint"); });
  const auto ranks = solo_communicator();
  Job job = replica(1, 0);
  job.advance_to(25);
  save(*ranks, job.components(), job.request(path / "own"));
  BOOST_TEST(start_of(checkpoint_folder(run, 20)).second == checkpoint_folder(path / "own", 25).string());
  BOOST_TEST((step_within(checkpoint_folder(run, 20) / "", run) == 20));
  BOOST_TEST(!step_within(checkpoint_folder(run, 20), view).has_value());
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_read_is_not_retired, TwoViews) {
  const Path manifest = checkpoint_folder(run, 10) / manifest_file;
  std::filesystem::remove(manifest);
  std::filesystem::create_symlink(manifest, manifest);
  BOOST_TEST((prune(run, {.keep_last = 1, .best_by = {"none"}}).steps == std::vector<std::int64_t>{20}));
  BOOST_TEST((prune(view, {.keep_last = 1, .best_by = {"none"}}).steps == std::vector<std::int64_t>{10, 20}));
}

BOOST_FIXTURE_TEST_CASE(what_was_put_aside_stays, TwoViews) {
  const Path folder = checkpoints_folder(run);
  BOOST_TEST(put_aside(newest(run), SetAsideReason::damaged) == folder / ".failed-step-0000000030");
  std::filesystem::copy(newest(view), newest(run), std::filesystem::copy_options::recursive);
  BOOST_TEST(put_aside(newest(run), SetAsideReason::damaged) == folder / ".failed-step-0000000030-2");
  collect_leftovers(run);
  empty_trash(run);
  BOOST_TEST(list_put_aside(run, SetAsideReason::damaged).size() == 2u);
  BOOST_TEST((names_in(folder) == std::set<std::string>{"LATEST", "step-0000000010", "step-0000000020",
                                                        ".failed-step-0000000030", ".failed-step-0000000030-2"}));
}

BOOST_AUTO_TEST_SUITE_END()
