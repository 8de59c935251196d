// The text of an error of LibTorch.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace lockstep {

/// Returns the first line of an error, without the stack of calls.
inline std::string message_of(const c10::Error& error) {
  const std::string told = error.what_without_backtrace();
  return told.substr(0, told.find('\n'));
}

}  // namespace lockstep
