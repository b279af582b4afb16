// Stages of 1 and 2 iterations: all store two, and each does its own, knows their places among all, and finds the final
// value behind the last of them. What the iterations stack up and something else reads is 0 where a stage makes nothing.
// RUN: echelon-opt %s -split-input-file --dist-lower-to-rt | FileCheck %s

!x = !ech.tensor<[hidden=8], f32, #dist.state<pp = whole>>
!at = !ech.tensor<[], i32, #dist.state<pp = whole>>
!all = !ech.tensor<[layer=3, hidden=8], f32, #dist.state<pp = split layer>>
!real = !ech.tensor<[], f32, #dist.state<pp = whole>>
!numbers = !ech.tensor<[layer=3], f32, #dist.state<pp = split layer>>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (1, 2)]>} {
ech.variable param @w : !all = normal(0.0, 1.0)
ech.variable state @x : !x = constant(0.0, 0.0)
ech.variable state @made : !all = constant(0.0, 0.0)
ech.variable state @places : !numbers = constant(0.0, 0.0)
// CHECK:       rt.function @train
// CHECK-DAG:   %[[OWN:.*]] = rt.offset [0] times [] table [1, 2] over [2]
// CHECK-DAG:   %[[W:.*]] = rt.alloc {{ *}}state of @w : <[layer=2, hidden=8], f32>
// CHECK:       %[[LIST:.*]] = rt.alloc {{ *}}work : <[layer=3, hidden=8], f32>
// CHECK:       %[[FINAL:.*]] = rt.view %[[LIST]] from 0 plus(%[[OWN]]) times [8]
// CHECK:       %[[REST:.*]] = rt.view %[[MADE:[0-9]+]] from 8 : {{.*}} -> <[layer=1, hidden=8], f32>
// CHECK-NEXT:  rt.fill %[[REST]] with 0
// CHECK:       rt.for "layer" = 2 own %[[OWN]] {
// CHECK-NEXT:  ^bb0(%[[I:.*]]: index):
// CHECK:         %[[AT:.*]] = rt.offset [0] times [] table [0, 1] over [2] at %[[I]]
// CHECK-DAG:     rt.view %[[W]] from 0 plus(%[[I]]) times [8]
// CHECK-DAG:     rt.view %[[LIST]] from 8 plus(%[[I]]) times [8]
// CHECK-DAG:     rt.view %[[MADE]] from 0 plus(%[[I]]) times [8]
// CHECK:       }
// CHECK:       rt.fused ["hidden"] = [8](%[[FINAL]])
ech.step @train {
  %x = ech.read @x : !x
  %w = ech.read @w : !all
  %e = ech.map exp %x : (!x) -> !x
  %end, %came, %made, %places = ech.repeat "layer" = 3 carry(%e : !x) slice(%w : !all) -> (!x) stack(!all, !all, !numbers) {
  ^bb0(%c: !x, %one: !x):
    %n = ech.map mul %c, %one : (!x, !x) -> !x
    %s = ech.map sin %n : (!x) -> !x
    %i = ech.position "layer" : !at
    %p = ech.map cast %i : (!at) -> !real
    ech.yield carry(%n : !x) stack(%c, %s, %p : !x, !x, !real)
  }
  %f = ech.map exp %end : (!x) -> !x
  ech.write @x, %f : !x
  %both = ech.map mul %came, %made : (!all, !all) -> !all
  ech.write @made, %both : !all
  ech.write @places, %places : !numbers
}
}

// -----
// What becomes whole is put in order, stage by stage; what is kept of a whole value is, where a stage has less than the
// largest, padding behind it.
// CHECK:       rt.function @train
// CHECK-DAG:   %[[FIRST:.*]] = rt.offset [0] times [1] of <layer=1>
// CHECK-DAG:   %[[SECOND:.*]] = rt.offset [0] times [-1] plus 3 of <layer=1>
// CHECK:       rt.collective "all_gather" %{{.*}}, %[[PARTS:[0-9]+]] count 2
// CHECK:       %[[ALL:.*]] = rt.alloc {{ *}}work : <[layer=4], f32>
// CHECK:       rt.view %[[PARTS]] from 0 : {{.*}} -> <[layer=1], f32>
// CHECK:       rt.view %[[PARTS]] from 2 : {{.*}} -> <[layer=2], f32>
!part = !ech.tensor<[layer=3], f32, #dist.state<pp = split layer>>
!whole = !ech.tensor<[layer=3], f32, #dist.state<pp = whole>>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (1, 2)]>} {
ech.variable state @x : !part = constant(0.0, 0.0)
ech.variable state @y : !whole = constant(0.0, 0.0)
ech.variable state @z : !part = constant(0.0, 0.0)
ech.step @train {
  %x = ech.read @x : !part
  %all = dist.all_gather %x over ["pp"] why "a whole" : (!part) -> !whole
  ech.write @y, %all : !whole
  %w = ech.read @y : !whole
  %own = dist.slice %w over ["pp"] why "a part" : !whole -> !part
  ech.write @z, %own : !part
}
}
