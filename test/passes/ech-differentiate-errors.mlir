// RUN: echelon-opt --ech-differentiate --split-input-file --verify-diagnostics %s

// What is to be trained has a loss.
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// expected-error @+1 {{'ech.step' op has no loss to differentiate}}
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  %l = ech.reduce sum %w over ["in"] : (!ech.tensor<[in=3], f32>) -> !ech.tensor<[], f32>
  ech.report metric "sum", %l : <[], f32>
}

// -----

// A derivative is not derived again.
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.input @i 0 : !ech.tensor<[out=2], i32> below 3
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  %i = ech.read @i : <[out=2], i32>
  %v = ech.gather %w at ["in"] = %i : (!ech.tensor<[in=3], f32>, !ech.tensor<[out=2], i32>) -> !ech.tensor<[out=2], f32>
  // expected-error @+1 {{'ech.scatter_add' op has no derivative}}
  %s = ech.scatter_add %v at ["in"] = %i : (!ech.tensor<[out=2], f32>, !ech.tensor<[out=2], i32>) -> !ech.tensor<[in=3], f32>
  %l = ech.reduce sum %s over ["in"] : (!ech.tensor<[in=3], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
