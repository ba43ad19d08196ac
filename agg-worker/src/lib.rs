//! agg-worker
