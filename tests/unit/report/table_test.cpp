#include "report/table.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(columns_line_up_by_code_points_and_lines_end_without_blanks) {
  Table table({{"name", Table::Align::left}, {"MiB", Table::Align::right}, {"note", Table::Align::left}});
  table.add({"größe", "7", ""});
  table.add({"b", "1024", "x"});
  BOOST_TEST(table.text(1) == " name    MiB  note\n größe     7\n b      1024  x\n");
}

BOOST_AUTO_TEST_CASE(columns_without_titles_print_no_header) {
  Table table({{""}, {""}});
  table.add({"a", "b"});
  BOOST_TEST(table.text() == "a  b\n");
}

BOOST_AUTO_TEST_SUITE_END()
