// RUN: echelon-opt --ech-carry-through %s | FileCheck %s

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
