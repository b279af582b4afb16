// What cannot be laid out is told at the clause, with what would be right.
// RUN: not echelon-opt %s -split-input-file -dist-assign-layout 2>&1 | FileCheck %s

// The remedies are the nearest sizes of the mesh axis that divide, and padding.
// CHECK: mlp.ech:33:12: error: cannot split hidden = 6 over tp = 4; pad hidden to 8 (with padding), or use tp = 3 or 6
// CHECK: mlp.ech:15:3: note: sum is divided along hidden
!x = !ech.tensor<[hidden=6], f32>
module attributes {dist.mesh = #dist.mesh<tp = 4 [hidden]>, dist.lines = {tp.hidden = loc("mlp.ech":33:12)}} {
  ech.input @x 0 : !x below 0
  ech.variable param @w : !x = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.read @x : !x loc("mlp.ech":14:3)
    %w = ech.read @x : !x loc("mlp.ech":14:3)
    %y = ech.map mul %w, %x : (!x, !x) -> !x loc("mlp.ech":15:3)
    %s = ech.reduce sum %y over ["hidden"] : (!x) -> !ech.tensor<[], f32> loc("mlp.ech":15:3)
    %r = ech.read @w : !x loc("mlp.ech":15:3)
    %z = ech.map mul %r, %s : (!x, !ech.tensor<[], f32>) -> !x
    ech.write @w, %z : !x
  }
}

// -----

// Splits of one axis multiply.
// CHECK: error: cannot split seq = 4 over a = 2 x b = 4; pad seq to 8 (with padding), or use b = 2
!x = !ech.tensor<[seq=4], f32>
module attributes {dist.mesh = #dist.mesh<a = 2 [seq], b = 4 [seq]>} {
  ech.variable param @w : !x = constant(0.0, 0.0)
  ech.step @train {
    %w = ech.read @w : !x
    ech.write @w, %w : !x
  }
}

// -----

// A recurrence runs over its whole axis.
// CHECK: rnn.ech:20:5: error: cannot split seq over tp: repeat along seq runs over the whole axis
!x = !ech.tensor<[seq=4, embed=2], f32>
!h = !ech.tensor<[embed=2], f32>
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq]>, dist.lines = {tp.seq = loc("rnn.ech":20:5)}} {
  ech.input @x 0 : !x below 0
  ech.variable state @h : !h = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.read @x : !x
    %h = ech.read @h : !h
    %y = ech.repeat "seq" = 4 along carry(%h : !h) slice(%x : !x) -> (!h) {
    ^bb0(%hi: !h, %xi: !h):
      %n = ech.map add %hi, %xi : (!h, !h) -> !h
      ech.yield carry(%n : !h)
    }
    ech.write @h, %y : !h
  }
}

// -----

// Stages of a pipeline hand on what is made of samples.
// CHECK: error: E0318: cannot split layer over pp: what its repeat carries is made of no sample, or of totals over all of them; stages hand on what is made of samples as they come
!h = !ech.tensor<[embed=2], f32>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer]>} {
  ech.variable state @h : !h = constant(0.0, 0.0)
  ech.step @train {
    %h = ech.read @h : !h
    %y = ech.repeat "layer" = 4 carry(%h : !h) -> (!h) {
    ^bb0(%hi: !h):
      %n = ech.map neg %hi : (!h) -> !h
      ech.yield carry(%n : !h)
    }
    ech.write @h, %y : !h
  }
}

// -----

// Norms along a padded axis would need counts of their own.
// CHECK: error: normalize (norm.ech:7) along embed, padded over tp, is not built yet
!x = !ech.tensor<[batch=2, embed=5], f32>
!r = !ech.tensor<[batch=2], f32>
module attributes {dist.mesh = #dist.mesh<tp = 2 [embed padded]>} {
  ech.variable state @x : !x = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.read @x : !x
    %y, %a, %b, %c, %d = ech.normalize %x over ["embed"] : (!x) -> (!x, !r, !r, !r, !r) loc("norm.ech":7:1)
    ech.write @x, %y : !x
  }
}

// -----

// CHECK: error: store optimizer over dp: the mesh has no such axis
module attributes {dist.mesh = #dist.mesh<tp = 2 [embed]>, dist.store = {optimizer = ["dp"]}} {
}

// -----

// CHECK: error: store params over tp cuts nothing: each parameter is split over tp already, or has one element; leave it out
// CHECK-NOT: store optimizer over dp
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 2 [embed]>, dist.store = {optimizer = ["dp"], params = ["tp"]}} {
  ech.variable param @w : !ech.tensor<[embed=4], f32> = constant(0.0, 0.0)
  ech.variable param @one : !ech.tensor<[], f32> = constant(0.0, 0.0)
}

// -----

// Two chunks a rank have to be of equal size.
// CHECK: mlp.ech:33:12: error: cannot split seq = 6 over cp = 2 with zigzag, which makes 4 chunks of it; seq = 8 would do, or leave `with zigzag` out
// CHECK: mlp.ech:15:3: note: read is divided along seq
!x = !ech.tensor<[seq=6], f32>
module attributes {dist.mesh = #dist.mesh<cp = 2 [seq zigzag]>, dist.lines = {cp.seq = loc("mlp.ech":33:12)}} {
  ech.variable param @w : !x = constant(0.0, 0.0)
  ech.step @train {
    %w = ech.read @w : !x loc("mlp.ech":15:3)
    %y = ech.map mul %w, %w : (!x, !x) -> !x loc("mlp.ech":15:3)
    ech.write @w, %y : !x
  }
}

// -----

// Ranks send blocks of keys that are of equal size.
// CHECK: gpt.ech:40:9: error: E0409: ranks send blocks of keys that are of equal size, and past = 5 is padded over cp = 2; leave `with ring` out, or make it a multiple of 2
!q = !ech.tensor<[seq=4, key=2], f32>
!k = !ech.tensor<[past=5, key=2], f32>
!l = !ech.tensor<[seq=4], f32>
module attributes {dist.mesh = #dist.mesh<cp = 2 [seq, past padded]>, dist.ring = ["cp"], dist.lines = {cp.ring = loc("gpt.ech":40:9)}} {
  ech.variable param @q : !q = constant(0.0, 0.0)
  ech.variable param @k : !k = constant(0.0, 0.0)
  ech.step @train {
    %q = ech.read @q : !q
    %k = ech.read @k : !k
    %y, %m, %l = ech.attention %q, %k, %k {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!q, !k, !k) -> (!q, !l, !l)
    ech.write @q, %y : !q
  }
}
