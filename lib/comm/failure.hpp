// Failure is what ranks exchange when some of them fail; explain() chooses the one that the user is told.
#pragma once

#include "base/error.hpp"
#include "comm/communicator.hpp"

#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// AgreedError is one that every rank of the job throws at the same point: whoever catches it may go on communicating.
class AgreedError : public Error {
 public:
  AgreedError(const Error& error, int owner) : Error(error), owner_(owner) {}
  int owner() const { return owner_; }  // the world rank that failed and prints the explanation

 private:
  int owner_;
};

/// Failure says what went wrong on one rank. An exception that is no Error counts as a bug.
struct Failure {
  ExitCode code = ExitCode::bug;
  std::string message;
  std::string hint;
  int rank = 0;  // world rank
  std::string host;

  bool operator==(const Failure&) const = default;
};

/// The failure that `exception` is on this rank. Local.
Failure failure_of(const std::exception_ptr& exception, const Communicator& ranks);
std::string encode(const Failure& failure);
Failure decode_failure(const std::string& text);

/// Which failure is worth telling: causes before consequences (a peer that died), bugs of ours before all. Higher is
/// worse.
int severity(ExitCode code);

/// The one explanation of `failures` (at least one) among `size` ranks: the worst, of the lowest rank, as
/// "rank 3 (node17): <message>"; a message that several ranks share names them all, one that all ranks share names
/// none; further different messages are counted. `what` goes between rank and message if it is not empty. Local.
AgreedError explain(const std::vector<Failure>& failures, int size, std::string_view what);

}  // namespace lockstep
