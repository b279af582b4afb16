// How many iterations each stage has, where the layout leaves that to the compiler: all take equally long, and what
// stands behind the loop is done by the last stage.
// RUN: echelon-opt %s -split-input-file --dist-balance-stages | FileCheck %s

// An iteration has 72 operations, what goes into the first one 8, what is behind the last one 160.
// CHECK: dist.balance = {pp = array<i64: 72, 8, 160>}, dist.mesh = #dist.mesh<pp = 4 [layer blocks (8, 8, 8, 6)]>
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
