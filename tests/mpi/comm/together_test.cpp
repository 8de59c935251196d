#include "comm/together.hpp"

#include "comm/failure.hpp"
#include "harness/mpi_test.hpp"

#include <new>

using namespace lockstep;
using test::world;

namespace {

/// The AgreedError that `work` ends with on this rank, after checking that all ranks got the same one.
AgreedError agreed(const std::function<void()>& work) {
  std::optional<AgreedError> error;
  try {
    work();
  } catch (const AgreedError& thrown) {
    error = thrown;
  }
  MPI_REQUIRE(error.has_value());
  const std::string mine =
      fmt::format("{}|{}|{}|{}", static_cast<int>(error->code()), error->what(), error->hint(), error->owner());
  for (const std::string& other : world().all_gather(mine)) BOOST_TEST(other == mine);
  return *error;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(together_)

LOCKSTEP_MPI_TEST(work_that_succeeds_everywhere_goes_on, test::at_least(1)) {
  int done = 0;
  together(world(), "work", [&] { ++done; });
  BOOST_TEST(done == 1);
}

LOCKSTEP_MPI_TEST(a_rank_that_fails_makes_all_throw_its_error_with_code_and_hint, test::at_least(2)) {
  const AgreedError error = agreed([] {
    together(world(), "opening shards", [] {
      if (world().rank() == 1) throw Error(ExitCode::storage, "cannot open a.h5: permission denied", "chmod +r a.h5");
    });
  });
  BOOST_TEST((error.code() == ExitCode::storage));
  BOOST_TEST(error.what() ==
             fmt::format("rank 1 ({}): opening shards: cannot open a.h5: permission denied", host_name()));
  BOOST_TEST(error.hint() == "chmod +r a.h5");
  BOOST_TEST(error.owner() == 1);
}

LOCKSTEP_MPI_TEST(of_two_failures_the_worse_is_told_and_the_other_counted, test::at_least(3)) {
  const AgreedError error = agreed([] {
    together(world(), "loading", [] {
      if (world().rank() == 0) fail(ExitCode::input, "bad file");
      if (world().rank() == 2) fail(ExitCode::numerics, "not finite");
    });
  });
  BOOST_TEST((error.code() == ExitCode::numerics));
  BOOST_TEST(error.what() ==
             fmt::format("rank 2 ({}): loading: not finite (and 1 other failure on other ranks)", host_name()));
}

LOCKSTEP_MPI_TEST(a_failure_shared_by_some_names_them_and_one_shared_by_all_names_none, test::at_least(3)) {
  const AgreedError some = agreed([] {
    together(world(), "reading", [] {
      if (world().rank() < 2) fail(ExitCode::input, "no file");
    });
  });
  BOOST_TEST(some.what() == std::string("ranks 0-1: reading: no file"));
  const AgreedError all = agreed([] { together(world(), "reading", [] { fail(ExitCode::input, "no file"); }); });
  BOOST_TEST(all.what() == std::string("reading: no file"));
}

LOCKSTEP_MPI_TEST(exceptions_of_the_library_are_resources_or_bugs, test::at_least(1)) {
  BOOST_TEST((agreed([] { together(world(), "x", [] { throw std::bad_alloc(); }); }).code() == ExitCode::resources));
  BOOST_TEST((agreed([] { together(world(), "x", [] { throw std::logic_error("y"); }); }).code() == ExitCode::bug));
}

LOCKSTEP_MPI_TEST(a_collective_inside_local_work_fails_at_once_instead_of_hanging, test::at_least(2)) {
  const AgreedError error = agreed([] {
    together(world(), "x", [] {
      if (world().rank() == 0) world().barrier();
    });
  });
  BOOST_TEST((error.code() == ExitCode::bug));
  BOOST_TEST(std::string(error.what()).find("barrier called inside LocalWork, which must not communicate") !=
             std::string::npos);
}

LOCKSTEP_MPI_TEST(rank_0_tells_its_text_or_its_error_to_all, test::at_least(1)) {
  int calls = 0;
  BOOST_TEST(run_on_rank0(world(), "x", [&] {
               ++calls;
               return std::string("text\0with zero", 14);
             }) == std::string("text\0with zero", 14));
  BOOST_TEST(calls == (world().rank() == 0 ? 1 : 0));
  BOOST_TEST((agreed([] { run_on_rank0(world(), "x", []() -> std::string { fail(ExitCode::input, "no"); }); }).code() ==
              ExitCode::input));
}

LOCKSTEP_MPI_TEST(values_that_differ_are_shown_and_equal_ones_pass, test::at_least(2)) {
  agree_equal(world(), "the plan", "same");
  const AgreedError error = agreed([] { agree_equal(world(), "the plan", world().rank() == 1 ? "b" : "a"); });
  BOOST_TEST((error.code() == ExitCode::usage));
  BOOST_TEST(error.what() == std::string("the plan differs between ranks: 'b' on rank 1, 'a' on the first"));
}

BOOST_AUTO_TEST_SUITE_END()
