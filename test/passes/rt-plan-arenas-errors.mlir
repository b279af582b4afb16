// RUN: echelon-opt %s --rt-plan-arenas --verify-diagnostics

// expected-error @+1 {{E0410: the optimizer keeps nothing that could be offloaded: plain sgd has no moments; leave the line out}}
module attributes {dist.offload = "scratch"} {
  ech.variable param @w : !ech.tensor<[n=10], f32> = constant(0.0, 0.0)
}
