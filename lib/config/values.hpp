// Option values with a form of their own: durations, byte counts, name patterns, and what a resume or a validation
// split may say. Each parses its text once; afterwards nobody compares strings. How options are declared:
// config/option.hpp.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// Every value type here has: form(), what it looks like, for help and messages; parse(text), which throws Error(usage)
// with the reason; text(), which parse() reads back to an equal value.

/// A duration. "90", "90s", "15m", "1h30m".
struct Seconds {
  double value = 0;
  static std::string form();
  static Seconds parse(const std::string& text);
  std::string text() const;
  auto operator<=>(const Seconds&) const = default;
};

/// A size of memory or files. "512", "64MiB", "5GB".
struct ByteSize {
  std::uint64_t bytes = 0;
  static std::string form();
  static ByteSize parse(const std::string& text);
  std::string text() const;
  auto operator<=>(const ByteSize&) const = default;
};

/// A size of memory, or a part of what would be needed: "5GB", "40%".
struct ByteBudget {
  ByteSize size;                // if there is no share
  std::optional<double> share;  // from 0 to 1
  static std::string form();
  static ByteBudget parse(const std::string& text);
  std::string text() const;
  bool operator==(const ByteBudget&) const = default;
};

/// A regular expression (PCRE2) that is looked for anywhere in a tensor's name; "^…$" for the whole name.
class NamePattern {
 public:
  static std::string form();
  static NamePattern parse(const std::string& text);
  const std::string& text() const { return text_; }
  /// Local. True if it is found in `name`; a pattern never parsed matches nothing. Throws Error(usage) for one that
  /// searches on and on.
  bool matches(std::string_view name) const;
  bool operator==(const NamePattern& other) const { return text_ == other.text_; }

 private:
  struct Compiled;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;
};

/// Where a run starts. "auto": the newest valid checkpoint, else from scratch; "never": from scratch, where there is no
/// checkpoint; "afresh": from scratch, after those that are there were put aside; "latest", "best": that one or an
/// error; a number: that step of this run; anything else: the folder of a checkpoint.
struct Resume {
  enum class From { automatic, never, afresh, latest, best, step, path } from = From::automatic;
  std::int64_t step = 0;  // of From::step
  std::string path;       // of From::path
  static std::string form();
  static Resume parse(const std::string& text);
  std::string text() const;
  bool operator==(const Resume&) const = default;
  bool from_scratch() const { return from == From::never || from == From::afresh; }
};

/// Which checkpoint of a run is meant: "best", by the metric that the run goes by; "last", the newest; or a step.
struct CheckpointChoice {
  enum class By { last, best, step } by = By::last;
  std::int64_t step = 0;  // of By::step
  static std::string form();
  static CheckpointChoice parse(const std::string& text);
  std::string text() const;
  bool operator==(const CheckpointChoice&) const = default;
};

/// How often something is done. "100" or "100 steps": after each step whose number is a multiple; "0.5 epochs": after
/// each step in which another half of an epoch is full; "10m" or "10 minutes": when so much time has passed since it
/// was done last; "500 steps + 1 epochs": whenever one of them says so, each unit once; "never".
struct Cadence {
  std::int64_t steps = 0;  // 0: not by steps
  double epochs = 0;       // 0: not by epochs
  Seconds time = {};       // 0: not by time
  static std::string form();
  static Cadence parse(const std::string& text);
  std::string text() const;
  bool operator==(const Cadence&) const = default;
  /// Whether it is ever due.
  explicit operator bool() const { return *this != Cadence{}; }
};

/// How long something waits from the begin of a run. "100" or "100 steps"; "0.5 epochs"; "0": not at all.
struct Delay {
  std::int64_t steps = 0;
  double epochs = 0;  // one of them is 0
  static std::string form();
  static Delay parse(const std::string& text);
  std::string text() const;
  bool operator==(const Delay&) const = default;
  explicit operator bool() const { return *this != Delay{}; }
};

/// The time between saves. "30m": that long; "auto": as often as a failure and the saves together cost least.
struct SaveInterval {
  bool automatic = false;
  Seconds time = {};  // unless automatic
  static std::string form();
  static SaveInterval parse(const std::string& text);
  std::string text() const;
  bool operator==(const SaveInterval&) const = default;
};

/// What backward computes again instead of keeping it from forward. "none"; "block": each decoder block; "every:K": the
/// first and every K-th after it; or as a plug-in says for each, by its name.
struct Recompute {
  std::int64_t every = 0;   // 0: none
  std::string plugin = {};  // the name of what says it instead; empty: none
  static std::string form();
  static Recompute parse(const std::string& text);
  std::string text() const;
  bool operator==(const Recompute&) const = default;
};

/// Which documents become the validation split. "hash:F": those whose content hash falls in a fraction F, whatever
/// their order; "tail:F": the last fraction F of the stream; "count:N": the N whose content hash is lowest; "none".
struct ValidationSplit {
  enum class By { none, hash, tail, count } by = By::none;
  double fraction = 0;     // of documents (hash) or of the stream (tail), in (0, 1)
  std::int64_t count = 0;  // of documents (count), at least 1
  static std::string form();
  static ValidationSplit parse(const std::string& text);
  std::string text() const;
  bool operator==(const ValidationSplit&) const = default;
};

/// What turns text into tokens. "bytes", "chars", or a path: a tokenizer.json or tokenizer.model, or a folder
/// with one or with vocab.json and merges.txt.
struct TokenizerChoice {
  enum class Kind { bytes, chars, files } kind = Kind::bytes;
  std::string path;  // of Kind::files
  static std::string form();
  static TokenizerChoice parse(const std::string& text);
  std::string text() const;
  bool operator==(const TokenizerChoice&) const = default;
};

/// What becomes of a block's gathered weights after its forward: "true", they are let go; "false", they stay; a number,
/// so many neighbouring ranks share them out among themselves.
struct AfterForward {
  std::int64_t ranks = 1;  // that a rank gathers them from again: 1, none; 0: all of dp_shard
  static std::string form();
  static AfterForward parse(const std::string& text);
  std::string text() const;
  bool operator==(const AfterForward&) const = default;
};

/// How many ranks lie along an axis of the mesh: so many; "auto", those that the other axes leave; or "node", those
/// that fill a node together with faster axes.
struct AxisSize {
  static constexpr std::int64_t of_node = -1;
  std::int64_t ranks = 0;  // 0: auto
  static std::string form();
  static AxisSize parse(const std::string& text);
  std::string text() const;
  bool operator==(const AxisSize&) const = default;
};

/// Which ranks write a part file of a checkpoint together: "node", those of a node; a number, so many neighbours.
struct RanksPerFile {
  std::int64_t ranks = 0;  // 0: node
  static std::string form();
  static RanksPerFile parse(const std::string& text);
  std::string text() const;
  bool operator==(const RanksPerFile&) const = default;
};

/// One of several equal parts, counted from 1. "1/4": the first of four.
struct PartChoice {
  std::int64_t part = 1;
  std::int64_t parts = 1;
  static std::string form();
  static PartChoice parse(const std::string& text);
  std::string text() const;
  bool operator==(const PartChoice&) const = default;
};

/// A word of a user about a run, "note=first try": kept with its checkpoints, read by nothing.
struct MetadataEntry {
  std::string key;  // of letters, digits and . _ -
  std::string value;
  static std::string form();
  static MetadataEntry parse(const std::string& text);
  std::string text() const;
  bool operator==(const MetadataEntry&) const = default;
};

/// Where the time line of the step programs is drawn: a file whose name says how, or "text", on standard output.
struct PlotTarget {
  enum class Kind { text, svg, json } kind = Kind::text;
  std::string path;  // of a file
  static std::string form();
  static PlotTarget parse(const std::string& text);
  std::string text() const;
  bool operator==(const PlotTarget&) const = default;
};

}  // namespace lockstep
