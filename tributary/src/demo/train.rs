//! Data-parallel training: compute, sum over workers, step.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::digest::ParameterDigest;
use super::digits::{CLASSES, Digits, DigitsError, PIXELS, Split, shard, shuffled};
use super::mlp::{Mlp, Scratch};
use super::optimiser::Momentum;
use super::reduce::AllReduce;
use super::stagger::Stagger;

const WIDTHS: [usize; 4] = [PIXELS, 256, 256, CLASSES];

/// What is trained and how; all workers of a job use the same, but for the delays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// Passes over the training images.
    pub epochs: usize,
    /// Images a step, over all workers; the last step of an epoch takes what is left.
    pub global_batch: usize,
    /// Rate of the first step; it falls in a straight line towards zero after the last.
    pub learning_rate: f32,
    /// Part of the velocity that a step keeps, 0..1.
    pub momentum: f32,
    /// Decides the first weights and the order of images.
    pub seed: u64,
    /// Delays that force another arrival order; they change no result.
    pub stagger: Option<Stagger>,
    /// What each of this worker's gradients takes longer than it must.
    pub delay: Duration,
}

impl Default for TrainConfig {
    /// Reaches 97 % of unseen digits with a margin. A rate twice as high reaches a little more, but amplifies
    /// rounding differences tenfold, so that the curves of one and of many processes part visibly.
    fn default() -> Self {
        Self {
            epochs: 15,
            global_batch: 96,
            learning_rate: 0.1,
            momentum: 0.9,
            seed: 1,
            stagger: None,
            delay: Duration::ZERO,
        }
    }
}

/// Why training stopped; `E` is the all-reduce's error.
#[derive(Debug, Error)]
pub enum TrainError<E> {
    /// There is nothing to do, or nobody to do it.
    #[error(
        "cannot train {epochs} epochs in batches of {global_batch} as rank {rank} of {world}: \
             all must be at least 1, and the rank below the world size"
    )]
    Config {
        /// Epochs asked for.
        epochs: usize,
        /// Images a step asked for.
        global_batch: usize,
        /// This worker.
        rank: usize,
        /// Number of workers.
        world: usize,
    },
    /// The shipped images cannot be read.
    #[error(transparent)]
    Data(#[from] DigitsError),
    /// The sum over workers failed.
    #[error("step {step}: all-reduce failed: {source}")]
    AllReduce {
        /// Step number, from 0.
        step: u64,
        /// What the all-reduce said.
        source: E,
    },
    /// The loss is infinite or not a number. All workers see the same loss, so all stop here.
    #[error("step {step}: the loss is {loss}; use a smaller learning rate than {learning_rate}")]
    Diverged {
        /// Step number, from 0.
        step: u64,
        /// The loss.
        loss: f32,
        /// Rate of the first step.
        learning_rate: f32,
    },
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Mean loss of an image of the global batch, before the step.
    pub loss: f32,
    /// Seconds in gradient and optimiser.
    pub compute_seconds: f64,
    /// Seconds in the all-reduce, waiting for slower workers included.
    pub reduce_seconds: f64,
    /// End of the step, in seconds since the start of training.
    pub ended_at: f64,
}

/// Where training stands after an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Epochs done.
    pub epoch: usize,
    /// Epochs in all.
    pub epochs: usize,
    /// Mean loss of an image over the epoch, each before its step.
    pub loss: f32,
    /// Share of unseen images recognised, 0..=1.
    pub accuracy: f64,
}

/// The result of training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOutcome {
    /// One record an epoch.
    pub epochs: Vec<EpochRecord>,
    /// One record a step, each with one all-reduce.
    pub steps: Vec<StepRecord>,
    /// Bytes that each all-reduce summed.
    pub reduce_bytes: u64,
    /// The network.
    pub parameters: Vec<f32>,
    /// Fingerprint of the network.
    pub digest: ParameterDigest,
    /// Seconds from the first step to the last evaluation.
    pub wall_seconds: f64,
}

/// The parameters that training begins with, alike in every process that is given the same seed.
pub fn initial_parameters(config: &TrainConfig) -> Vec<f32> {
    Mlp::new(&WIDTHS).initial_parameters(config.seed)
}

/// Trains as worker `rank` of `world`, and calls `progress` after each epoch.
///
/// The baseline is the same call with [`NoReduce`](super::NoReduce) in a world of one.
pub fn train<R: AllReduce>(
    config: &TrainConfig,
    rank: usize,
    world: usize,
    all_reduce: &mut R,
    mut progress: impl FnMut(&EpochRecord),
) -> Result<TrainOutcome, TrainError<R::Error>> {
    let TrainConfig {
        epochs, global_batch, ..
    } = *config;
    if epochs == 0 || global_batch == 0 || rank >= world {
        return Err(TrainError::Config {
            epochs,
            global_batch,
            rank,
            world,
        });
    }
    let Split { train, test } = Digits::shipped()?.split();
    let mut worker = Worker::new(config, rank, world, &train);
    let mut records = Vec::with_capacity(epochs);
    for epoch in 0..epochs {
        let loss = worker.epoch(epoch, all_reduce)?;
        let accuracy = worker
            .mlp
            .accuracy(&worker.parameters, &test, &mut worker.scratch);
        let record = EpochRecord {
            epoch: epoch + 1,
            epochs,
            loss,
            accuracy,
        };
        progress(&record);
        records.push(record);
    }
    Ok(TrainOutcome {
        epochs: records,
        reduce_bytes: size_of_val(worker.gradient.as_slice()) as u64,
        wall_seconds: worker.start.elapsed().as_secs_f64(),
        digest: ParameterDigest::of(&worker.parameters),
        parameters: worker.parameters,
        steps: worker.steps,
    })
}

struct Worker<'a> {
    config: &'a TrainConfig,
    rank: usize,
    world: usize,
    images: &'a Digits,
    mlp: Mlp,
    parameters: Vec<f32>,
    /// The gradient and, as the last element, the loss, so that one all-reduce sums both.
    gradient: Vec<f32>,
    momentum: Momentum,
    scratch: Scratch,
    steps: Vec<StepRecord>,
    start: Instant,
}

impl<'a> Worker<'a> {
    fn new(config: &'a TrainConfig, rank: usize, world: usize, images: &'a Digits) -> Self {
        let mlp = Mlp::new(&WIDTHS);
        Self {
            config,
            rank,
            world,
            images,
            parameters: mlp.initial_parameters(config.seed),
            gradient: vec![0.0; mlp.parameter_count() + 1],
            momentum: Momentum::new(mlp.parameter_count(), config.momentum),
            mlp,
            scratch: Scratch::default(),
            steps: Vec::new(),
            start: Instant::now(),
        }
    }

    /// Takes every step of an epoch; returns the mean loss of an image.
    fn epoch<R: AllReduce>(&mut self, epoch: usize, all_reduce: &mut R) -> Result<f32, TrainError<R::Error>> {
        let order = shuffled(self.images.len(), self.config.seed, epoch as u64);
        let mut loss_sum = 0.0;
        for batch in order.chunks(self.config.global_batch) {
            loss_sum += self.step(batch, all_reduce)? * batch.len() as f32;
        }
        Ok(loss_sum / order.len() as f32)
    }

    /// One step over a global batch; returns the mean loss of an image.
    fn step<R: AllReduce>(
        &mut self,
        batch: &[usize],
        all_reduce: &mut R,
    ) -> Result<f32, TrainError<R::Error>> {
        let step = self.steps.len() as u64;
        let started = Instant::now();
        if all_reduce.is_behind() {
            self.gradient.fill(0.0);
        } else {
            self.local_gradient(batch);
            std::thread::sleep(self.config.delay);
        }
        let mut compute = started.elapsed();

        if let Some(stagger) = &self.config.stagger {
            std::thread::sleep(stagger.delay(self.rank, step));
        }
        let started = Instant::now();
        all_reduce
            .sum(&mut self.gradient)
            .map_err(|source| TrainError::AllReduce { step, source })?;
        let reduce = started.elapsed();

        let started = Instant::now();
        let loss = self.apply(batch.len(), step)?;
        compute += started.elapsed();
        self.record(loss, compute, reduce);
        Ok(loss)
    }

    /// The gradient and loss sums over this worker's part of the batch.
    fn local_gradient(&mut self, batch: &[usize]) {
        let part = self.images.select(shard(batch, self.rank, self.world));
        self.gradient.fill(0.0);
        if let Some((loss, gradient)) = self.gradient.split_last_mut() {
            *loss = self
                .mlp
                .add_gradient(&self.parameters, &part, &mut self.scratch, gradient);
        }
    }

    /// Steps the optimiser with the sums over all workers; returns the mean loss of an image.
    fn apply<E>(&mut self, batch: usize, step: u64) -> Result<f32, TrainError<E>> {
        let (gradient, loss_sum) = self.gradient.split_at(self.mlp.parameter_count());
        let loss = loss_sum[0] / batch as f32;
        if !loss.is_finite() {
            let learning_rate = self.config.learning_rate;
            return Err(TrainError::Diverged {
                step,
                loss,
                learning_rate,
            });
        }
        let learning_rate = self.learning_rate(step);
        self.momentum
            .step(&mut self.parameters, gradient, batch, learning_rate);
        Ok(loss)
    }

    fn learning_rate(&self, step: u64) -> f32 {
        let steps = self.config.epochs * self.images.len().div_ceil(self.config.global_batch);
        self.config.learning_rate * (1.0 - step as f32 / steps as f32)
    }

    fn record(&mut self, loss: f32, compute: Duration, reduce: Duration) {
        self.steps.push(StepRecord {
            loss,
            compute_seconds: compute.as_secs_f64(),
            reduce_seconds: reduce.as_secs_f64(),
            ended_at: self.start.elapsed().as_secs_f64(),
        });
    }
}
