//! agg-model
