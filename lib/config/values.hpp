// Option values with a text form of their own: starts of a run, cadences, validation splits. Each type parses its text
// once; later code never compares strings. It has the three functions that options/quantities.hpp describes.
#pragma once

#include "options/name_pattern.hpp"
#include "options/quantities.hpp"

#include <cstdint>
#include <string>

namespace lockstep {

/// Resume says where a run starts. "auto": the newest valid checkpoint, or from scratch if there is none. "never": from
/// scratch; there must be no checkpoint. "afresh": from scratch; existing checkpoints are put aside first. "latest",
/// "best": that checkpoint, or an error. A number: that step of this run. A path (with a "/", or beginning with "." or
/// "step-"): the folder of a checkpoint.
struct Resume {
  enum class From { automatic, never, afresh, latest, best, step, path } from = From::automatic;
  std::int64_t step = 0;  // for From::step
  std::string path;       // for From::path
  static std::string form();
  static Resume parse(const std::string& text);
  std::string text() const;
  bool operator==(const Resume&) const = default;
  bool from_scratch() const { return from == From::never || from == From::afresh; }
};

/// CheckpointChoice selects a checkpoint of a run: "best" by the run's metric, "last" (the newest), or a step.
struct CheckpointChoice {
  enum class Kind { last, best, step } by = Kind::last;
  std::int64_t step = 0;  // for Kind::step
  static std::string form();
  static CheckpointChoice parse(const std::string& text);
  std::string text() const;
  bool operator==(const CheckpointChoice&) const = default;
};

/// Cadence says how often something is done. "100" or "100 steps": after each step whose number is a multiple. "0.5
/// epochs": after each step that completes another half epoch. "10m" or "10 minutes": when this time has passed since
/// the last time. "500 steps + 1 epochs": whenever one of them is due; each unit occurs at most once. Or "never".
struct Cadence {
  std::int64_t steps = 0;  // 0: not by steps
  double epochs = 0;       // 0: not by epochs
  Seconds time = {};       // 0: not by time
  static std::string form();
  static Cadence parse(const std::string& text);
  std::string text() const;
  bool operator==(const Cadence&) const = default;
  /// Returns whether it is ever due.
  explicit operator bool() const { return *this != Cadence{}; }
};

/// Delay is a wait from the beginning of a run: "100", "100 steps" or "0.5 epochs". "0": no wait.
struct Delay {
  std::int64_t steps = 0;
  double epochs = 0;  // steps or epochs is 0
  static std::string form();
  static Delay parse(const std::string& text);
  std::string text() const;
  bool operator==(const Delay&) const = default;
  explicit operator bool() const { return *this != Delay{}; }
};

/// SaveInterval is the time between saves: "30m", or "auto", which minimises the expected cost of failures and saves.
struct SaveInterval {
  bool automatic = false;
  Seconds time = {};  // if not automatic
  static std::string form();
  static SaveInterval parse(const std::string& text);
  std::string text() const;
  bool operator==(const SaveInterval&) const = default;
};

/// Recompute is activation checkpointing: which blocks backward recomputes. "none". "block": each decoder block.
/// "every:K": the first block and every K-th after it. The name of a plug-in: the plug-in decides for each block.
struct Recompute {
  std::int64_t every = 0;   // 0: none
  std::string plugin = {};  // name of the plug-in that decides; empty: none
  static std::string form();
  static Recompute parse(const std::string& text);
  std::string text() const;
  bool operator==(const Recompute&) const = default;
};

/// ValidationSplit selects the documents of the validation split. "hash:F": a fraction F by content hash, in any order.
/// "tail:F": the last fraction F of the stream. "count:N": the N documents with the lowest content hashes. "none".
struct ValidationSplit {
  enum class Kind { none, hash, tail, count } by = Kind::none;
  double fraction = 0;     // of documents (hash) or of the stream (tail), in (0, 1)
  std::int64_t count = 0;  // documents (count), at least 1
  static std::string form();
  static ValidationSplit parse(const std::string& text);
  std::string text() const;
  bool operator==(const ValidationSplit&) const = default;
};

/// TokenizerChoice names a tokenizer: "bytes", "chars", or a path. The path is a tokenizer.json, a tokenizer.model, or
/// a folder that holds one of them or vocab.json and merges.txt.
struct TokenizerChoice {
  enum class Kind { bytes, chars, files } kind = Kind::bytes;
  std::string path;  // for Kind::files
  static std::string form();
  static TokenizerChoice parse(const std::string& text);
  std::string text() const;
  bool operator==(const TokenizerChoice&) const = default;
};

/// AfterForward says how a block's gathered weights are kept after its forward. "true": they are freed. "false": they
/// stay. A number R: R neighbouring ranks keep the weights sharded among themselves.
struct AfterForward {
  std::int64_t ranks = 1;  // ranks that they are gathered from again; 1: weights stay; 0: all ranks of dp_shard
  static std::string form();
  static AfterForward parse(const std::string& text);
  std::string text() const;
  bool operator==(const AfterForward&) const = default;
};

/// AxisSize is the number of ranks along an axis of the mesh: a number; "auto", the ranks that the other axes leave; or
/// "node", the ranks of a node that the faster axes leave.
struct AxisSize {
  static constexpr std::int64_t of_node = -1;
  std::int64_t ranks = 0;  // 0: auto
  static std::string form();
  static AxisSize parse(const std::string& text);
  std::string text() const;
  bool operator==(const AxisSize&) const = default;
};

/// RanksPerFile says which ranks share one part file of a checkpoint: "node" (the ranks of a node), or a number of
/// neighbouring ranks.
struct RanksPerFile {
  std::int64_t ranks = 0;  // 0: node
  static std::string form();
  static RanksPerFile parse(const std::string& text);
  std::string text() const;
  bool operator==(const RanksPerFile&) const = default;
};

/// PartChoice is one of several equal parts, counted from 1. "1/4" is the first of four.
struct PartChoice {
  std::int64_t part = 1;
  std::int64_t parts = 1;
  static std::string form();
  static PartChoice parse(const std::string& text);
  std::string text() const;
  bool operator==(const PartChoice&) const = default;
};

/// MetadataEntry is a note of the user on a run, such as "note=first try". Checkpoints keep it; no program interprets
/// it.
struct MetadataEntry {
  std::string key;  // letters, digits and . _ -
  std::string value;
  static std::string form();
  static MetadataEntry parse(const std::string& text);
  std::string text() const;
  bool operator==(const MetadataEntry&) const = default;
};

/// PlotTarget says where a picture is drawn: a file, whose name gives the format (.svg, .json), or "text" on standard
/// output.
struct PlotTarget {
  enum class Kind { text, svg, json } kind = Kind::text;
  std::string path;  // of the file; empty for text
  static std::string form();
  static PlotTarget parse(const std::string& text);
  std::string text() const;
  bool operator==(const PlotTarget&) const = default;
};

}  // namespace lockstep
