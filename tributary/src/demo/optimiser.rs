//! Stochastic gradient descent with momentum.
//!
//! Not Adam: dividing by the root of tiny second moments would blow up the last bits of fixed-point sums, and
//! the curves of one process and of many would part for no good reason.

/// The running direction of descent.
#[derive(Debug, Clone)]
pub struct Momentum {
    velocity: Vec<f32>,
    decay: f32,
}

impl Momentum {
    /// At rest. `decay` in 0..1 is the part of the velocity that a step keeps.
    pub fn new(parameter_count: usize, decay: f32) -> Self {
        Self {
            velocity: vec![0.0; parameter_count],
            decay,
        }
    }

    /// One step along `gradient_sum` over `batch` images. Multiplications and additions only: the same bits on
    /// every machine.
    pub fn step(&mut self, parameters: &mut [f32], gradient_sum: &[f32], batch: usize, learning_rate: f32) {
        let scale = 1.0 / batch as f32;
        for ((parameter, velocity), gradient) in
            parameters.iter_mut().zip(&mut self.velocity).zip(gradient_sum)
        {
            *velocity = self.decay * *velocity + scale * gradient;
            *parameter -= learning_rate * *velocity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_averages_and_keeps_momentum() {
        let mut momentum = Momentum::new(1, 0.5);
        let mut parameters = [1.0];
        momentum.step(&mut parameters, &[8.0], 4, 0.25);
        assert_eq!(parameters, [0.5]);
        momentum.step(&mut parameters, &[0.0], 4, 0.25);
        assert_eq!(parameters, [0.25]);
    }
}
