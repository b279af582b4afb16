// RUN: echelon-opt %s --rt-bind-buffers | FileCheck %s
// A member has the name of no size: the length of a stack in its struct is a product of these.

!f = !rt.buffer<[f=4], f32>
module attributes {rt.sizes = [{axis = "f", name = "f", size = 4}, {axis = "k", name = "k", size = 8}]} {
  ech.variable param @f : !ech.tensor<[f=4], f32> = constant(0.0, 0.0)
  ech.variable param @attn.k : !ech.tensor<[f=4], f32> = constant(0.0, 0.0)
  rt.function @train {
    // CHECK: rt.alloc state of @f at 0 {rt.member = ["Params", "f_2"]}
    %f = rt.alloc state of @f at 0 : !f
    // CHECK: rt.alloc state of @attn.k at 64 {rt.member = ["Params", "attn_k"]}
    %k = rt.alloc state of @attn.k at 64 : !f
    // CHECK: rt.alloc work at 0 {rt.member = ["Activations", "k_2"]}
    %v = rt.alloc work at 0 : !f loc("k")
    rt.copy_strided %v, %f {rt.function = "forward"} : !f, !f
    rt.copy_strided %f, %v {rt.function = "backward"} : !f, !f
  }
}
