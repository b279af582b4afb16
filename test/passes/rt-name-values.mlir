// RUN: echelon-opt %s --rt-name-values | FileCheck %s

!b = !rt.buffer<[embed=8], f32>
!stack = !rt.buffer<[layer=3, embed=8], f32>
// CHECK-LABEL: rt.function @train
rt.function @train {
  // The user's names, made unique where a function uses both.
  // CHECK: rt.alloc work at 0 {rt.name = "x"}
  %x = rt.alloc work at 0 : !b loc("x")
  // CHECK: rt.alloc work at 64 {rt.name = "x_2"}
  %x2 = rt.alloc work at 64 : !b loc("x")
  // What takes the place of another of its name and shape is the same variable.
  // CHECK: rt.alloc work at 0 {rt.name = "x"}
  %x3 = rt.alloc work at 0 : !b loc("x")
  // A word of C++ is no name; names of one function are free in another one.
  // CHECK: rt.alloc work at 128 {rt.name = "static_"}
  %s = rt.alloc work at 128 : !b loc("static")
  // CHECK: rt.alloc work at 192 {rt.name = "x"}
  %other = rt.alloc work at 192 : !b loc("x")
  // A member has its name in its struct.
  // CHECK: rt.alloc work at 256 {rt.member = ["Activations", "h"]}
  %h = rt.alloc work at 256 {rt.member = ["Activations", "h"]} : !stack
  rt.fill %x with 0.0 {rt.function = "forward"} : !b
  rt.fill %x2 with 0.0 {rt.function = "forward"} : !b
  rt.fill %x3 with 0.0 {rt.function = "forward"} : !b
  rt.fill %s with 0.0 {rt.function = "forward"} : !b
  rt.fill %other with 0.0 {rt.function = "backward"} : !b
  // A position is called by as few letters as can be.
  // CHECK: rt.for "layer" = 3 {
  rt.for "layer" = 3 {
  ^bb0(%l: index):
    // CHECK: rt.view %{{.*}} {rt.name = "h_l"}
    %hl = rt.view %h from 4 plus(%l) times [8] : !stack -> !b
    rt.fill %hl with 0.0 : !b
  // CHECK: } {rt.function = "forward", rt.name = "l"}
  } {rt.function = "forward"}
  // A ticket that another function waits for is a member of the messages.
  // CHECK: rt.collective {{.*}}rt.name = "all_reduce_of_x"
  %own = rt.collective "all_reduce" %x, %x count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t" {rt.function = "forward"} : !b, !b -> !rt.ticket
  rt.wait %own {rt.function = "forward"}
  // CHECK: rt.collective {{.*}}rt.member = ["Messages", "all_reduce_of_x_2"]
  %shared = rt.collective "all_reduce" %x2, %x2 count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t" {rt.function = "forward"} : !b, !b -> !rt.ticket
  rt.wait %shared {rt.function = "update"}
}
