// RUN: echelon-opt --ech-keep-products --split-input-file --verify-diagnostics %s

module {
// expected-error @+1 {{E0409: no product reads a parameter of keep (gain), so it changes nothing; leave it out}}
run.precision bf16 keep ["gain", "w"]
ech.variable param @gain : !ech.tensor<[embed=4], f32> = constant(0.0, 0.0)
ech.variable param @w : !ech.tensor<[embed=4, ff=6], f32> = constant(0.0, 0.0)
ech.step @train {
  %gain = ech.read @gain : <[embed=4], f32>
  %w = ech.read @w : <[embed=4, ff=6], f32>
  %twice = ech.map add %gain, %gain : (!ech.tensor<[embed=4], f32>, !ech.tensor<[embed=4], f32>) -> !ech.tensor<[embed=4], f32>
  %y = ech.dot %twice, %w over ["embed"] : (!ech.tensor<[embed=4], f32>, !ech.tensor<[embed=4, ff=6], f32>) -> !ech.tensor<[ff=6], f32>
}
}
