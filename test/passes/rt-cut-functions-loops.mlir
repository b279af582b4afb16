// RUN: echelon-opt %s --rt-cut-functions | FileCheck %s

// A loop with several phases inside stays in the step, and is cut inside; one that only starts messages is no function
// of its own.
!b = !rt.buffer<[embed=8], f32>
// CHECK-LABEL: rt.function @train
// CHECK:       rt.for "micro" = 2 time {
// CHECK:         rt.fill {{.*}}rt.function = "forward"
// CHECK:         rt.fill {{.*}}rt.function = "backward"
// CHECK:       }
// CHECK-NOT:   rt.function
// CHECK:       rt.fill {{.*}}rt.function = "backward_2"
// CHECK:       rt.for "layer" = 3 {
// CHECK:       } {{{.*}}rt.function = "backward_2"}
// CHECK:       rt.wait {{.*}}rt.function = "backward_2"
rt.function @train {
  %x = rt.alloc work at 0 : !b
  rt.for "micro" = 2 time {
  ^bb0(%i: index):
    rt.fill %x with 0.0 : !b
    rt.fill %x with 1.0 {ech.phase = "backward"} : !b
  }
  rt.fill %x with 2.0 {ech.phase = "backward"} : !b
  %each = rt.tickets 3 {ech.phase = "update"}
  rt.for "layer" = 3 {
  ^bb0(%i: index):
    rt.collective "all_reduce" %x, %x count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t" keeps %each[%i] {ech.phase = "update"} : !b, !b
  } {ech.phase = "update"}
  rt.wait %each {ech.phase = "backward"}
}
