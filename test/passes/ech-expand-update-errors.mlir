// RUN: echelon-opt --ech-expand-update --split-input-file --verify-diagnostics %s

// Every parameter has a line.
module {
run.optimize "sgd" on ["head.*"] with {} rate <kind = constant, peak = 0.1>
ech.variable param @head.w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// expected-error @+1 {{no optimize line takes parameter body.w; add its pattern to one, or a line without `on`}}
ech.variable param @body.w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.step @train {
  %w = ech.read @head.w : <[in=3], f32>
  ech.gradient @head.w, %w : <[in=3], f32>
  ech.gradient @body.w, %w : <[in=3], f32>
}
}

// -----

// Every pattern has a parameter.
module {
run.optimize "sgd" on ["*", "*.gamma"] with {} rate <kind = constant, peak = 0.1>
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// expected-error @+1 {{no parameter matches "*.gamma" of an optimize line}}
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  ech.gradient @w, %w : <[in=3], f32>
}
}

// -----

module {
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// expected-error @+1 {{has gradients, and the module names no optimizer}}
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  ech.gradient @w, %w : <[in=3], f32>
}
}

// -----

// An optimizer that is not built is not taken for another one.
module {
run.optimize "shampoo" on ["*"] with {} rate <kind = constant, peak = 0.1>
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
// expected-error @+1 {{is to be optimized by 'shampoo', which is not built}}
ech.step @train {
  %w = ech.read @w : <[in=3], f32>
  ech.gradient @w, %w : <[in=3], f32>
}
}
