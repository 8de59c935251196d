// Harness of tests that run on several ranks. Every rank runs every case; a case declares the numbers of ranks on which
// it makes sense, and is skipped on others. Between collectives use BOOST_TEST (which continues) or MPI_REQUIRE (which
// ends the case on all ranks). A BOOST_REQUIRE that fails on one rank leaves the others waiting until the watchdog of
// the case ends them.
#pragma once

#include "comm/communicator.hpp"

#include <boost/test/unit_test.hpp>

#include <initializer_list>

namespace lockstep::test {

/// All ranks of the test program.
Communicator& world();

/// Decorators: the case runs only if the number of ranks is one of these, or at least this.
boost::unit_test::precondition ranks(std::initializer_list<int> counts);
boost::unit_test::precondition at_least(int ranks);

/// Collective over world(): reports locally, and throws on all ranks unless `holds` everywhere.
void require_everywhere(bool holds, const char* expression, const char* file, int line);

}  // namespace lockstep::test

#define LOCKSTEP_MPI_TEST(name, on_ranks) BOOST_AUTO_TEST_CASE(name, *on_ranks)
#define MPI_REQUIRE(expression) \
  ::lockstep::test::require_everywhere(static_cast<bool>(expression), #expression, __FILE__, __LINE__)
