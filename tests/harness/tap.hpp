// Prints every Boost test case as one TAP line, "ok 3 - suite/case", so that each claim is counted. Derived classes
// judge a case, in one process or by all ranks together.
#pragma once

#include <boost/test/results_collector.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/unit_test.hpp>

#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep::test {

class TapObserver : public boost::unit_test::test_observer {
 public:
  // Runs after the framework's own first observer, which reports a failed start until it has been called, and before
  // the log and the judge. Cases therefore start here first and finish here last, when they have been judged.
  int priority() override { return 1; }

  void test_start(boost::unit_test::counter_t, boost::unit_test::test_unit_id) override {
    boost::unit_test::unit_test_log.set_stream(log_);
  }

  void test_unit_start(const boost::unit_test::test_unit& unit) override {
    if (unit.p_type == boost::unit_test::TUT_CASE) case_started(unit.full_name());
  }

  void test_unit_finish(const boost::unit_test::test_unit& unit, unsigned long elapsed_us) override {
    if (unit.p_type != boost::unit_test::TUT_CASE) return;
    const bool passed = boost::unit_test::results_collector.results(unit.p_id).passed();
    const std::string log = log_.str();
    log_.str({});
    seconds_ = static_cast<double>(elapsed_us) * 1e-6;
    case_finished(unit.full_name(), passed, log);
  }

  void test_unit_skipped(const boost::unit_test::test_unit& unit, boost::unit_test::const_string reason) override {
    const std::string why(reason.begin(), reason.size());
    if (why != "disabled") case_skipped(unit.full_name(), why);  // disabled: not asked for on the command line
  }

  int failed() const { return failed_; }

 protected:
  virtual void case_started(const std::string& title) = 0;
  virtual void case_finished(const std::string& title, bool passed, const std::string& log) = 0;
  virtual void case_skipped(const std::string& title, const std::string& reason) { print_skip(title, reason); }

  void print_result(const std::string& title, bool passed, const std::string& diagnosis) {
    if (!passed) ++failed_;
    std::cout << (passed ? "ok " : "not ok ") << ++count_ << " - " << title << '\n';
    std::istringstream lines(diagnosis);
    for (std::string line; std::getline(lines, line);) std::cout << "# " << line << '\n';
    std::cout << std::fixed << std::setprecision(1) << "# " << seconds_ << " s" << std::endl;
  }
  void print_skip(const std::string& title, const std::string& reason) {
    std::cout << "ok " << ++count_ << " - " << title << " # SKIP " << reason << std::endl;
  }
  void print_plan() { std::cout << "1.." << count_ << std::endl; }
  int count() const { return count_; }

 private:
  std::ostringstream log_;
  double seconds_ = 0;  // of the case that ended last
  int count_ = 0;
  int failed_ = 0;
};

/// Runs all test cases of this program under `observer`. Returns the framework's exit code.
inline int run_tests(TapObserver& observer, int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (const char* more : {"--color_output=no", "--report_level=no", "--log_level=error", "--catch_system_errors=no"})
    arguments.emplace_back(more);
  std::vector<char*> raw;
  for (std::string& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  boost::unit_test::framework::register_observer(observer);
  const int code =
      boost::unit_test::unit_test_main([] { return true; }, static_cast<int>(arguments.size()), raw.data());
  return code;
}

}  // namespace lockstep::test
