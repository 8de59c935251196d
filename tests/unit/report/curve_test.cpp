#include "report/curve.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "harness/temporary_folder.hpp"
#include "report/curve_scale.hpp"
#include "report/run_curve.hpp"
#include "report/table.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace lockstep;

namespace {

std::vector<Series> falling_line() { return {{"loss", {{0, 4}, {10, 2}, {20, 0}}}}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(curve)

BOOST_AUTO_TEST_CASE(ticks_are_round_numbers_within_the_range) {
  BOOST_TEST(ticks({0, 1000}, 5) == (std::vector<double>{0, 200, 400, 600, 800, 1000}),
             boost::test_tools::per_element());
  BOOST_TEST(ticks({-3, 3}, 3) == (std::vector<double>{-2, 0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_svg_path_runs_through_the_corners_of_the_frame) {
  const std::string svg = curve_svg({"t <1>", "step", "loss"}, falling_line());
  BOOST_TEST(svg.find("d=\"M80.0 40.0L430.0 220.0L780.0 400.0\"") != std::string::npos);
  BOOST_TEST(svg.find("t &lt;1&gt;") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_legend_stands_below_the_frame_in_as_many_lines_as_it_needs) {
  const auto legend_of = [](const std::string& svg) {
    std::vector<std::pair<double, double>> places;
    const std::string mark = "<text class=\"legend\" x=\"";
    for (std::size_t at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1)) {
      const std::string rest = svg.substr(at + mark.size());
      places.emplace_back(std::stod(rest), std::stod(rest.substr(rest.find("y=\"") + 3)));
    }
    return places;
  };
  using Places = std::vector<std::pair<double, double>>;
  const std::string one = curve_svg({"t", "step", "loss"}, falling_line());
  BOOST_CHECK((legend_of(one) == Places{{110, 460}}));
  BOOST_TEST(one.find("viewBox=\"0 0 800 468\"") != std::string::npos);
  const std::string name(60, 'a');  // two of them do not stand side by side
  const std::string two = curve_svg({"t", "x", "y"}, {{name, {{0, 1}}}, {name, {{0, 2}}}});
  BOOST_CHECK((legend_of(two) == Places{{110, 460}, {110, 478}}));
  BOOST_TEST(two.find("viewBox=\"0 0 800 486\"") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_point_that_is_not_finite_leaves_a_gap) {
  std::vector<Series> series = falling_line();
  series[0].points.insert(series[0].points.begin() + 1, {5, std::numeric_limits<double>::quiet_NaN()});
  BOOST_TEST(curve_svg({}, series).find("d=\"M80.0 40.0M430.0 220.0L780.0 400.0\"") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_ascii_picture_of_a_falling_line_is_a_diagonal) {
  const std::string expected =
      "t\n"
      "       4 |**\n"
      "         |  **\n"
      "       2 |    **\n"
      "         |      **\n"
      "       0 |        **\n"
      "         +----------\n"
      "          0  20 step\n";
  BOOST_TEST(curve_text({"t", "step", "loss"}, falling_line(), 20, 5, Charset::ascii) == expected);
}

BOOST_AUTO_TEST_CASE(the_unicode_picture_stays_within_the_columns) {
  const std::string text = curve_text({"t", "step", "loss"}, falling_line(), 60, 10, Charset::unicode);
  for (const std::string& line : split(text, '\n')) BOOST_TEST(width_of(line) <= 60U);
  BOOST_TEST(text.find("\xE2\xA0") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(losses_are_read_back_past_a_resume_other_records_and_a_torn_end, TemporaryFolder) {
  publish_file(path / "records.jsonl",
               "{\"kind\":\"step\",\"step\":1,\"loss\":4}\n{\"kind\":\"step\",\"step\":5,\"loss\":3}\n7\n{\"kind\":[],"
               "\"loss\":1}\n"
               "{\"kind\":\"step\",\"loss\":1}\n{\"kind\":\"step\",\"step\":3,\"loss\":2}\n{\"kind\":\"eval\",\"step\":"
               "3,\"loss\":null}\n{\"kind\":\"st");
  const std::vector<Series> series = loss_series(path);
  BOOST_REQUIRE(series.size() == 1);
  BOOST_REQUIRE(series[0].points.size() == 2);  // a run that resumed at step 2 went back from step 5
  BOOST_TEST((series[0].points[0].y == 4 && series[0].points[1].x == 3 && series[0].points[1].y == 2));
}

BOOST_FIXTURE_TEST_CASE(a_damaged_line_costs_its_own_point_only, TemporaryFolder) {
  publish_file(path / "records.jsonl",
               "{\"kind\":\"step\",\"step\":1,\"loss\":4}\n{\n\xff\"\n{\"kind\":\"st{\"kind\":\"step\",\"step\":2,"
               "\"loss\":5}\n{\"kind\":\"step\",\"step\":3,\"loss\":2}\n");
  const std::vector<Series> series = loss_series(path);
  BOOST_REQUIRE(series.size() == 1 && series[0].points.size() == 2);
  BOOST_TEST((series[0].points[0].y == 4 && series[0].points[1].y == 2));
  BOOST_CHECK_THROW(loss_series(path / "absent"), Error);
}

BOOST_AUTO_TEST_CASE(a_curve_of_one_point_or_none_has_axes_still) {
  BOOST_TEST(curve_text({"t", "x", "y"}, {{"loss", {{3, 2}}}}, 30, 4, Charset::ascii).find('*') != std::string::npos);
  BOOST_TEST(curve_svg({"t", "x", "y"}, {}).find("</svg>") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
