// RUN: echelon-opt %s --rt-cut-functions | FileCheck %s

!b = !rt.buffer<[embed=8], f32>

// Runs of one phase are functions. What the backward pass only starts belongs to it.
// CHECK-LABEL: rt.function @train
// CHECK:       rt.fill {{.*}}rt.function = "forward"
// CHECK:       rt.collective {{.*}}rt.function = "backward"
// CHECK:       rt.fill {{.*}}rt.function = "backward"
// CHECK:       rt.wait {{.*}}rt.function = "update"
rt.function @train {
  %x = rt.alloc work at 0 : !b
  %y = rt.alloc work at 64 : !b
  rt.fill %x with 0.0 : !b
  rt.fill %x with 1.0 {ech.phase = "backward"} : !b
  %t = rt.collective "all_reduce" %x, %x count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t" {ech.phase = "update"} : !b, !b -> !rt.ticket
  rt.fill %y with 2.0 {ech.phase = "backward"} : !b
  rt.wait %t {ech.phase = "update"}
}

// An evaluation is cut at its loop over batches.
// CHECK-LABEL: rt.function @evaluate
// CHECK:       rt.fill {{.*}}rt.function = "evaluate_begin"
// CHECK:       rt.for "batch" = 0 time {
// CHECK:         rt.fill {{.*}}rt.function = "evaluate_batch"
// CHECK:       }
// CHECK-NOT:   rt.function
// CHECK:       rt.fill {{.*}}rt.function = "evaluate_end"
rt.function @evaluate {
  %x = rt.alloc work at 0 : !b
  rt.fill %x with 0.0 : !b
  rt.for "batch" = 0 time {
  ^bb0(%i: index):
    rt.fill %x with 1.0 : !b
  }
  rt.fill %x with 2.0 : !b
}
