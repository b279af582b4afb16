// What a model computes, read from the text that the compiler wrote of it (tools/driver/compile/Mathematics.h) and that
// snapshots keep.
//
//   mathematics 1                                  the form of the text
//   input x ( 'batch 'feat=5 ) f32                 what a step reads, with axes as they lie in memory; the batch has no
//   param a.w ( 'feat=5 'hid=8 ) f32               size. Then `state`
//   line 4 case.ech:10  h = dropout(relu(h), 0.3)  a line of the spec, which what is marked @4 comes from
//   %10 = dot %0 %2 over [ 'feat ] [ 'batch 'hid=8 ] f32 @2
//                                                  an operation: operands (%0, %13.2 of several results, #0.9 a
//                                                  number), sites of random values (~dropout), sets of axes, the
//                                                  result's at the end; any other word is part of what the operation is
//   %5 = carried 'layer=4 %2 [ … ] f32             what a loop carries starts as %2; carry %5 %9: and is %9 after each
//                                                  iteration; after, stack, total: what comes out of the loop
//   loss noise %39 @7, next bn.mean %16 @2         what all this is for
//
// Equal mathematics have equal hashes: independent of the order of statements, of names of locals, inputs and axes, of
// the order in which sums, products, maxima and comparisons take their operands, and of how sums and products are put
// in parentheses. What is multiplied by 0 is 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace echelon::runtime {

struct Mathematics {
  struct Operand {
    int node = -1;       // -1: a number
    int result = 0;      // of several
    std::string literal; // the number
  };
  struct Node {
    std::string op;
    std::string head; // everything that is neither operand nor site, axes of a set in order
    std::vector<Operand> operands;
    std::vector<std::string> sites;
    bool hasNext = false; // of a carried value: what it is behind an iteration
    Operand next;
    int line = -1;
  };
  struct Root {
    std::string name;
    Operand value;
    int line = -1;
  };
  struct Tensor {
    std::string kind, name; // input, param or state
    std::vector<std::string> axes;
  };

  std::vector<Node> nodes; // operands first
  std::vector<std::string> lines;
  std::vector<Root> losses, nexts;
  std::vector<Tensor> tensors;
  std::vector<std::string> axes; // all of them, as they come

  std::string lineOf(int line) const { return line < 0 ? "" : lines[size_t(line)]; }
};

/// Other names for the same things.
struct Renaming {
  std::map<std::string, std::string> axes, inputs;
};

/// Reads the text, with other names where there are such. Returns what is wrong with it, or an empty string.
std::string readMathematics(const std::string &text, const Renaming &renaming, Mathematics &mathematics);

/// Under which names what `then` has is found in `now`: axes by the tensors that have them, inputs by their place.
Renaming renamingOf(const Mathematics &then, const Mathematics &now);

/// What of an operation counts for its hash.
enum class Counts {
  All,       // and what carried values become
  Locally,   // not what carried values become, so that a change inside of a loop does not reach all of it
  Structure, // not which numbers and which sites of random values it has
};
/// One hash a node.
std::vector<uint64_t> hashesOf(const Mathematics &mathematics, Counts counts);
/// Of an operand, given those of the nodes.
uint64_t hashOf(const Mathematics::Operand &operand, const std::vector<uint64_t> &hashes, Counts counts);

/// Whether the order of the operands does not count.
bool isCommutative(const std::string &op);

} // namespace echelon::runtime
