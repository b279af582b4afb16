// What operations sent inside of them: by the algorithm that a clause says, and in memory whose axes are no axis of the
// model.
// RUN: echelon-opt %s --dist-split-inside --dist-fuse --dist-lower-to-rt | FileCheck %s

!x = !ech.tensor<[rank=3, vocab=10], f32, #dist.state<tp = split vocab>>
!i = !ech.tensor<[rank=3], i32, #dist.state<tp = whole>>
!s = !ech.tensor<[rank=3], f32, #dist.state<tp = whole>>
module attributes {dist.mesh = #dist.mesh<tp = 2 [vocab]>,
                   dist.algorithms = [{op = "all_reduce", over = ["tp"], algorithm = "tree"}]} {
ech.variable state @s : !s = constant(0.0, 0.0)
ech.input @x 0 : !ech.tensor<[rank=3, vocab=10], f32> below 0
// CHECK-LABEL: rt.function @train
// CHECK:       rt.collective "all_reduce" {{.*}} "Max" over [0] ranks 2 "tp" with "tree"
// CHECK:       %[[ALL:.*]] = rt.alloc work : <[rank_=2, part=2, rank=3], f32>
// CHECK-NEXT:  rt.collective "all_gather" %{{.*}}, %[[ALL]] {{.*}} with "automatic"
// CHECK:       rt.combine largest(%[[ALL]]) -> (%{{.*}}) of [#rt.size<rank_=2>, #rt.size<rank=3>]
ech.step @train {
  %x = ech.read @x : !x
  %max = ech.reduce max %x over ["vocab"] {dist.inside = ["tp"], ech.why = "split vocab over tp"} : (!x) -> !s
  %i = ech.argmax %x over ["vocab"] {dist.inside = ["tp"], ech.why = "split vocab over tp"} : (!x) -> !i
  %f = ech.map cast %i : (!i) -> !s
  %y = ech.map add %max, %f : (!s, !s) -> !s
  ech.write @s, %y : !s
}
}
