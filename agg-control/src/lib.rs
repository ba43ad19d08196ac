//! agg-control
