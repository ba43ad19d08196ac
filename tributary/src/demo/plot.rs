//! The demo's curves as one SVG: loss against one process on the left, goodput of each worker on the right.
//!
//! Text is left to the viewer's fonts; drawing needs none.

use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use thiserror::Error;

use super::report::WorkerReport;

const SIZE: (u32, u32) = (1200, 500);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 44, 52);
const GRID: RGBColor = RGBColor(226, 229, 234);
const SINGLE: RGBColor = RGBColor(240, 170, 80);
const PARALLEL: RGBColor = RGBColor(25, 95, 170);
/// Points of a loss curve; more would only make the file larger.
const LOSS_POINTS: usize = 150;
/// A longer legend would hide the curves.
const LEGEND_WORKERS: usize = 8;
const MEGABYTE: f64 = 1e6;
/// Colours apart in hue and lightness (Okabe and Ito's set), used in turn.
const WORKERS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// The drawing failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot draw the training curves: {0}")]
pub struct PlotError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Curve = Vec<(f64, f64)>;

/// Draws the run of `workers` beside the same training in one process; returns the SVG.
pub fn render_svg(single: &WorkerReport, workers: &[WorkerReport]) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SIZE.0 / 2);
        draw_loss(&left, single, workers)?;
        draw_goodput(&right, workers)?;
        root.present()?;
    }
    Ok(svg)
}

fn draw_loss(area: &Area<'_>, single: &WorkerReport, workers: &[WorkerReport]) -> Result<(), PlotError> {
    let parallel = workers.first().map(loss_curve).unwrap_or_default();
    let alone = loss_curve(single);
    let all = || alone.iter().chain(&parallel);
    let epochs = all().map(|point| point.0).fold(1.0, f64::max);
    let low = all().map(|point| point.1).fold(1.0, f64::min).max(1e-6);
    let high = all().map(|point| point.1).fold(low, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Training loss", title())
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..epochs, (low * 0.8..high * 1.25).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("epoch")
        .y_desc("cross-entropy per image (nats)")
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .axis_desc_style((FONT, 17, &INK))
        .label_style((FONT, 15, &INK))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    // The wide pale line stays visible under the thin one where the two agree.
    let curves = [
        ("one process".to_owned(), alone, SINGLE.stroke_width(7)),
        (
            format!("data-parallel, workers: {}", workers.len()),
            parallel,
            PARALLEL.stroke_width(2),
        ),
    ];
    for (name, curve, style) in curves {
        chart
            .draw_series(LineSeries::new(curve, style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    draw_legend(&mut chart)
}

fn draw_goodput(area: &Area<'_>, workers: &[WorkerReport]) -> Result<(), PlotError> {
    let samples = || workers.iter().flat_map(|worker| &worker.goodput);
    let end = samples().map(|sample| sample.at).fold(0.0, f64::max);
    let top = samples()
        .map(|sample| sample.bytes_per_second)
        .fold(0.0, f64::max)
        / MEGABYTE;
    // Room for the legend above the curves.
    let headroom = 1.1 + 0.09 * workers.len().min(LEGEND_WORKERS) as f64;
    // An axis needs a length, also when nothing was measured.
    let (end, top) = (
        if end > 0.0 { end } else { 1.0 },
        if top > 0.0 { top * headroom } else { 1.0 },
    );
    let mut chart = ChartBuilder::on(area)
        .caption("Goodput of the all-reduce", title())
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("time since the start of training (s)")
        .y_desc("summed gradient per worker (MB/s)")
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .axis_desc_style((FONT, 17, &INK))
        .label_style((FONT, 15, &INK))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (worker, &colour) in workers.iter().zip(WORKERS.iter().cycle()) {
        let points = worker
            .goodput
            .iter()
            .map(|sample| (sample.at, sample.bytes_per_second / MEGABYTE));
        let style = colour.stroke_width(2);
        let series = chart.draw_series(LineSeries::new(points, style))?;
        if worker.rank < LEGEND_WORKERS {
            series
                .label(format!("worker {}", worker.rank))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
        }
    }
    draw_legend(&mut chart)
}

fn draw_legend<'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, C>,
) -> Result<(), PlotError> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .legend_area_size(32)
        .label_font((FONT, 16, &INK))
        .background_style(WHITE.mix(0.9))
        .border_style(GRID)
        .draw()?;
    Ok(())
}

/// A tick's number without trailing zeros or the dust of binary fractions.
fn short(value: &f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

fn title() -> TextStyle<'static> {
    (FONT, 22, &INK).into_text_style(&SIZE)
}

/// Mean loss of groups of neighbouring steps, by epochs done.
fn loss_curve(worker: &WorkerReport) -> Curve {
    let steps = worker.step_losses.len();
    let steps_per_epoch = steps as f64 / worker.epochs.len().max(1) as f64;
    let group = steps.div_ceil(LOSS_POINTS).max(1);
    let point = |(index, losses): (usize, &[f32])| {
        let middle = index as f64 * group as f64 + losses.len() as f64 / 2.0;
        let mean = losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64;
        (middle / steps_per_epoch, mean)
    };
    worker.step_losses.chunks(group).enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::report::{Traffic, tests::outcome};
    use super::*;

    fn report(rank: usize, world: usize, steps: usize) -> WorkerReport {
        WorkerReport::new(rank, world, &outcome(steps, vec![1.0]), Traffic::default())
    }

    #[test]
    fn both_panels_name_their_axes_and_curves() {
        let workers: Vec<_> = (0..4).map(|rank| report(rank, 4, 225)).collect();
        let svg = render_svg(&report(0, 1, 225), &workers).unwrap();
        for text in [
            "Training loss",
            "nats",
            "one process",
            "workers: 4",
            "Goodput",
            "MB/s",
            "worker 3",
        ] {
            assert!(svg.contains(text), "no '{text}'");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn long_runs_and_many_workers_stay_small() {
        let workers: Vec<_> = (0..64).map(|rank| report(rank, 64, 20_000)).collect();
        let svg = render_svg(&report(0, 1, 20_000), &workers).unwrap();
        assert!(svg.len() < 200_000, "{} bytes", svg.len());
    }

    #[test]
    fn nothing_measured_still_draws() {
        let mut empty = report(0, 2, 0);
        empty.epochs.clear();
        render_svg(&empty, &[]).unwrap();
        render_svg(&empty, std::slice::from_ref(&empty)).unwrap();
    }
}
