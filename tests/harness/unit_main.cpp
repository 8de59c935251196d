// The main of the tests that run in one process. Prints TAP; --run_test=SUITE/CASE and the framework's other options
// work as usual.
#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_ALTERNATIVE_INIT_API
#include "harness/tap.hpp"

// Under AddressSanitizer. Of thread-local variables see mpirun.sh; what HDF5 forgets of files that it refuses is no
// finding, and of sound ones it forgets nothing.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5\n"; }
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }

namespace {

class UnitObserver final : public lockstep::test::TapObserver {
 public:
  void test_finish() override { print_plan(); }

 private:
  void case_started(const std::string&) override {}
  void case_finished(const std::string& title, bool passed, const std::string& log) override {
    print_result(title, passed, log);
  }
};

}  // namespace

int main(int argc, char** argv) {
  UnitObserver observer;
  return lockstep::test::run_tests(observer, argc, argv);
}
