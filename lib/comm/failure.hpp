// Failure describes an error of one rank for the other ranks; explain() chooses the one that is reported to the user.
#pragma once

#include "base/error.hpp"
#include "comm/communicator.hpp"

#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// AgreedError is thrown by every rank of the job at the same point, so a rank that catches it may continue to
/// communicate.
class AgreedError : public Error {
 public:
  AgreedError(const Error& error, int owner) : Error(error), owner_(owner) {}
  int owner() const { return owner_; }  // the world rank that failed and prints the explanation

 private:
  int owner_;
};

/// Failure describes an error of one rank. An exception that is not an Error counts as a bug.
struct Failure {
  ExitCode code = ExitCode::bug;
  std::string message;
  std::string hint;
  int rank = 0;  // world rank
  std::string host;

  bool operator==(const Failure&) const = default;
};

/// Returns the Error that an exception of a library stands for; nothing if the exception is a bug.
using ExceptionTranslation = std::optional<Error> (*)(const std::exception& exception);
/// From now on failure_of asks `translation` about exceptions that are no Error; null: they are bugs. Called before the
/// work of the job, from one thread.
void translate_exceptions(ExceptionTranslation translation);

/// The failure of this rank that `exception` stands for. Local.
Failure failure_of(const std::exception_ptr& exception, const Communicator& ranks);
std::string encode(const Failure& failure);
Failure decode_failure(const std::string& text);

/// Priority of a failure for the report: causes before their consequences (a peer that died), our bugs before all
/// others. Higher is worse.
int severity(ExitCode code);

/// The one explanation of `failures` (at least one) among `size` ranks: the worst one, of the lowest rank, as "rank 3
/// (node17): <message>". A message that several ranks have names them all, one that all ranks have names none. Further
/// different messages are counted. `what` goes between rank and message if it is not empty. Local.
AgreedError explain(const std::vector<Failure>& failures, int size, std::string_view what);

}  // namespace lockstep
