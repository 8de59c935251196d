#include "report/wandb_file.hpp"
#include "base/json.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(wandb_file)

namespace {

/// Kinds of the frames of a file, in order: "FML" is a message in three parts.
std::string kinds_of(const std::string& file) {
  std::string kinds;
  std::size_t at = 7;  // behind the header
  while (at < file.size()) {
    const std::size_t room = 32768 - at % 32768;
    if (room < 7) {
      at += room;
      continue;
    }
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(file.at(at + i)); };
    kinds += std::string(" WFML").at(byte(6));
    at += 7U + byte(4) + 256U * byte(5);
  }
  return kinds;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_header_names_format_and_version) {
  BOOST_TEST(wandb_file_header() == std::string(":W&B\xE1\xBE\0", 7));
}

// By zlib.crc32 of Python, of the kind and the data.
BOOST_AUTO_TEST_CASE(a_frame_has_the_checksum_of_its_kind_and_data) {
  const std::string frame = wandb_frames("23456789", 7);
  BOOST_TEST(frame.substr(4) == std::string("\x08\0\x01", 3) + "23456789");
  BOOST_TEST(frame.substr(0, 4) == std::string("\xF4\xF9\xC5\xE5", 4));
}

BOOST_AUTO_TEST_CASE(messages_are_cut_where_blocks_end_and_no_frame_begins_in_the_last_six_bytes) {
  for (std::size_t length = 32768 - 40; length < 32768 + 40; ++length) {
    std::string file = wandb_file_header();
    file += wandb_frames(std::string(length, 'a'), file.size());
    const std::string first = kinds_of(file);
    BOOST_TEST(first == (length <= 32768 - 14 ? "W" : "FL"), length);
    file += wandb_frames("b", file.size());
    BOOST_TEST(kinds_of(file).size() >= first.size() + 1, length);
  }
  std::string file = wandb_file_header();
  file += wandb_frames(std::string(100000, 'a'), file.size());
  BOOST_TEST(kinds_of(file) == "FMML");
  BOOST_TEST(kinds_of(file + wandb_frames("", file.size())) == "FMMLW");
}

BOOST_AUTO_TEST_SUITE_END()
