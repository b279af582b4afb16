// How many iterations each stage has, where the layout leaves that to the compiler: all take equally long, and what
// stands behind the loop is done by the last stage.
// RUN: echelon-opt %s -split-input-file --dist-balance-stages | FileCheck %s

// An iteration has 72 operations, what goes into the first one 8, what is behind the last one 160.
// CHECK: dist.balanced_by = {pp = array<i64: 8, 72, 160>}, dist.mesh = #dist.mesh<pp = 4 [layer blocks (8, 8, 8, 6)]>
!x = !ech.tensor<[batch=2, a=4], f32>
!w = !ech.tensor<[layer=30, a=4, b=4], f32>
!one = !ech.tensor<[a=4, b=4], f32>
!b = !ech.tensor<[batch=2, b=4], f32>
!head = !ech.tensor<[a=4, c=10], f32>
!y = !ech.tensor<[batch=2, c=10], f32>
module attributes {dist.mesh = #dist.mesh<pp = 4 [layer]>, dist.balance = {pp = loc("a.ech":1:1)}} {
  ech.variable state @y : !y = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    %h = ech.constant 1.0 : !head
    %final = ech.repeat "layer" = 30 carry(%x : !x) slice(%w : !w) -> (!x) {
    ^bb0(%c: !x, %one: !one):
      %d = ech.dot %c, %one over ["a"] : (!x, !one) -> !b
      %e = ech.relabel %d [["b"]] -> [["a"]] : (!b) -> !x
      ech.yield carry(%e : !x)
    }
    %y = ech.dot %final, %h over ["a"] : (!x, !head) -> !y
    ech.write @y, %y : !y
  }
}

// -----
// Both chunks of a stage count; as many as an iteration are behind the last one.
// CHECK: dist.mesh = #dist.mesh<pp = 2 [layer cyclic 2 (3, 2, 2, 2)]>
!x = !ech.tensor<[batch=2, a=4], f32>
!w = !ech.tensor<[layer=9, a=4, b=4], f32>
!one = !ech.tensor<[a=4, b=4], f32>
!b = !ech.tensor<[batch=2, b=4], f32>
!head = !ech.tensor<[a=4, c=4], f32>
!y = !ech.tensor<[batch=2, c=4], f32>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer cyclic 2]>, dist.balance = {pp = loc("a.ech":1:1)}} {
  ech.variable state @y : !y = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    %h = ech.constant 1.0 : !head
    %final = ech.repeat "layer" = 9 carry(%x : !x) slice(%w : !w) -> (!x) {
    ^bb0(%c: !x, %one: !one):
      %d = ech.dot %c, %one over ["a"] : (!x, !one) -> !b
      %e = ech.relabel %d [["b"]] -> [["a"]] : (!b) -> !x
      ech.yield carry(%e : !x)
    }
    %y = ech.dot %final, %h over ["a"] : (!x, !head) -> !y
    ech.write @y, %y : !y
  }
}

// -----
// 16 operations more than others have do not make an iteration less worth it: equal blocks.
// CHECK: dist.mesh = #dist.mesh<pp = 3 [layer]>
!x = !ech.tensor<[batch=2, a=4], f32>
!w = !ech.tensor<[layer=6, a=4, b=4], f32>
!one = !ech.tensor<[a=4, b=4], f32>
!b = !ech.tensor<[batch=2, b=4], f32>
!head = !ech.tensor<[a=4, c=1], f32>
!y = !ech.tensor<[batch=2, c=1], f32>
module attributes {dist.mesh = #dist.mesh<pp = 3 [layer]>, dist.balance = {pp = loc("a.ech":1:1)}} {
  ech.variable state @y : !y = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %w = ech.constant 1.0 : !w
    %h = ech.constant 1.0 : !head
    %final = ech.repeat "layer" = 6 carry(%x : !x) slice(%w : !w) -> (!x) {
    ^bb0(%c: !x, %one: !one):
      %d = ech.dot %c, %one over ["a"] : (!x, !one) -> !b
      %e = ech.relabel %d [["b"]] -> [["a"]] : (!b) -> !x
      ech.yield carry(%e : !x)
    }
    %y = ech.dot %final, %h over ["a"] : (!x, !head) -> !y
    ech.write @y, %y : !y
  }
}

// -----
// Repeats in a row: iterations of the second one cost four times as many, so that the first stage has all of the first
// repeat and the beginning of the second.
// CHECK: dist.mesh = #dist.mesh<pp = 3 [encoder blocks (6, 0, 0), decoder blocks (1, 2, 2)]>
!x = !ech.tensor<[batch=2, a=4], f32>
!z = !ech.tensor<[batch=8, a=4], f32>
!we = !ech.tensor<[encoder=6, a=4, b=4], f32>
!wd = !ech.tensor<[decoder=5, a=4, b=4], f32>
!one = !ech.tensor<[a=4, b=4], f32>
!b = !ech.tensor<[batch=2, b=4], f32>
!c = !ech.tensor<[batch=8, b=4], f32>
module attributes {dist.mesh = #dist.mesh<pp = 3 [encoder, decoder]>, dist.balance = {pp = loc("a.ech":1:1)}} {
  ech.variable state @y : !z = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.constant 1.0 : !x
    %z = ech.constant 1.0 : !z
    %we = ech.constant 1.0 : !we
    %wd = ech.constant 1.0 : !wd
    %m = ech.repeat "encoder" = 6 carry(%x : !x) slice(%we : !we) -> (!x) {
    ^bb0(%c: !x, %one: !one):
      %d = ech.dot %c, %one over ["a"] : (!x, !one) -> !b
      %e = ech.relabel %d [["b"]] -> [["a"]] : (!b) -> !x
      ech.yield carry(%e : !x)
    }
    %y = ech.repeat "decoder" = 5 carry(%z : !z) slice(%wd : !wd) -> (!z) {
    ^bb0(%c: !z, %one: !one):
      %d = ech.dot %c, %one over ["a"] : (!z, !one) -> !c
      %e = ech.relabel %d [["b"]] -> [["a"]] : (!c) -> !z
      ech.yield carry(%e : !z)
    }
    ech.write @y, %y : !z
  }
}
