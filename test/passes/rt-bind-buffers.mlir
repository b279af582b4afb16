// RUN: echelon-opt %s --rt-bind-buffers | FileCheck %s

!stack = !rt.buffer<[layer=4, embed=8], f32>
!b = !rt.buffer<[embed=8], f32>
!one = !rt.buffer<[], f32>
ech.variable param @layer.attn.wq : !ech.tensor<[layer=4, embed=8], f32> = constant(0.0, 0.0)
ech.input @x 0 : !ech.tensor<[embed=8], f32> below 0

// CHECK-LABEL: rt.function @train
rt.function @train {
  // A parameter that a loop walks is a stack: a view at the loop's position is a place of it.
  // CHECK: rt.alloc state of @layer.attn.wq at 0 {rt.member = ["Params", "attn_wq"], rt.stack = 8 : i64}
  %w = rt.alloc state of @layer.attn.wq at 0 : !stack
  // CHECK: rt.alloc input of @x at 0 {rt.member = ["Inputs", "x"]}
  %x = rt.alloc input of @x at 0 : !b
  // What one function leaves to another is a member; all other work is local.
  // CHECK: rt.alloc work at 0 {rt.member = ["Activations", "h"], rt.stack = 8 : i64}
  %h = rt.alloc work at 0 : !stack loc("h")
  // CHECK: rt.alloc work at 128 : <[embed=8], f32>
  %local = rt.alloc work at 128 : !b
  // A single number that one loop nest computes is a variable; one that a kernel takes has a place in memory.
  // CHECK: rt.alloc work at 192 {rt.variable}
  %number = rt.alloc work at 192 : !one
  // CHECK: rt.alloc work at 256 : <[], f32>
  %taken = rt.alloc work at 256 : !one
  rt.for "layer" = 4 {
  ^bb0(%l: index):
    // CHECK: rt.view {{.*}} {rt.member = ["Params", "attn_wq"], rt.position = 0 : i64, rt.stack = 8 : i64}
    %wl = rt.view %w from 0 plus(%l) times [8] : !stack -> !b
    // CHECK: rt.view {{.*}} {rt.member = ["Activations", "h"], rt.position = 1 : i64, rt.stack = 8 : i64}
    %hl = rt.view %h from 8 plus(%l) times [8] : !stack -> !b
    rt.copy_strided %hl, %wl : !b, !b
  } {rt.function = "forward"}
  rt.reduce sum %taken, %local of <> <embed=8> <> {rt.function = "backward"} : !one, !b
  // The last place.
  // CHECK: rt.view %{{.*}} from 24 {rt.member = ["Activations", "h"], rt.position = 3 : i64, rt.stack = 8 : i64}
  %last = rt.view %h from 24 : !stack -> !b
  rt.fused ["embed"] = [8](%last, %taken) -> ["sum"](%number) {
  ^bb0(%a: f32, %b: f32):
    %s = rt.compute "mul" %a, %b : (f32, f32) -> f32
    rt.yield %s : f32
  } {rt.function = "backward"} : (!b, !one) -> (!one)
  rt.report 0 "loss" "loss", %number {rt.function = "backward"} : !one
}
