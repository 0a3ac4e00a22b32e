//! A chart of any form, as one type.

use super::against::MetricPlot;
use crate::plan::plots::PlotPlan;
use crate::plot::{BarChart, HeatMap, LineChart, Scene};
use crate::store::table::Table;

/// A chart of any form.
pub enum Chart {
    /// Lines over a common axis.
    Lines(LineChart),
    /// Groups of bars.
    Bars(BarChart),
    /// Values in a grid.
    Heat(HeatMap),
}

impl Chart {
    /// The same as the file has it.
    pub(super) fn of_plan(self, plot: &PlotPlan) -> Self {
        self.sized(plot.size).titled(plot.title.as_deref())
    }

    /// The same in another width and height; as usual if they are zero.
    pub(super) fn sized(mut self, new: [f32; 2]) -> Self {
        match &mut self {
            Self::Lines(LineChart { size, .. })
            | Self::Bars(BarChart { size, .. })
            | Self::Heat(HeatMap { size, .. }) => *size = new,
        }
        self
    }

    /// The same below another title, if there is one.
    pub(super) fn titled(mut self, new: Option<&str>) -> Self {
        let (Self::Lines(LineChart { title, .. })
        | Self::Bars(BarChart { title, .. })
        | Self::Heat(HeatMap { title, .. })) = &mut self;
        if let Some(new) = new {
            new.clone_into(title);
        }
        self
    }

    pub(super) fn draw(&self) -> Scene {
        match self {
            Self::Lines(chart) => chart.draw(),
            Self::Bars(chart) => chart.draw(),
            Self::Heat(chart) => chart.draw(),
        }
    }

    pub(super) fn data(&self) -> Table {
        match self {
            Self::Lines(chart) => chart.data(),
            Self::Bars(chart) => chart.data(),
            Self::Heat(chart) => chart.data(),
        }
    }
}

impl From<LineChart> for Chart {
    fn from(chart: LineChart) -> Self {
        Self::Lines(chart)
    }
}

impl From<BarChart> for Chart {
    fn from(chart: BarChart) -> Self {
        Self::Bars(chart)
    }
}

impl From<HeatMap> for Chart {
    fn from(chart: HeatMap) -> Self {
        Self::Heat(chart)
    }
}

impl From<MetricPlot> for Chart {
    fn from(chart: MetricPlot) -> Self {
        match chart {
            MetricPlot::Lines(chart) => Self::Lines(chart),
            MetricPlot::Bars(chart) => Self::Bars(chart),
        }
    }
}
