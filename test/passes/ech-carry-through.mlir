// RUN: echelon-opt --ech-carry-through --split-input-file %s | FileCheck %s

!x = !ech.tensor<[batch=2, embed=3], f32>
!w = !ech.tensor<[embed=3], f32>
!ws = !ech.tensor<[layer=4, embed=3], f32>
!one = !ech.tensor<[], f32>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer]>} {
ech.variable param @layer.w : !ws = constant(0.0, 0.0)
ech.variable param @v : !w = constant(0.0, 0.0)
ech.variable state @x : !x = constant(0.0, 0.0)
ech.step @train {
  %ws = ech.read @layer.w : !ws
  %v = ech.read @v : !w
  %in = ech.read @x : !x
  // The derivative of what all iterations read, and a product takes in the same pass, is carried: it begins with what
  // is there before the loop. The gradient of v is only added up; it stays a sum.
  // CHECK: ech.repeat "micro" = 2 time
  // CHECK: %[[LATE:.*]] = ech.map mul %[[DY:.*]], %[[DY]]
  // CHECK: %[[OUT:.*]]:2, %[[DV:.*]] = ech.repeat "layer" = 4 reverse carry(%[[DY]], %[[LATE]]
  // CHECK: ^bb0(%[[D:.*]]: {{.*}}, %[[SOFAR:.*]]: {{.*}}, %[[W:.*]]: !ech
  // CHECK: %[[SHARE:.*]] = ech.map mul %[[D]], %[[W]]
  // CHECK: %[[NEXT:.*]] = ech.map add %[[SOFAR]], %[[SHARE]]
  // CHECK: ech.yield carry(%{{.*}}, %[[NEXT]] {{.*}}) sum(%[[OFV:.*]] :
  // CHECK-NOT: ech.map add %[[LATE]]
  // CHECK: ech.map mul %[[OUT]]#1, %[[OUT]]#1
  // CHECK: ech.map add %{{.*}}, %[[DV]]
  %gv, %gm = ech.repeat "micro" = 2 time -> () sum (!w, !x) {
    %dy = ech.map tanh %in : (!x) -> !x
    %late = ech.map mul %dy, %dy : (!x, !x) -> !x
    %dx, %dm, %dv = ech.repeat "layer" = 4 reverse carry(%dy : !x) slice(%ws : !ws) -> (!x) sum (!x, !w) {
    ^bb0(%d: !x, %w: !w):
      %share = ech.map mul %d, %w : (!x, !w) -> !x
      %next = ech.map mul %share, %v : (!x, !w) -> !x
      %ofv = ech.reduce sum %share over ["batch"] : (!x) -> !w
      ech.yield carry(%next : !x) sum(%share, %ofv : !x, !w)
    }
    %all = ech.map add %late, %dm : (!x, !x) -> !x
    %square = ech.map mul %all, %all : (!x, !x) -> !x
    %head = ech.reduce sum %dx over ["batch"] : (!x) -> !w
    %tied = ech.map add %head, %dv : (!w, !w) -> !w
    ech.yield sum(%tied, %square : !w, !x)
  }
  ech.write @v, %gv : !w
}
}

// -----

// Outside of a pass stages hand on nothing. What follows from what is carried, each rank computes, over an axis that
// nothing divides; what does not, each stage still does for its own iterations, here a square.
// CHECK: %[[WS:.*]] = ech.read @layer.w
// CHECK: %[[SQUARES:.*]] = ech.repeat "layer" = 4 slice(%[[WS]]
// CHECK: ech.map mul
// CHECK: ech.yield stack(
// CHECK: %[[ALL:.*]] = ech.relabel %[[SQUARES]] {{.*}}"layer"{{.*}}"layer_2"
// CHECK: %[[FINAL:.*]], %[[STACK:.*]] = ech.repeat "layer_2" = 4 carry(%{{.*}}) slice(%[[ALL]]
// CHECK: ech.position "layer_2"
// CHECK: %[[KEPT:.*]] = ech.relabel %[[STACK]] {{.*}}"layer_2"{{.*}}"layer"
// CHECK: ech.write @s, %[[FINAL]]
// CHECK: ech.write @kept, %[[KEPT]]
!w = !ech.tensor<[embed=3], f32>
!ws = !ech.tensor<[layer=4, embed=3], f32>
!one = !ech.tensor<[], i32>
!real = !ech.tensor<[], f32>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer]>} {
ech.variable param @layer.w : !ws = constant(0.0, 0.0)
ech.variable state @s : !w = constant(0.0, 0.0)
ech.variable state @kept : !ws = constant(0.0, 0.0)
ech.step @train {
  %ws = ech.read @layer.w : !ws
  %s = ech.read @s : !w
  %last, %kept = ech.repeat "layer" = 4 carry(%s : !w) slice(%ws : !ws) -> (!w) stack (!ws) {
  ^bb0(%sofar: !w, %w: !w):
    %square = ech.map mul %w, %w : (!w, !w) -> !w
    %twice = ech.repeat "part" = 2 carry(%sofar : !w) -> (!w) {
    ^bb1(%one: !w):
      %at = ech.position "layer" : !one
      %more = ech.map add %one, %square : (!w, !w) -> !w
      %times = ech.map cast %at : (!one) -> !real
      %next = ech.map mul %more, %times : (!w, !real) -> !w
      ech.yield carry(%next : !w)
    }
    ech.yield carry(%twice : !w) stack(%twice : !w)
  }
  ech.write @s, %last : !w
  ech.write @kept, %kept : !ws
}
}
