#include "base/text.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(text)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(printable_text_keeps_letters_and_lines_and_replaces_what_a_terminal_would_obey) {
  BOOST_TEST(printable("").empty());
  BOOST_TEST(printable("a\tb\nÄ€😀") == "a\tb\nÄ€😀");
  BOOST_TEST(printable("\x1b[31mred\r\x7f\xc2\x9b") == "\uFFFD[31mred\uFFFD\uFFFD\uFFFD");
  BOOST_TEST(printable("a\xff\xe2\x82z\xf0") == "a\uFFFD\uFFFD\uFFFDz\uFFFD");
}

BOOST_AUTO_TEST_SUITE_END()
