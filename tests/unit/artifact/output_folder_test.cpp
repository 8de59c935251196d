#include "artifact/output_folder.hpp"

#include "base/error.hpp"
#include "unit/exchange/folder.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

namespace {
std::string error_of(const Path& place, ExistingExport existing) {
  try {
    OutputFolder folder(place, existing, "report.json");
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t entries(const Path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}
}  // namespace

BOOST_AUTO_TEST_SUITE(output_folder)

BOOST_FIXTURE_TEST_CASE(a_folder_appears_when_it_is_published_and_not_before, Folder) {
  {
    OutputFolder folder(path / "out/", ExistingExport::refuse, "report.json");
    publish_file(folder.staged() / "a", "1");
    BOOST_TEST(!std::filesystem::exists(path / "out"));
    folder.publish();
  }
  BOOST_TEST(read_file(path / "out" / "a") == "1");
  BOOST_TEST(entries(path) == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_folder_that_is_not_published_leaves_nothing, Folder) {
  {
    OutputFolder folder(path / "out", ExistingExport::refuse, "report.json");
    publish_file(folder.staged() / "a", "1");
  }
  BOOST_TEST(std::filesystem::is_empty(path));
}

BOOST_FIXTURE_TEST_CASE(what_a_killed_process_left_is_cleared, Folder) {
  make_folder(path / ".out.unfinished" / "deep");
  {
    OutputFolder folder(path / "out", ExistingExport::refuse, "report.json");
    BOOST_TEST(std::filesystem::is_empty(folder.staged()));
    folder.publish();
  }
  BOOST_TEST(entries(path) == 1u);
}

BOOST_FIXTURE_TEST_CASE(two_processes_do_not_write_to_one_place, Folder) {
  OutputFolder folder(path / "out", ExistingExport::refuse, "report.json");
  publish_file(folder.staged() / "a", "1");
  BOOST_TEST(has(error_of(path / "out", ExistingExport::refuse), "another process is writing"));
  BOOST_TEST(std::filesystem::exists(folder.staged() / "a"));
}

BOOST_FIXTURE_TEST_CASE(only_an_earlier_export_is_replaced_and_only_when_asked, Folder) {
  make_folder(path / "home");
  publish_file(path / "home" / "letters", "dear");
  publish_file(path / "file", "x");
  BOOST_TEST(has(error_of(path / "home", ExistingExport::refuse), "exists and is not empty"));
  BOOST_TEST(has(error_of(path / "home", ExistingExport::replace), "not an earlier export"));
  BOOST_TEST(has(error_of(path / "file", ExistingExport::replace), "not a folder"));
  publish_file(path / "home" / "report.json", "{}");
  {
    OutputFolder folder(path / "home", ExistingExport::replace, "report.json");
    publish_file(folder.staged() / "a", "1");
    BOOST_TEST(std::filesystem::exists(path / "home" / "letters"));  // until the new one is whole
    folder.publish();
  }
  BOOST_TEST(read_file(path / "home" / "a") == "1");
  BOOST_TEST(!std::filesystem::exists(path / "home" / "letters"));
  BOOST_TEST(entries(path) == 2u);
}

BOOST_FIXTURE_TEST_CASE(an_empty_folder_is_a_free_place, Folder) {
  make_folder(path / "out");
  OutputFolder folder(path / "out", ExistingExport::refuse, "report.json");
  publish_file(folder.staged() / "a", "1");
  folder.publish();
  BOOST_TEST(read_file(path / "out" / "a") == "1");
}

BOOST_AUTO_TEST_SUITE_END()
