//! A multi-layer perceptron: ReLU between layers, softmax and cross-entropy at the end.
//!
//! Parameters and gradients are each one flat vector, layer after layer, weights (inputs x outputs, row by row)
//! before biases: a gradient is all-reduced in one call.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::digits::Digits;
use super::matmul::{Left, multiply_add, transpose};

/// The shape of a network; its parameters live outside, in a flat vector.
#[derive(Debug, Clone)]
pub struct Mlp {
    layers: Vec<Layer>,
}

/// One layer's sizes and its place in the flat vectors.
#[derive(Debug, Clone)]
struct Layer {
    inputs: usize,
    outputs: usize,
    weights: Range<usize>,
    biases: Range<usize>,
}

/// Buffers of a forward and backward pass, kept from step to step.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Outputs of each layer, image after image; the last are the logits.
    activations: Vec<Vec<f32>>,
    /// Gradient by the outputs of the layer in work, and of the one before.
    delta: Vec<f32>,
    delta_before: Vec<f32>,
    transposed: Vec<f32>,
}

impl Mlp {
    /// A network of these widths, from the inputs to the classes. Panics with fewer than two widths, or with a
    /// width of zero.
    pub fn new(widths: &[usize]) -> Self {
        assert!(
            widths.len() >= 2 && !widths.contains(&0),
            "no network has widths {widths:?}"
        );
        let mut start = 0;
        let layer = |pair: &[usize]| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let weights = start..start + inputs * outputs;
            let biases = weights.end..weights.end + outputs;
            start = biases.end;
            Layer {
                inputs,
                outputs,
                weights,
                biases,
            }
        };
        Self {
            layers: widths.windows(2).map(layer).collect(),
        }
    }

    /// Length of the flat parameter and gradient vectors.
    pub fn parameter_count(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.biases.end)
    }

    /// Random weights (uniform, scaled for ReLU after He et al. 2015, arXiv:1502.01852) and biases of zero.
    pub fn initial_parameters(&self, seed: u64) -> Vec<f32> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut parameters = vec![0.0; self.parameter_count()];
        for layer in &self.layers {
            let bound = (6.0 / layer.inputs as f32).sqrt();
            parameters[layer.weights.clone()].fill_with(|| random.random_range(-bound..bound));
        }
        parameters
    }

    /// Adds the gradient, summed over the images of `batch`, to `gradient`; returns the loss, summed as well.
    pub fn add_gradient(
        &self,
        parameters: &[f32],
        batch: &Digits,
        scratch: &mut Scratch,
        gradient: &mut [f32],
    ) -> f32 {
        if batch.is_empty() {
            return 0.0;
        }
        self.forward(parameters, &batch.pixels, scratch);
        let classes = self.layers[self.layers.len() - 1].outputs;
        let logits = &scratch.activations[self.layers.len() - 1];
        scratch.delta.clone_from(logits);
        let mut loss = 0.0;
        for (delta, &label) in scratch.delta.chunks_exact_mut(classes).zip(&batch.labels) {
            loss += softmax_cross_entropy(delta, usize::from(label));
        }
        self.backward(parameters, &batch.pixels, scratch, gradient);
        loss
    }

    /// The share of images whose most likely class is the label, 0..=1; 0 for no image.
    pub fn accuracy(&self, parameters: &[f32], images: &Digits, scratch: &mut Scratch) -> f64 {
        if images.is_empty() {
            return 0.0;
        }
        self.forward(parameters, &images.pixels, scratch);
        let classes = self.layers[self.layers.len() - 1].outputs;
        let logits = scratch.activations[self.layers.len() - 1].chunks_exact(classes);
        let right = logits
            .zip(&images.labels)
            .filter(|(logits, label)| likeliest(logits) == usize::from(**label));
        right.count() as f64 / images.len() as f64
    }

    fn forward(&self, parameters: &[f32], inputs: &[f32], scratch: &mut Scratch) {
        scratch.activations.resize_with(self.layers.len(), Vec::new);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, rest) = scratch.activations.split_at_mut(index);
            let inputs = before.last().map_or(inputs, Vec::as_slice);
            let outputs = &mut rest[0];
            outputs.clear();
            for _ in 0..inputs.len() / layer.inputs {
                outputs.extend_from_slice(&parameters[layer.biases.clone()]);
            }
            let left = Left::rows_of(inputs, layer.inputs);
            multiply_add(outputs, left, &parameters[layer.weights.clone()], layer.outputs);
            if index + 1 < self.layers.len() {
                outputs.iter_mut().for_each(|value| *value = value.max(0.0));
            }
        }
    }

    /// Walks back from `scratch.delta`, the gradient by the logits.
    fn backward(&self, parameters: &[f32], inputs: &[f32], scratch: &mut Scratch, gradient: &mut [f32]) {
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let before = index.checked_sub(1).map(|before| &scratch.activations[before]);
            let inputs = before.map_or(inputs, Vec::as_slice);
            let weight_gradient = &mut gradient[layer.weights.clone()];
            let left = Left::transpose_of(inputs, layer.inputs);
            multiply_add(weight_gradient, left, &scratch.delta, layer.outputs);
            let bias_gradient = &mut gradient[layer.biases.clone()];
            for delta in scratch.delta.chunks_exact(layer.outputs) {
                bias_gradient
                    .iter_mut()
                    .zip(delta)
                    .for_each(|(sum, value)| *sum += value);
            }
            // The images themselves need no gradient.
            let Some(before) = before else { break };
            transpose(
                &mut scratch.transposed,
                &parameters[layer.weights.clone()],
                layer.outputs,
            );
            scratch.delta_before.clear();
            scratch.delta_before.resize(before.len(), 0.0);
            let left = Left::rows_of(&scratch.delta, layer.outputs);
            multiply_add(&mut scratch.delta_before, left, &scratch.transposed, layer.inputs);
            for (delta, &output) in scratch.delta_before.iter_mut().zip(before) {
                *delta = if output > 0.0 { *delta } else { 0.0 };
            }
            std::mem::swap(&mut scratch.delta, &mut scratch.delta_before);
        }
    }
}

/// Turns one image's logits into the gradient of its loss by them; returns the loss.
fn softmax_cross_entropy(logits: &mut [f32], label: usize) -> f32 {
    // Shifted by the largest logit, which changes nothing but keeps `exp` from overflowing.
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let label_logit = logits[label] - largest;
    logits
        .iter_mut()
        .for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|value| *value /= sum);
    logits[label] -= 1.0;
    sum.ln() - label_logit
}

fn likeliest(logits: &[f32]) -> usize {
    (1..logits.len()).fold(
        0,
        |best, class| if logits[class] > logits[best] { class } else { best },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::digits::shard;

    fn some_digits(count: usize) -> Digits {
        Digits::shipped().unwrap().select(&(0..count).collect::<Vec<_>>())
    }

    fn gradient(mlp: &Mlp, parameters: &[f32], batch: &Digits) -> (f32, Vec<f32>) {
        let mut gradient = vec![0.0; mlp.parameter_count()];
        let loss = mlp.add_gradient(parameters, batch, &mut Scratch::default(), &mut gradient);
        (loss, gradient)
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let mlp = Mlp::new(&[64, 12, 9, 10]);
        let batch = some_digits(5);
        let parameters = mlp.initial_parameters(4);
        let (_, exact) = gradient(&mlp, &parameters, &batch);
        let step = 4e-3;
        let mut worst = 0.0f32;
        for index in 0..parameters.len() {
            let loss_at = |value: f32| {
                let mut moved = parameters.clone();
                moved[index] = value;
                gradient(&mlp, &moved, &batch).0
            };
            let slope =
                (loss_at(parameters[index] + step) - loss_at(parameters[index] - step)) / (2.0 * step);
            worst = worst.max((slope - exact[index]).abs() / (1.0 + exact[index].abs()));
        }
        assert!(worst < 0.01, "largest difference {worst}");
    }

    #[test]
    fn sharded_gradients_add_up_to_the_batch() {
        let mlp = Mlp::new(&[64, 32, 32, 10]);
        let parameters = mlp.initial_parameters(1);
        let batch = some_digits(50);
        let rows: Vec<usize> = (0..batch.len()).collect();
        let (whole_loss, whole) = gradient(&mlp, &parameters, &batch);
        for world in [1, 2, 3, 7, 64] {
            let mut sum = vec![0.0; whole.len()];
            let mut loss = 0.0;
            for rank in 0..world {
                let part = batch.select(shard(&rows, rank, world));
                loss += mlp.add_gradient(&parameters, &part, &mut Scratch::default(), &mut sum);
            }
            assert!((loss - whole_loss).abs() < 1e-4 * whole_loss, "{world} workers");
            let largest = whole
                .iter()
                .fold(0.0f32, |largest, value| largest.max(value.abs()));
            for (sum, whole) in sum.iter().zip(&whole) {
                assert!(
                    (sum - whole).abs() < 1e-5 * largest,
                    "{world} workers: {sum} and {whole}"
                );
            }
        }
    }

    #[test]
    fn initial_parameters_depend_on_the_seed_alone() {
        let mlp = Mlp::new(&[64, 256, 256, 10]);
        assert_eq!(mlp.parameter_count(), 85_002);
        assert_eq!(mlp.initial_parameters(5), mlp.initial_parameters(5));
        assert_ne!(mlp.initial_parameters(5), mlp.initial_parameters(6));
    }

    #[test]
    fn large_logits_stay_finite() {
        let mut logits = [1000.0, -1000.0, 0.0];
        assert_eq!(softmax_cross_entropy(&mut logits, 1), 2000.0);
        assert_eq!(logits, [1.0, -1.0, 0.0]);
    }
}
