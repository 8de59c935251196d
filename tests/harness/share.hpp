// How many cases of a long test run: all of them in `make test-full`, which sets LOCKSTEP_TEST_ALL; a share in
// `make test`.
#pragma once

#include <cstdlib>

namespace lockstep::test {

inline bool all_cases() { return std::getenv("LOCKSTEP_TEST_ALL") != nullptr; }

/// Takes every `one_of`-th case that it is asked about, beginning with the first; with LOCKSTEP_TEST_ALL each.
class Share {
 public:
  explicit Share(int one_of) : one_of_(one_of) {}
  bool takes() { return asked_++ % one_of_ == 0 || all_cases(); }

 private:
  int one_of_;
  int asked_ = 0;
};

}  // namespace lockstep::test
