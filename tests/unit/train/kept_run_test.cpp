#include "train/kept_run.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(kept_run)

namespace {

constexpr const char* resolved_by_0_1 =
    R"({"global_batch": 12, "configured_samples_per_rank": null, "steps": 9, "warmup_steps": 1, "decay_steps": 9, "cooldown_steps": 0})";

Manifest manifest_with(std::vector<std::pair<std::string, std::string>> documents) {
  Manifest manifest;
  manifest.documents = std::move(documents);
  return manifest;
}

std::optional<std::int64_t> multiple_with_packing(const std::string& packing) {
  return resolved_in(manifest_with({{"resolved", resolved_by_0_1}, {"packing", packing}}), "here")->pad_to_multiple_of;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_an_earlier_version_padded_documents_to_is_read_in_its_text_about_the_packing) {
  BOOST_CHECK(
      (multiple_with_packing("best_fit of groups of 100000, rows of 48 tokens, documents padded to multiples of 4, "
                             "long documents split; of 31 documents with the hash 0123") == 4));
  BOOST_CHECK(
      (multiple_with_packing("sequential, rows of 48 tokens, documents padded to multiples of 12, long documents "
                             "dropped") == 12));
  BOOST_CHECK((multiple_with_packing("sequential, rows of 48 tokens, long documents split") == 1));
}

BOOST_AUTO_TEST_CASE(what_a_run_resolved_itself_counts_and_an_older_one_may_tell_nothing) {
  const std::string resolved = std::string(resolved_by_0_1, std::string_view(resolved_by_0_1).size() - 1);
  const Manifest own = manifest_with(
      {{"resolved", resolved + R"(, "pad_to_multiple_of": 6})"}, {"packing", "documents padded to multiples of 4"}});
  BOOST_CHECK((resolved_in(own, "here")->pad_to_multiple_of == 6));
  BOOST_CHECK(!resolved_in(manifest_with({{"resolved", resolved_by_0_1}}), "here")->pad_to_multiple_of);
  BOOST_CHECK(!resolved_in(manifest_with({}), "here"));
  BOOST_CHECK_EXCEPTION(resolved_in(manifest_with({{"resolved", "{"}}), "here"), Error,
                        [](const Error& error) { return error.code() == ExitCode::input; });
}

BOOST_AUTO_TEST_SUITE_END()
