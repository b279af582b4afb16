// What the verifiers refuse.
// RUN: echelon-opt %s -split-input-file -verify-diagnostics

#whole = #dist.state<tp = whole>
#sum = #dist.state<tp = sum>
!whole = !ech.tensor<[seq=8], f32, #whole>
!sum = !ech.tensor<[seq=8], f32, #sum>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // expected-error@+1 {{'dist.all_reduce' op does not make sum of whole over tp}}
    %0 = dist.all_reduce %w over ["tp"] why "" : (!whole) -> !sum
  }
}

// -----
!whole = !ech.tensor<[seq=7], f32, #dist.state<tp = whole>>
!seq = !ech.tensor<[seq=7], f32, #dist.state<tp = split seq>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // expected-error@+1 {{'dist.convert' op seq = 7 does not divide by tp = 2}}
    %0 = dist.convert %w why "" : !whole -> !seq
  }
}

// -----
!whole = !ech.tensor<[seq=8], f32, #dist.state<dp = whole, tp = whole>>
!seq = !ech.tensor<[seq=8], f32, #dist.state<dp = split seq, tp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [], tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // expected-error@+1 {{'dist.slice' op changes the state over dp, which it does not name}}
    %0 = dist.slice %w over ["tp"] why "" : !whole -> !seq
  }
}

// -----
// expected-error@+1 {{axis "seq" is listed twice for mesh axis tp}}
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq, seq]>} {}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    // expected-error@+1 {{'dist.start' op has one dist.wait}}
    %0 = dist.start "all_reduce" %w over ["tp"] why "" : (!sum) -> !dist.token
  }
}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
!whole = !ech.tensor<[seq=8], f32, #dist.state<tp = whole>>
!seq = !ech.tensor<[seq=8], f32, #dist.state<tp = split seq>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    // expected-error@+1 {{'dist.start_each' op is stacked by the repeat that it is in, and nothing else reads it}}
    %0 = dist.start_each "all_reduce" %w over ["tp"] why "" : (!sum) -> !whole
  }
}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
!seq = !ech.tensor<[seq=8], f32, #dist.state<tp = split seq>>
!seqs = !ech.tensor<[layer=3, seq=8], f32, #dist.state<tp = split seq>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    %0, %1 = ech.repeat "layer" = 3 carry(%w : !sum) -> (!sum) stack (!seqs) {
    ^bb0(%c: !sum):
      // expected-error@+1 {{'dist.start_each' op cannot start a reduce_scatter in each iteration}}
      %2 = dist.start_each "reduce_scatter" %c over ["tp"] why "" : (!sum) -> !seq
      ech.yield carry(%c : !sum) stack(%2 : !seq)
    }
    %3 = dist.wait_each %1 : !seqs
  }
}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
!whole = !ech.tensor<[seq=8], f32, #dist.state<tp = whole>>
!wholes = !ech.tensor<[layer=3, seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    %0, %1 = ech.repeat "layer" = 3 carry(%w : !sum) -> (!sum) stack (!wholes) {
    ^bb0(%c: !sum):
      // expected-error@+1 {{'dist.start_each' op has one dist.wait_each, which alone reads the stack}}
      %2 = dist.start_each "all_reduce" %c over ["tp"] why "" : (!sum) -> !whole
      ech.yield carry(%c : !sum) stack(%2 : !whole)
    }
    %3 = ech.map neg %1 : (!wholes) -> !wholes
  }
}

// -----
!wholes = !ech.tensor<[layer=3, seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !wholes
    // expected-error@+1 {{'dist.wait_each' op waits for what dist.start_each made in each iteration of a repeat}}
    %3 = dist.wait_each %w : !wholes
  }
}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
!whole = !ech.tensor<[seq=8], f32, #dist.state<tp = whole>>
!wholes = !ech.tensor<[layer=3, seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    // expected-error@+1 {{'dist.start_each' op is stacked by the repeat that it is in, and nothing else reads it}}
    %outside = dist.start_each "all_reduce" %w over ["tp"] why "" : (!sum) -> !whole
    %0, %1 = ech.repeat "layer" = 3 carry(%w : !sum) -> (!sum) stack (!wholes) {
    ^bb0(%c: !sum):
      ech.yield carry(%c : !sum) stack(%outside : !whole)
    }
    %2 = dist.wait_each %1 : !wholes
  }
}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
!seq = !ech.tensor<[seq=8], f32, #dist.state<tp = split seq>>
!seqs = !ech.tensor<[layer=3, seq=8], f32, #dist.state<tp = split seq>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    %0, %1 = ech.repeat "layer" = 3 carry(%w : !sum) -> (!sum) stack (!seqs) {
    ^bb0(%c: !sum):
      // expected-error@+1 {{'dist.start_each' op does not make split seq of sum over tp}}
      %2 = dist.start_each "all_reduce" %c over ["tp"] why "" : (!sum) -> !seq
      ech.yield carry(%c : !sum) stack(%2 : !seq)
    }
    %3 = dist.wait_each %1 : !seqs
  }
}

// -----
!sum = !ech.tensor<[seq=8], f32, #dist.state<tp = sum>>
!wholes = !ech.tensor<[layer=3, seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !sum
    // expected-error@+1 {{results in as many stacks and sums as it yields}}
    %0, %1 = ech.repeat "layer" = 3 carry(%w : !sum) -> (!sum) stack (!wholes) {
    ^bb0(%c: !sum):
      ech.yield carry(%c : !sum)
    }
    %2 = dist.wait_each %1 : !wholes
  }
}

// -----
!own = !ech.tensor<[seq=8], f32, #dist.state<tp = own>>
!whole = !ech.tensor<[seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !own
    // expected-error@+1 {{'dist.all_reduce' op does not make whole of own over tp}}
    %0 = dist.all_reduce %w over ["tp"] why "" : (!own) -> !whole
  }
}

// -----
!own = !ech.tensor<[seq=8], f32, #dist.state<tp = own>>
!whole = !ech.tensor<[seq=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !own
    // expected-error@+1 {{'dist.all_reduce' op is by max, by min, or a sum, not by mean}}
    %0 = dist.all_reduce %w by "mean" over ["tp"] why "" : (!own) -> !whole
  }
}

// -----
!x = !ech.tensor<[batch=2, seq=8], f32, #dist.state<tp = split seq>>
!row = !ech.tensor<[batch=2], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !x
    // expected-error@+1 {{'dist.partial' op sum_of_exp has 2 operands and 1 results, not 1 and 1}}
    %0 = dist.partial sum_of_exp %w along ["seq"] : (!x) -> !row
  }
}

// -----
!x = !ech.tensor<[batch=2, seq=8], f32, #dist.state<tp = split seq>>
!row = !ech.tensor<[batch=2], f64, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !x
    // expected-error@+1 {{'dist.partial' op is a sum over the mesh axes that divide its operand, not #dist.state<tp = whole>}}
    %0 = dist.partial squares %w along ["seq"] : (!x) -> !row
  }
}

// -----
!own = !ech.tensor<[batch=2], f32, #dist.state<tp = own>>
!all = !ech.tensor<[rank=4, batch=2], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !own
    // expected-error@+1 {{'dist.collect' op adds the axis rank = 2 before those of [batch = 2], not [rank = 4, batch = 2]}}
    %0 = dist.collect %w into "rank" over ["tp"] why "" : !own -> !all
  }
}

// -----
!row = !ech.tensor<[batch=2], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !row
    // expected-error@+1 {{'dist.combine' op logsumexp has 2 operands and 3 results, not 1 and 1}}
    %0 = dist.combine logsumexp %w along ["seq"] : (!row) -> !row
  }
}

// -----
!x = !ech.tensor<[batch=2, k=4], f32, #dist.state<tp = whole>>
!w = !ech.tensor<[k=4, ff=8], f32, #dist.state<tp = whole>>
!y = !ech.tensor<[batch=2, ff=8], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 []>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    // expected-error@+1 {{'dist.linear' op multiplies in two bytes, not 'f32'}}
    %0 = dist.linear %x, %w over ["k"] : (!x, !w) -> !y
  }
}

// -----
!x = !ech.tensor<[batch=2, k=4], bf16, #dist.state<tp = whole>>
!w = !ech.tensor<[k=4, ff=8], bf16, #dist.state<tp = whole>>
!y = !ech.tensor<[batch=2, ff=8], f16, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 []>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    // expected-error@+1 {{'dist.linear' op is of one element type, not of 'bf16', 'bf16' and 'f16'}}
    %0 = dist.linear %x, %w over ["k"] : (!x, !w) -> !y
  }
}

// -----
!x = !ech.tensor<[batch=2, k=4], bf16, #dist.state<tp = whole>>
!w = !ech.tensor<[k=4, ff=8], bf16, #dist.state<tp = whole>>
!b = !ech.tensor<[ff=8], f32, #dist.state<tp = whole>>
!y = !ech.tensor<[batch=2, ff=8], bf16, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 []>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    %b = ech.constant 1.0 : !b
    // expected-error@+1 {{'dist.linear' op is of one element type, and the bias is of 'f32'}}
    %0 = dist.linear %x, %w bias %b over ["k"] : (!x, !w, !b) -> !y
  }
}

// -----
!x = !ech.tensor<[batch=2, k=4], bf16, #dist.state<tp = whole>>
!w = !ech.tensor<[k=4, ff=8], bf16, #dist.state<tp = whole>>
!b = !ech.tensor<[batch=2], bf16, #dist.state<tp = whole>>
!y = !ech.tensor<[batch=2, ff=8], bf16, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 []>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    %b = ech.constant 1.0 : !b
    // expected-error@+1 {{'dist.linear' op has a bias [batch = 2] that is not along the last axes of the result [batch = 2, ff = 8]}}
    %0 = dist.linear %x, %w bias %b over ["k"] : (!x, !w, !b) -> !y
  }
}

// -----
// A bias of all the result's axes would be an addition of two results.
!x = !ech.tensor<[batch=2, k=4], bf16, #dist.state<tp = whole>>
!w = !ech.tensor<[k=4, ff=8], bf16, #dist.state<tp = whole>>
!y = !ech.tensor<[batch=2, ff=8], bf16, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 []>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    %b = ech.constant 1.0 : !y
    // expected-error@+1 {{'dist.linear' op has a bias [batch = 2, ff = 8] that is not along the last axes of the result [batch = 2, ff = 8]}}
    %0 = dist.linear %x, %w bias %b over ["k"] : (!x, !w, !y) -> !y
  }
}

// -----
!whole = !ech.tensor<[seq=6], f32, #dist.state<cp = whole>>
!seq = !ech.tensor<[seq=6], f32, #dist.state<cp = split seq>>
module attributes {dist.mesh = #dist.mesh<cp = 2 [seq zigzag]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // expected-error@+1 {{'dist.convert' op seq = 6 does not divide into the 4 chunks of zigzag over cp = 2}}
    %0 = dist.convert %w why "" : !whole -> !seq
  }
}

// -----
// expected-error@+1 {{axis "seq" has a map over mesh axis cp, so that it cannot be padded}}
module attributes {dist.mesh = #dist.mesh<cp = 2 [seq padded zigzag]>} {}

// -----
// expected-error@+1 {{cyclic has one chunk or more, not 0}}
module attributes {test.map = #dist.map<cyclic 0>} {}

// -----
// expected-error@+1 {{axis "layer" has 3 chunks over mesh axis pp = 2, which holds 2}}
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (1, 2, 1)]>} {}

// -----
// expected-error@+1 {{a chunk has no fewer than 0 positions, not -1}}
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer cyclic 2 (1, 2, -1, 1)]>} {}

// -----
!whole = !ech.tensor<[layer=8], f32, #dist.state<pp = whole>>
!part = !ech.tensor<[layer=8], f32, #dist.state<pp = split layer>>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (3, 4)]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // expected-error@+1 {{'dist.convert' op layer = 8 is not the 7 positions of blocks (3, 4)}}
    %0 = dist.convert %w why "" : !whole -> !part
  }
}

// -----
!whole = !ech.tensor<[layer=7], f32, #dist.state<pp = whole, dp = whole>>
!cut = !ech.tensor<[layer=7], f32, #dist.state<pp = split layer, dp = cut layer>>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (3, 4)], dp = 2 []>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // expected-error@+1 {{'dist.convert' op layer is divided into chunks of unequal sizes, and by nothing else}}
    %0 = dist.convert %w why "" : !whole -> !cut
  }
}

// -----
!x = !ech.tensor<[seq=6], f32, #dist.state<pp = whole>>
module attributes {dist.mesh = #dist.mesh<pp = 4 [layer]>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    // expected-error@+1 {{'dist.receive' op goes from place 2 to a later one, not to 2}}
    %0 = dist.receive %x from "previous" in 2 to 2 over "pp" why "" : !x
  }
}

// -----
!x = !ech.tensor<[seq=6], f32, #dist.state<pp = whole>>
module attributes {dist.mesh = #dist.mesh<pp = 4 [layer]>} {
  ech.step @train {
    %x = ech.constant 1.0 : !x
    // expected-error@+1 {{'dist.send' op is with the previous or the next stage, not with last}}
    dist.send %x to "last" in 0 to 2 over "pp" why "" : !x
  }
}
