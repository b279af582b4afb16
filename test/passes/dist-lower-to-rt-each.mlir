// RUN: echelon-opt %s --dist-lower-to-rt | FileCheck %s
// RUN: sed 's/dp = 2/dp = 1/' %s | echelon-opt --dist-lower-to-rt | FileCheck %s --check-prefix=ONE

// What an iteration of a loop starts goes on after it: the value is computed where the stack keeps it and summed there,
// and its ticket is kept beside the others', all of which are waited for at once.
// CHECK:       %[[STACK:.*]] = rt.alloc work {ech.phase = "backward"} : <[layer=3, hidden=8], f32>
// CHECK:       %[[TICKETS:.*]] = rt.tickets 3 {ech.phase = "backward"}
// CHECK:       rt.for "layer" = 3 {
// CHECK-NEXT:  ^bb0(%[[I:.*]]: index):
// CHECK:         %[[HERE:.*]] = rt.view %[[STACK]] from 0 plus(%[[I]]) times [8]
// CHECK:         rt.fused ["hidden"] = [8]({{.*}}) -> ["store"](%[[HERE]])
// CHECK:         rt.collective "all_reduce" %[[HERE]], %[[HERE]] count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "w" keeps %[[TICKETS]][%[[I]]]
// A value that something else reads, too, is copied.
// CHECK:       %[[SECOND:.*]] = rt.alloc work {ech.phase = "backward"} : <[layer=3, hidden=8], f32>
// CHECK:       %[[OTHERS:.*]] = rt.tickets 3
// CHECK:       rt.for "layer" = 3 {
// CHECK:         %[[COPY:.*]] = rt.view %[[SECOND]] from 0 plus
// CHECK:         rt.fused ["hidden"] = [8]({{.*}}) -> ["store"](%[[OTHER:.*]]) {
// CHECK:         rt.fused ["hidden"] = [8](%[[OTHER]]) -> ["store"](%[[COPY]]) {
// CHECK:         rt.collective "all_reduce" %[[COPY]], %[[COPY]] count 8
// CHECK:       rt.wait %[[TICKETS]]
// CHECK:       rt.wait %[[OTHERS]]
// One rank sends nothing.
// ONE-NOT:     rt.tickets
// ONE-NOT:     rt.collective
// ONE-NOT:     rt.wait
!x = !ech.tensor<[hidden=8], f32, #dist.state<dp = sum>>
!g = !ech.tensor<[hidden=8], f32, #dist.state<dp = whole>>
!gs = !ech.tensor<[layer=3, hidden=8], f32, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
ech.variable state @x : !x = constant(0.0, 0.0)
ech.variable param @w : !gs = constant(0.0, 0.0)
ech.variable param @v : !gs = constant(0.0, 0.0)
ech.step @train {
  %x = ech.read @x : !x
  %y, %dw = ech.repeat "layer" = 3 carry(%x : !x) -> (!x) stack(!gs) {
  ^bb0(%c: !x):
    %n = ech.map exp %c : (!x) -> !x
    %started = dist.start_each "all_reduce" %n over ["dp"] why "w" with "ring" {ech.phase = "backward"} : (!x) -> !g
    %next = ech.map neg %c : (!x) -> !x
    ech.yield carry(%next : !x) stack(%started : !g)
  } {ech.phase = "backward"}
  %z, %dv = ech.repeat "layer" = 3 carry(%y : !x) -> (!x) stack(!gs) {
  ^bb0(%c: !x):
    %n = ech.map exp %c : (!x) -> !x
    %started = dist.start_each "all_reduce" %n over ["dp"] why "v" {ech.phase = "backward"} : (!x) -> !g
    ech.yield carry(%n : !x) stack(%started : !g)
  } {ech.phase = "backward"}
  ech.write @x, %z {ech.phase = "update"} : !x
  %w = dist.wait_each %dw {ech.phase = "update"} : !gs
  ech.write @w, %w {ech.phase = "update"} : !gs
  %v = dist.wait_each %dv {ech.phase = "update"} : !gs
  ech.write @v, %v {ech.phase = "update"} : !gs
}
}
