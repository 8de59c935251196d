#include "report/event_file.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(event_file)

// Vectors of RFC 3720, appendix B.4, and the check value of the CRC-32C catalogue entry.
BOOST_AUTO_TEST_CASE(checksums_are_those_of_rfc_3720) {
  BOOST_TEST(crc32c("123456789") == 0xE3069283U);
  BOOST_TEST(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  BOOST_TEST(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  BOOST_TEST(crc32c(rising) == 0x46DD794EU);
}

BOOST_AUTO_TEST_CASE(a_frame_is_length_checksum_payload_checksum) {
  const std::string frame = framed("abc");
  BOOST_TEST(frame.size() == 8U + 4 + 3 + 4);
  BOOST_TEST(frame.substr(0, 8) == std::string("\x03\0\0\0\0\0\0\0", 8));
  BOOST_TEST(frame.substr(12, 3) == "abc");
}

BOOST_AUTO_TEST_SUITE_END()
