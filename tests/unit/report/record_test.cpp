#include "report/record.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "report/record_sink.hpp"

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <cstdlib>
#include <limits>

using namespace lockstep;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-records-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  Path operator/(const char* name) const { return path_ / name; }

 private:
  Path path_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(records)

BOOST_AUTO_TEST_CASE(a_record_opens_with_schema_kind_and_time_and_keeps_the_order_of_its_fields) {
  StepRecord record;
  record.step = 3;
  record.loss = 2.5;
  const Json json = to_json(record);
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  const std::vector<std::string> expected{
      "schema",    "kind",       "time",   "step",         "loss",           "aux_loss",     "lr",
      "grad_norm", "loss_scale", "tokens", "tokens_per_s", "step_ms",        "fill",         "data_wait_ms",
      "mfu",       "eta_s",      "epoch",  "datasets",     "expert_entropy", "expert_share", "expert_dropped"};
  BOOST_TEST(keys == expected, boost::test_tools::per_element());
  BOOST_TEST(json.at("kind") == Json("step"));
  BOOST_TEST(json.at("step") == Json(3));
}

BOOST_AUTO_TEST_CASE(numbers_that_are_not_finite_and_absent_ones_are_null) {
  StepRecord record;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = -std::numeric_limits<double>::infinity();
  const Json json = to_json(record);
  for (const char* const name : {"loss", "grad_norm", "mfu"}) BOOST_TEST(json.at(name).is_null());
  BOOST_TEST(json.at("lr").is_number());
}

BOOST_AUTO_TEST_CASE(a_half_written_last_line_is_removed_before_more_is_appended) {
  const Folder folder;
  publish_file(folder / "records.jsonl", "{\"name\": \"one\"}\n{\"name\": \"tw");
  const auto sink = file_sink(folder / "records.jsonl");
  sink->write("{\"name\": \"three\"}\n");
  sink->close();
  BOOST_TEST(read_file(folder / "records.jsonl") == "{\"name\": \"one\"}\n{\"name\": \"three\"}\n");
}

BOOST_AUTO_TEST_CASE(a_torn_line_longer_than_a_block_is_removed_too) {
  const Folder folder;
  publish_file(folder / "records.jsonl", "{\"name\": \"one\"}\n" + std::string(200000, 'x'));
  file_sink(folder / "records.jsonl")->close();
  BOOST_TEST(read_file(folder / "records.jsonl") == "{\"name\": \"one\"}\n");
  publish_file(folder / "records.jsonl", std::string(200000, 'x'));
  file_sink(folder / "records.jsonl")->close();
  BOOST_TEST(read_file(folder / "records.jsonl").empty());
}

BOOST_AUTO_TEST_SUITE_END()
